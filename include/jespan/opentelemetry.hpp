// SPDX-License-Identifier: BSD-2-Clause
// The spans of opentelemetry-cpp as spans of jespan, for C++14 and later. One call, before the program starts its first span:
//     opentelemetry::sdk::trace::TracerProvider provider{…};
//     jespan::otel::install(provider);
// docs/spans.md says what becomes of a span.
//
// The SDK hands a processor each span that starts, and a context storage each context that becomes current on a thread. A table
// leads from the identifiers of a span to jespan's span. What this header allocates is credited to the thread, outside any span.
#ifndef JESPAN_OPENTELEMETRY_HPP
#define JESPAN_OPENTELEMETRY_HPP

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <opentelemetry/common/attribute_value.h>
#include <opentelemetry/context/runtime_context.h>
#include <opentelemetry/sdk/trace/processor.h>
#include <opentelemetry/sdk/trace/recordable.h>
#include <opentelemetry/trace/context.h>

#include <jespan/jespan.h>

namespace jespan {
namespace otel {

// Private: all that follows up to `processor`. The objects below are one for all libraries of a process, and are never destroyed.

// jespan's spans by the identifiers of OpenTelemetry's spans that have started and not ended.
class open_spans_ {
public:
    JESPAN_API static open_spans_ &get()
    {
        static open_spans_ *spans = make();
        return *spans;
    }
    void add(const ::opentelemetry::trace::SpanContext &of, jespan_span_t *span)
    {
        JESPAN_CREDIT(JESPAN_BASE);
        const key k{of};
        part &p = parts_[k.part()];
        std::lock_guard<std::mutex> lock{p.mutex};
        p.spans[k] = span;
    }
    void remove(const ::opentelemetry::trace::SpanContext &of)
    {
        const key k{of};
        part &p = parts_[k.part()];
        std::lock_guard<std::mutex> lock{p.mutex};
        p.spans.erase(k);
    }
    jespan_span_t *find(const ::opentelemetry::trace::SpanContext &of)
    {
        const key k{of};
        part &p = parts_[k.part()];
        std::lock_guard<std::mutex> lock{p.mutex};
        auto found = p.spans.find(k);
        return found == p.spans.end() ? nullptr : found->second;
    }

private:
    struct key {
        std::uint64_t trace[2], span;

        explicit key(const ::opentelemetry::trace::SpanContext &of)
        {
            std::memcpy(trace, of.trace_id().Id().data(), sizeof trace);
            std::memcpy(&span, of.span_id().Id().data(), sizeof span);
        }
        bool operator==(const key &other) const
        {
            return span == other.span && trace[0] == other.trace[0] && trace[1] == other.trace[1];
        }
        std::size_t part() const { return (span ^ span >> 32) % 16; }
    };
    struct hash {
        std::size_t operator()(const key &k) const { return static_cast<std::size_t>(k.span ^ k.trace[0]); }
    };
    struct part {
        std::mutex mutex;
        std::unordered_map<key, jespan_span_t *, hash> spans;
    };

    static open_spans_ *make()
    {
        JESPAN_CREDIT(JESPAN_BASE);
        return new open_spans_;
    }

    part parts_[16];
};

// Sites by target and name. The names of spans may be without a bound, but jespan keeps sites for ever.
class sites_ {
public:
    static constexpr std::size_t max_names = 4096;

    JESPAN_API static sites_ &get()
    {
        static sites_ *sites = make();
        return *sites;
    }
    const jespan_site *of(const std::string &target, const std::string &name)
    {
        JESPAN_CREDIT(JESPAN_BASE);
        std::string text = target + '\0' + (name.empty() ? "(unnamed)" : name);
        std::lock_guard<std::mutex> lock{mutex_};
        if (known_.size() >= max_names && known_.find(text) == known_.end())
            text = std::string{'\0'} + "(other)";
        auto place = known_.emplace(std::move(text), jespan_site{}).first;
        const char *kept_target = place->first.c_str();
        place->second.target = kept_target;
        place->second.name = kept_target + std::strlen(kept_target) + 1;
        return &place->second;
    }

private:
    static sites_ *make()
    {
        JESPAN_CREDIT(JESPAN_BASE);
        return new sites_;
    }

