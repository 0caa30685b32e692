// SPDX-License-Identifier: BSD-2-Clause
// jespan for C++17 and later: spans, scopes, labels, attachments, limits and memory resources as classes. examples/cpp has
// programs with coroutines and std::jthread. The macros of jespan.h work in C++ as well.
//
// Nothing here throws, except region and what allocates from a memory resource. Objects of these classes do not keep the
// sites that they are given: a site must not go away while a span of it is open.
#ifndef JESPAN_JESPAN_HPP
#define JESPAN_JESPAN_HPP

#if __cplusplus < 201703L
#error "jespan/jespan.hpp needs C++17 (-std=c++17); jespan/jespan.h does with C++11"
#else

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory_resource>
#include <new>
#include <string_view>
#include <system_error>
#include <type_traits>

#include <jespan/jespan.h>
#include <jespan/limit.h>

namespace jespan {

// A label with its own copy of the value, from a string or an integer:
//     jespan::label{"tenant", name}        name may be a std::string_view, a std::string or a const char *
//     jespan::label{"shard", 7}
// `key` must stay as long as the label, as a literal does. A value longer than JESPAN_MAX_STRING_BYTES is cut.
class label {
public:
    label(const char *key, std::string_view value) noexcept : key_{key}
    {
        std::size_t bytes = value.size() < max_bytes ? value.size() : max_bytes;
        if (bytes)
            std::memcpy(text_, value.data(), bytes);
        text_[bytes] = '\0';
    }
    label(const char *key, const char *value) noexcept : label{value ? key : nullptr, std::string_view{value ? value : ""}} {}
    template <class Integer, std::enable_if_t<std::is_integral_v<Integer>, int> = 0>
    label(const char *key, Integer n) noexcept : key_{key}, integer_{static_cast<std::int64_t>(n)}, type_{JESPAN_TYPE_INTEGER}
    {
        text_[0] = '\0';
    }

    // For the functions of jespan.h; valid as long as this label.
    jespan_label c_label() const noexcept { return {key_, type_ == JESPAN_TYPE_STRING ? text_ : nullptr, integer_, type_}; }

private:
    static constexpr std::size_t max_bytes = JESPAN_MAX_STRING_BYTES + 1; // one more, so that jespan cuts and counts it

    const char *key_;
    std::int64_t integer_ = 0;
    std::uint32_t type_ = JESPAN_TYPE_STRING;
    char text_[max_bytes + 1];
};

// Private: an array for the functions of jespan.h. One label more than there may be, so that jespan counts the list as too long.
struct labels_ {
    explicit labels_(std::initializer_list<label> list) noexcept
    {
        for (const label &l : list)
            if (count < JESPAN_MAX_LABELS + 1)
                array[count++] = l.c_label();
    }
    jespan_label array[JESPAN_MAX_LABELS + 1];
    std::size_t count = 0;
};

// A span that is open as long as this object, wherever that is moved to. Entering it takes a scope:
//     JESPAN_SITE(site, "request");
//     jespan::span span{site, {{"route", route}, {"tenant", tenant}}};
//     jespan::scope scope{span};
class span {
public:
    span() noexcept = default;

    // Opens a span. It is empty if that fails, with errno as jespan_open() sets it.
    explicit span(const jespan_site &site, std::initializer_list<label> labels = {}, jespan_context_t parent = JESPAN_CURRENT) noexcept
    {
        const labels_ given{labels};
        span_ = jespan_open(&site, parent, given.array, given.count);
    }

    // Takes over an open span; the destructor closes it.
    explicit span(jespan_span_t *open) noexcept : span_{open} {}

    span(span &&other) noexcept : span_{other.release()} {}
    span &operator=(span &&other) noexcept
    {
        if (this != &other) {
            close_anyway();
            span_ = other.release();
        }
        return *this;
    }
    ~span() { close_anyway(); }

    // Closes the span before its time. Returns what jespan_close() does; after EBUSY the span is still open.
    int close() noexcept
    {
        int error = jespan_close(span_);
        if (error != EBUSY)
            span_ = nullptr;
        return error;
    }

    // Gives the span up without closing it.
    jespan_span_t *release() noexcept
    {
        jespan_span_t *released = span_;
        span_ = nullptr;
        return released;
    }

    // As jespan_add_label(), which returns the same.
    int add_label(const label &added) noexcept
    {
        const jespan_label l = added.c_label();
        return span_ ? jespan_add_label(span_, &l) : EINVAL;
    }

    jespan_span_t *get() const noexcept { return span_; }
    explicit operator bool() const noexcept { return span_ != nullptr; }

private:
    // A destructor cannot refuse: a region with survivors is set aside, also with JESPAN_ARENA_REFUSE.
    void close_anyway() noexcept
    {
        if (jespan_close(span_) != EBUSY)
            return;
        jespan_block block{};
        block.entered = reinterpret_cast<std::uintptr_t>(span_);
        jespan_exit_region(&block);
    }

