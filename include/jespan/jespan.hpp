// SPDX-License-Identifier: BSD-2-Clause
// jespan for C++17 and later: the C interface, a guard for attachments, and regions as memory resources.
#ifndef JESPAN_JESPAN_HPP
#define JESPAN_JESPAN_HPP

#if __cplusplus < 201703L
#error "jespan/jespan.hpp needs C++17 (-std=c++17); jespan/jespan.h does with C++11"
#else

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory_resource>
#include <new>
#include <system_error>

#include <jespan/jespan.h>

namespace jespan {

// A context that is current on the calling thread from here to the end of the block, however that is left:
//     jespan::attached attached{job->context};
// Where there is no such context, or no memory, the thread stays where it is.
class attached {
public:
    explicit attached(jespan_context_t context) noexcept : saved_{errno}, previous_{jespan_attach(context)}
    {
        errno = saved_;
    }
    attached(const attached &) = delete;
    attached &operator=(const attached &) = delete;
    ~attached()
    {
        int saved = errno;
        if (previous_ != JESPAN_INVALID)
            jespan_attach(previous_);
        errno = saved;
    }

    // Whether it was attached.
    explicit operator bool() const noexcept { return previous_ != JESPAN_INVALID; }

private:
    int saved_;
    jespan_context_t previous_;
};

// A region (JESPAN_REGION() in jespan.h) for containers that take a memory resource, from its making to its end:
//     JESPAN_ARENA_SITE(site, "parse", JESPAN_ARENA_REGION);
//     jespan::region region{site};
//     std::pmr::vector<std::pmr::string> words{&region};
// Its memory comes from the region whatever the calling thread has entered, and goes with it, whether it was given back or
// not. Any thread may use it at any time, but what it made must not be used after its end. Objects' destructors are the
// containers' business, as ever.
class region : public std::pmr::memory_resource {
public:
    // Throws std::system_error with what jespan_open() sets errno to.
    explicit region(const jespan_site &site, jespan_context_t parent = JESPAN_CURRENT)
        : span_{jespan_open(&site, parent, nullptr, 0)}
    {
        if (span_ == nullptr)
            throw std::system_error{errno, std::generic_category(), "jespan::region"};
    }
    region(const region &) = delete;
    region &operator=(const region &) = delete;
    // A destructor cannot refuse: with survivors, the region is set aside, also one that JESPAN_ARENA_REFUSE would keep open.
    ~region() override
    {
        jespan_scope scope{};
        scope.entered = reinterpret_cast<std::uintptr_t>(span_);
        jespan_region_exit(&scope);
    }

    // For jespan_enter() and the like.
    jespan_span_t *span() const noexcept { return span_; }

private:
    void *do_allocate(std::size_t bytes, std::size_t alignment) override
    {
        if (jespan_enter(span_) != 0)
            throw std::bad_alloc{};
        void *p = alignment <= alignof(std::max_align_t) ? std::malloc(bytes) : aligned_alloc(alignment, bytes);
        jespan_exit(span_);
        if (p == nullptr)
            throw std::bad_alloc{};
        return p;
    }
    void do_deallocate(void *p, std::size_t, std::size_t) override { std::free(p); }
    bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override { return this == &other; }

    jespan_span_t *span_;
};

} // namespace jespan

#endif
#endif