    std::mutex mutex_;
    std::unordered_map<std::string, jespan_site> known_;
};

// An identifier, of a span or a trace.
template <class Bytes> std::array<char, 33> hexadecimal_(const Bytes &bytes)
{
    constexpr const char *digits = "0123456789abcdef";
    std::array<char, 33> text{};
    for (std::size_t i = 0; i < bytes.size(); i++) {
        text[2 * i] = digits[bytes.data()[i] >> 4];
        text[2 * i + 1] = digits[bytes.data()[i] & 0xf];
    }
    return text;
}

// What is attached on a thread, the innermost last. `span` is NULL if jespan has no span for the context.
struct attached_ {
    ::opentelemetry::context::Context context;
    jespan_span_t *span;
};

JESPAN_API inline std::vector<attached_> &attached_here_()
{
    static thread_local std::vector<attached_> stack;
    return stack;
}

// The span that the thread is in, NULL if there is none.
inline jespan_span_t *innermost_()
{
    const std::vector<attached_> &stack = attached_here_();
    for (std::size_t i = stack.size(); i > 0; i--)
        if (stack[i - 1].span)
            return stack[i - 1].span;
    return nullptr;
}

// The identifiers of the span of a context; not valid if it has none.
inline ::opentelemetry::trace::SpanContext identity_of_(const ::opentelemetry::context::Context &context)
{
    const auto value = context.GetValue(::opentelemetry::trace::kSpanKey);
    const auto *span = ::opentelemetry::nostd::get_if<::opentelemetry::nostd::shared_ptr<::opentelemetry::trace::Span>>(&value);
    return span && *span ? (*span)->GetContext() : ::opentelemetry::trace::SpanContext::GetInvalid();
}

// Publishes the span of the thread's current context for profilers of other processes, if otel_context is on. That span counts
// even if jespan has none for it.
inline void publish_()
{
    static const bool is_on = jespan_publish_trace(nullptr) != ENOTSUP;
    if (!is_on)
        return;
    const std::vector<attached_> &stack = attached_here_();
    const auto identity = stack.empty() ? ::opentelemetry::trace::SpanContext::GetInvalid() : identity_of_(stack.back().context);
    jespan_traceparent trace{};
    std::memcpy(trace.trace_id, hexadecimal_(identity.trace_id().Id()).data(), sizeof trace.trace_id);
    std::memcpy(trace.span_id, hexadecimal_(identity.span_id().Id()).data(), sizeof trace.span_id);
    trace.flags = identity.trace_flags().flags();
    jespan_publish_trace(identity.IsValid() ? &trace : nullptr);
}

// An attribute as the value of a label. An array is none.
struct value_ {
    std::string text;
    std::int64_t integer = 0;
    std::uint32_t type = JESPAN_TYPE_STRING;
    bool is_valid = true;

    void operator()(bool b) { text = b ? "true" : "false"; }
    void operator()(std::int32_t n) { set(n); }
    void operator()(std::uint32_t n) { set(n); }
    void operator()(std::int64_t n) { set(n); }
    void operator()(std::uint64_t n)
    {
        if (n <= INT64_MAX)
            set(static_cast<std::int64_t>(n));
        else
            text = std::to_string(n);
    }
    void operator()(double d)
    {
        char digits[32];
        std::snprintf(digits, sizeof digits, "%g", d);
        text = digits;
    }
    void operator()(const char *s) { set(s ? s : "", s ? std::strlen(s) : 0); }
    void operator()(::opentelemetry::nostd::string_view s) { set(s.data(), s.size()); }
    template <class Array> void operator()(const Array &) { is_valid = false; }

    jespan_label c_label(const char *key) const { return {key, type == JESPAN_TYPE_STRING ? text.c_str() : nullptr, integer, type}; }

private:
    void set(std::int64_t n)
    {
        integer = n;
        type = JESPAN_TYPE_INTEGER;
    }
    void set(const char *s, std::size_t bytes)
    {
        constexpr std::size_t max_bytes = JESPAN_MAX_STRING_BYTES + 1; // one more, so that jespan cuts and counts it
        text.assign(s, bytes < max_bytes ? bytes : max_bytes);
    }
};

// What the SDK tells about a span, from its start to its end. It closes jespan's span when it ends.
class recordable_ : public ::opentelemetry::sdk::trace::Recordable {
public:
    explicit recordable_(const std::vector<std::string> &keys) : keys_(keys) {}
    ~recordable_() override
    {
        if (!span_)
            return;
        open_spans_::get().remove(identity_);
        jespan_close(span_);
    }

    void open(const ::opentelemetry::trace::SpanContext &parent)
    {
        std::array<jespan_label, JESPAN_MAX_LABELS> labels;
        std::size_t count = 0;
        for (const auto &label : labels_)
            if (count < labels.size())
                labels[count++] = label.second.c_label(label.first);
        span_ = open_below(parent, sites_::get().of(target_, name_), labels.data(), count);
        labels_.clear();
        if (span_)
            open_spans_::get().add(identity_, span_);
    }