    jespan_span_t *span_ = nullptr;
};

// From here to the end of the C++ scope, the calling thread is in a span: one that is open, or one of its own, as with JESPAN().
//     jespan::scope scope{span};
//     jespan::scope scope{site, {{"route", route}}};
// It must end on the thread that it began on. Without memory the thread stays where it was.
class scope {
public:
    explicit scope(const span &entered) noexcept : scope{entered.get()} {}
    explicit scope(jespan_span_t *entered) noexcept : span_{jespan_enter(entered) == 0 ? entered : nullptr} {}
    explicit scope(const jespan_site &site) noexcept { jespan_enter_block(&block_, &site, &site.name, 1); }
    scope(const jespan_site &site, std::initializer_list<label> labels) noexcept
    {
        const labels_ given{labels};
        jespan_enter_block_labels(&block_, &site, given.array, given.count);
    }
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
    ~scope()
    {
        if (span_)
            jespan_exit(span_);
        else
            jespan_exit_block(&block_);
    }

private:
    jespan_span_t *span_ = nullptr;
    jespan_block block_{};
};

// From here to the end of the C++ scope, `context` is current on the calling thread:
//     jespan::attachment attachment{job->context};
// If there is no such context, or no memory, the thread stays where it was.
class attachment {
public:
    explicit attachment(jespan_context_t context) noexcept : saved_{errno}, previous_{jespan_attach(context)} { errno = saved_; }
    attachment(const attachment &) = delete;
    attachment &operator=(const attachment &) = delete;
    ~attachment()
    {
        int saved = errno;
        if (previous_ != JESPAN_INVALID && jespan_attach(previous_) == JESPAN_INVALID)
            jespan_attach(JESPAN_BASE); // what was attached before is gone
        errno = saved;
    }

    // Whether the context is attached.
    explicit operator bool() const noexcept { return previous_ != JESPAN_INVALID; }

private:
    int saved_;
    jespan_context_t previous_;
};

// Limits of a context as long as this object, in bytes: see jespan_set_limit(). The end takes the limits of the context away.
//     jespan::limit limit{jespan_current(), 0, 16 << 20};
class limit {
public:
    limit(jespan_context_t context, std::uint64_t soft_bytes, std::uint64_t hard_bytes) noexcept
        : context_{context == JESPAN_CURRENT || context == JESPAN_BASE ? number(context) : context},
          error_{jespan_set_limit(context_, soft_bytes, hard_bytes)}
    {
    }
    limit(const limit &) = delete;
    limit &operator=(const limit &) = delete;
    ~limit()
    {
        if (error_ == 0)
            jespan_set_limit(context_, 0, 0);
    }

    // What jespan_set_limit() returned, and whether the limits hold.
    int error() const noexcept { return error_; }
    explicit operator bool() const noexcept { return error_ == 0; }

private:
    // The end may be in another context, or on another thread.
    static jespan_context_t number(jespan_context_t context) noexcept
    {
        attachment there{context};
        return jespan_current();
    }

    jespan_context_t context_;
    int error_;
};

// Private: for memory resources. NULL without memory.
inline void *malloc_(std::size_t bytes, std::size_t alignment) noexcept
{
    return alignment <= alignof(std::max_align_t) ? std::malloc(bytes) : aligned_alloc(alignment, bytes);
}

// A memory resource whose memory is credited to one context, whatever the calling thread has entered:
//     jespan::resource resource{cache_context};
//     std::pmr::vector<char> kept{&resource};
// Any thread may use it. It owns nothing, so it may end before the memory that it made. The context must exist as long as it is used.
class resource : public std::pmr::memory_resource {
public:
    explicit resource(jespan_context_t context) noexcept : context_{context} {}

private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        JESPAN_CREDIT(context_);
        void *p = malloc_(bytes, alignment);
        if (p == nullptr)
            throw std::bad_alloc{};
        return p;
    }
    void do_deallocate(void *p, std::size_t, std::size_t) override { std::free(p); }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override
    {
        return dynamic_cast<const resource *>(&other) != nullptr; // free() takes memory of all of them
    }

    jespan_context_t context_;
};

// A region (JESPAN_REGION() in jespan.h) as a memory resource, from its construction to its end:
//     JESPAN_SITE_ARENA(site, "parse", JESPAN_ARENA_REGION);
//     jespan::region region{site};
//     std::pmr::vector<std::pmr::string> words{&region};
// Its memory comes from the region whatever the calling thread has entered, and is freed with it, whether it was given back or
// not. Any thread may use it at any time. What it made must not be used after its end. Containers call destructors as
// always.
#ifndef JESPAN_DISABLE
class region : public std::pmr::memory_resource {
public:
    // Throws std::system_error with what jespan_open() sets errno to, and with EINVAL if the site is not JESPAN_ARENA_REGION.
    explicit region(const jespan_site &site, jespan_context_t parent = JESPAN_CURRENT) : span_{site, {}, parent}
    {
        const bool is_region = (site.arena.flags & JESPAN_ARENA_REGION) != 0;
        if (!span_ || !is_region)
            throw std::system_error{span_ ? EINVAL : errno, std::generic_category(), "jespan::region"};
    }
    region(const region &) = delete;
    region &operator=(const region &) = delete;

    // For jespan_enter() and the like.
    jespan_span_t *span() const noexcept { return span_.get(); }

private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        if (jespan_enter(span_.get()) != 0)
            throw std::bad_alloc{};
        void *p = malloc_(bytes, alignment);
        jespan_exit(span_.get());
        if (p == nullptr)
            throw std::bad_alloc{};
        return p;
    }
    void do_deallocate(void *p, std::size_t, std::size_t) override { std::free(p); }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

    jespan::span span_;
};
#else
// The standard's own resource frees all its memory at its end, too.
class region : public std::pmr::synchronized_pool_resource {
public:
    explicit region(const jespan_site &, jespan_context_t = JESPAN_CURRENT) {}
    jespan_span_t *span() const noexcept { return jespan_open(nullptr, JESPAN_CURRENT, nullptr, 0); }
};
#endif

} // namespace jespan

#endif
#endif