    void SetIdentity(const ::opentelemetry::trace::SpanContext &identity, ::opentelemetry::trace::SpanId) noexcept override
    {
        identity_ = identity;
        for (const std::string &key : keys_) {
            if (key == "trace_id")
                set(key, hexadecimal_(identity.trace_id().Id()).data());
            else if (key == "span_id")
                set(key, hexadecimal_(identity.span_id().Id()).data());
        }
    }
    void SetAttribute(::opentelemetry::nostd::string_view key, const ::opentelemetry::common::AttributeValue &value) noexcept override
    {
        for (const std::string &known : keys_)
            if (known.size() == key.size() && std::memcmp(known.data(), key.data(), key.size()) == 0)
                set(known, value);
    }
    void SetName(::opentelemetry::nostd::string_view name) noexcept override
    {
        JESPAN_CREDIT(JESPAN_BASE);
        name_.assign(name.data(), name.size());
    }
    void SetInstrumentationScope(const ::opentelemetry::sdk::instrumentationscope::InstrumentationScope &scope) noexcept override
    {
        JESPAN_CREDIT(JESPAN_BASE);
        target_ = scope.GetName();
    }

    void AddEvent(::opentelemetry::nostd::string_view, ::opentelemetry::common::SystemTimestamp,
                  const ::opentelemetry::common::KeyValueIterable &) noexcept override
    {
    }
    void AddLink(const ::opentelemetry::trace::SpanContext &, const ::opentelemetry::common::KeyValueIterable &) noexcept override {}
    void SetStatus(::opentelemetry::trace::StatusCode, ::opentelemetry::nostd::string_view) noexcept override {}
    void SetSpanKind(::opentelemetry::trace::SpanKind) noexcept override {}
    void SetResource(const ::opentelemetry::sdk::resource::Resource &) noexcept override {}
    void SetStartTime(::opentelemetry::common::SystemTimestamp) noexcept override {}
    void SetDuration(std::chrono::nanoseconds) noexcept override {}

private:
    // A parent that jespan does not know is in another process, or was not sampled. The span then belongs to what the thread is
    // in, unless that is another trace.
    static jespan_span_t *open_below(const ::opentelemetry::trace::SpanContext &parent, const jespan_site *site,
                                     const jespan_label *labels, std::size_t count)
    {
        jespan_span_t *known = parent.IsValid() ? open_spans_::get().find(parent) : nullptr;
        jespan_span_t *here = innermost_();
        if (known && known != here && jespan_enter(known) == 0) {
            jespan_span_t *span = jespan_open(site, JESPAN_CURRENT, labels, count);
            jespan_exit(known);
            return span;
        }
        bool is_other_trace = here && !known && (!parent.IsValid() || parent.IsRemote());
        return jespan_open(site, is_other_trace ? JESPAN_ROOT : JESPAN_CURRENT, labels, count);
    }

    // A label for open(); of an open span, a label from now on.
    void set(const std::string &key, const ::opentelemetry::common::AttributeValue &given)
    {
        const value_ value = value_of(given);
        const jespan_label label = value.c_label(key.c_str());
        if (!value.is_valid)
            return;
        if (span_)
            jespan_add_label(span_, &label);
        else
            keep(key.c_str(), value);
    }
    static value_ value_of(const ::opentelemetry::common::AttributeValue &given)
    {
        JESPAN_CREDIT(JESPAN_BASE);
        value_ value;
        ::opentelemetry::nostd::visit([&value](const auto &v) { value(v); }, given);
        return value;
    }
    void keep(const char *key, const value_ &value)
    {
        JESPAN_CREDIT(JESPAN_BASE);
        for (auto &label : labels_)
            if (label.first == key) {
                label.second = value;
                return;
            }
        labels_.emplace_back(key, value);
    }

    const std::vector<std::string> &keys_; // the processor's, which outlives its spans
    std::string name_, target_;
    std::vector<std::pair<const char *, value_>> labels_;
    ::opentelemetry::trace::SpanContext identity_ = ::opentelemetry::trace::SpanContext::GetInvalid();
    jespan_span_t *span_ = nullptr;
};

// Opens and closes a span of jespan's with each span that the SDK records. `keys` are the attributes that become labels, and may
// contain trace_id and span_id; "" takes those of the variable JESPAN_OTEL_LABELS, or else the ones in the code below.
class processor : public ::opentelemetry::sdk::trace::SpanProcessor {
public:
    explicit processor(const std::string &keys = "")
    {
        const char *variable = std::getenv("JESPAN_OTEL_LABELS");
        split(!keys.empty() ? keys.c_str() : variable ? variable : default_keys());
    }

    std::unique_ptr<::opentelemetry::sdk::trace::Recordable> MakeRecordable() noexcept override
    {
        JESPAN_CREDIT(JESPAN_BASE);
        return std::unique_ptr<::opentelemetry::sdk::trace::Recordable>(new recordable_(keys_));
    }
    void OnStart(::opentelemetry::sdk::trace::Recordable &span, const ::opentelemetry::trace::SpanContext &parent) noexcept override
    {
        if (!is_shut_down_.load(std::memory_order_relaxed))
            static_cast<recordable_ &>(span).open(parent);
    }
    void OnEnd(std::unique_ptr<::opentelemetry::sdk::trace::Recordable> &&span) noexcept override { span.reset(); }
    bool ForceFlush(std::chrono::microseconds) noexcept override { return true; }
    bool Shutdown(std::chrono::microseconds) noexcept override
    {
        is_shut_down_.store(true, std::memory_order_relaxed);
        return true;
    }

private:
    static const char *default_keys()
    {
        return "http.route,http.request.method,http.method,rpc.service,rpc.method,db.system,db.operation.name,"
               "messaging.destination.name";
    }
    void split(const char *list)
    {
        for (const char *end; *list; list = *end ? end + 1 : end) {
            end = list + std::strcspn(list, ",");
            if (end != list)
                keys_.emplace_back(list, end);
        }
    }

    std::vector<std::string> keys_;
    std::atomic<bool> is_shut_down_{false};
};

// Keeps the contexts of each thread as OpenTelemetry's own storage does. The thread is in the span of the innermost one. A context
// without a span, or with one that jespan does not know, leaves the thread where it is.
class context_storage : public ::opentelemetry::context::RuntimeContextStorage {
public:
    ::opentelemetry::context::Context GetCurrent() noexcept override
    {
        const std::vector<attached_> &stack = attached_here_();
        return stack.empty() ? ::opentelemetry::context::Context{} : stack.back().context;
    }

    ::opentelemetry::nostd::unique_ptr<::opentelemetry::context::Token>
    Attach(const ::opentelemetry::context::Context &context) noexcept override
    {
        auto token = push(context);
        enter(attached_here_().back());
        publish_();
        return token;
    }

    // Detaches the context, and all that were attached after it.
    bool Detach(::opentelemetry::context::Token &token) noexcept override
    {
        std::vector<attached_> &stack = attached_here_();
        std::size_t i = stack.size();
        while (i > 0 && !(token == stack[i - 1].context))
            i--;
        if (i == 0)
            return false;
        while (stack.size() >= i)
            leave(stack);
        publish_();
        return true;
    }

private:
    ::opentelemetry::nostd::unique_ptr<::opentelemetry::context::Token> push(const ::opentelemetry::context::Context &context)
    {
        JESPAN_CREDIT(JESPAN_BASE);
        attached_here_().push_back({context, nullptr});
        return CreateToken(context);
    }

    static void enter(attached_ &innermost)
    {
        const auto identity = identity_of_(innermost.context);
        jespan_span_t *known = identity.IsValid() ? open_spans_::get().find(identity) : nullptr;
        if (known && jespan_enter(known) == 0)
            innermost.span = known;
    }

    // The span may end with its last context, so it is no longer on the stack by then.
    static void leave(std::vector<attached_> &stack)
    {
        if (stack.back().span)
            jespan_exit(stack.back().span);
        const ::opentelemetry::context::Context last = std::move(stack.back().context);
        stack.pop_back();
    }
};

// Makes jespan follow the spans of an opentelemetry::sdk::trace::TracerProvider, on all threads. As
// RuntimeContext::SetRuntimeContextStorage() demands, it must come before the program's first span. It replaces the program's
// own context storage, if there is one.
template <class Provider> void install(Provider &provider)
{
    provider.AddProcessor(std::unique_ptr<::opentelemetry::sdk::trace::SpanProcessor>(new processor));
    ::opentelemetry::context::RuntimeContext::SetRuntimeContextStorage(
        ::opentelemetry::nostd::shared_ptr<::opentelemetry::context::RuntimeContextStorage>(new context_storage));
}

} // namespace otel
} // namespace jespan

#endif
