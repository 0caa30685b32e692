// SPDX-License-Identifier: BSD-2-Clause
// A stand-in for opentelemetry-cpp, written from the documentation of its classes, for machines without it: what
// jespan/opentelemetry.hpp and its test use, and no more. All spans are sampled.
#ifndef JESPAN_TESTS_OPENTELEMETRY_H
#define JESPAN_TESTS_OPENTELEMETRY_H

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace opentelemetry {

namespace nostd {
using std::get_if;
using std::shared_ptr;
using std::string_view;
using std::unique_ptr;
using std::variant;
using std::visit;

template <class T, std::size_t N = SIZE_MAX> class span {
public:
    span(T *data, std::size_t size) : data_{data}, size_{size} {}
    T *data() const { return data_; }
    std::size_t size() const { return size_; }

private:
    T *data_;
    std::size_t size_;
};
} // namespace nostd

namespace common {
using AttributeValue = nostd::variant<bool, std::int32_t, std::int64_t, std::uint32_t, double, const char *, nostd::string_view,
                                      nostd::span<const bool>, nostd::span<const std::int64_t>, std::uint64_t>;
class KeyValueIterable;
struct SystemTimestamp {};
} // namespace common

namespace trace {
template <std::size_t Bytes> class Id_ {
public:
    Id_() = default;
    explicit Id_(nostd::span<const std::uint8_t, Bytes> id) { std::memcpy(rep_, id.data(), Bytes); }
    nostd::span<const std::uint8_t, Bytes> Id() const { return {rep_, Bytes}; }
    bool IsValid() const
    {
        static const std::uint8_t zero[Bytes] = {};
        return std::memcmp(rep_, zero, Bytes) != 0;
    }

private:
    std::uint8_t rep_[Bytes] = {};
};
using TraceId = Id_<16>;
using SpanId = Id_<8>;

class TraceFlags {
public:
    explicit TraceFlags(std::uint8_t flags = 0) : flags_{flags} {}
    std::uint8_t flags() const { return flags_; }

private:
    std::uint8_t flags_;
};
class TraceState;
enum class StatusCode { kUnset };
enum class SpanKind { kInternal };
constexpr char kSpanKey[] = "active_span";
constexpr char kIsRootSpanKey[] = "is_root_span";

class SpanContext {
public:
    SpanContext(TraceId trace, SpanId span, TraceFlags flags, bool is_remote)
        : trace_{trace}, span_{span}, flags_{flags}, is_remote_{is_remote}
    {
    }
    static SpanContext GetInvalid() { return {{}, {}, TraceFlags{}, false}; }
    bool IsValid() const { return trace_.IsValid() && span_.IsValid(); }
    bool IsRemote() const { return is_remote_; }
    const TraceId &trace_id() const { return trace_; }
    const SpanId &span_id() const { return span_; }
    TraceFlags trace_flags() const { return flags_; }

private:
    TraceId trace_;
    SpanId span_;
    TraceFlags flags_;
    bool is_remote_;
};

class Span {
public:
    virtual ~Span() = default;
    virtual void SetAttribute(nostd::string_view key, const common::AttributeValue &value) noexcept = 0;
    virtual void UpdateName(nostd::string_view name) noexcept = 0;
    virtual void End() noexcept = 0;
    virtual SpanContext GetContext() const noexcept = 0;
};

class DefaultSpan : public Span {
public:
    explicit DefaultSpan(SpanContext context) : context_{context} {}
    void SetAttribute(nostd::string_view, const common::AttributeValue &) noexcept override {}
    void UpdateName(nostd::string_view) noexcept override {}
    void End() noexcept override {}
    SpanContext GetContext() const noexcept override { return context_; }

private:
    SpanContext context_;
};
} // namespace trace

namespace context {
using ContextValue = nostd::variant<std::monostate, bool, nostd::shared_ptr<trace::Span>>;

class Context {
public:
    Context SetValue(nostd::string_view key, ContextValue value) const
    {
        Context made;
        made.head_ = std::make_shared<const node>(node{std::string{key}, value, head_});
        return made;
    }
    ContextValue GetValue(nostd::string_view key) const
    {
        for (const node *n = head_.get(); n; n = n->next.get())
            if (n->key == key)
                return n->value;
        return {};
    }
    bool operator==(const Context &other) const { return head_ == other.head_; }

private:
    struct node {
        std::string key;
        ContextValue value;
        std::shared_ptr<const node> next;
    };
    std::shared_ptr<const node> head_;
};

class Token {
public:
    Token(const Token &) = delete;
    bool operator==(const Context &other) const noexcept { return context_ == other; }
    virtual ~Token();

private:
    friend class RuntimeContextStorage;
    explicit Token(const Context &context) : context_{context} {}
    const Context context_;
};

class RuntimeContextStorage {
public:
    virtual ~RuntimeContextStorage() = default;
    virtual Context GetCurrent() noexcept = 0;
    virtual nostd::unique_ptr<Token> Attach(const Context &context) noexcept = 0;
    virtual bool Detach(Token &token) noexcept = 0;

protected:
    nostd::unique_ptr<Token> CreateToken(const Context &context) noexcept { return nostd::unique_ptr<Token>(new Token(context)); }
};

// It has no storage of its own.
class RuntimeContext {
public:
    static Context GetCurrent() { return storage()->GetCurrent(); }
    static nostd::unique_ptr<Token> Attach(const Context &context) { return storage()->Attach(context); }
    static bool Detach(Token &token) { return storage()->Detach(token); }
    static void SetRuntimeContextStorage(const nostd::shared_ptr<RuntimeContextStorage> &given) { storage() = given; }

private:
    static nostd::shared_ptr<RuntimeContextStorage> &storage()
    {
        static nostd::shared_ptr<RuntimeContextStorage> one;
        return one;
    }
};

inline Token::~Token()
{
    RuntimeContext::Detach(*this);
}
} // namespace context

namespace trace {
inline nostd::shared_ptr<Span> GetSpan(const context::Context &context)
{
    const context::ContextValue value = context.GetValue(kSpanKey);
    const auto *span = nostd::get_if<nostd::shared_ptr<Span>>(&value);
    return span ? *span : std::make_shared<DefaultSpan>(SpanContext::GetInvalid());
}

class Scope {
public:
    explicit Scope(const nostd::shared_ptr<Span> &span)
        : token_{context::RuntimeContext::Attach(context::RuntimeContext::GetCurrent().SetValue(kSpanKey, span))}
    {
    }

private:
    nostd::unique_ptr<context::Token> token_;
};

struct StartSpanOptions {
    nostd::variant<SpanContext, context::Context> parent = SpanContext::GetInvalid();
};
} // namespace trace

namespace sdk {
namespace instrumentationscope {
class InstrumentationScope {
public:
    explicit InstrumentationScope(nostd::string_view name) : name_{name} {}
    const std::string &GetName() const { return name_; }

private:
    std::string name_;
};
} // namespace instrumentationscope

namespace resource {
class Resource;
}

namespace trace {
namespace api = opentelemetry::trace;

class Recordable {
public:
    virtual ~Recordable() = default;
    virtual void SetIdentity(const api::SpanContext &context, api::SpanId parent) noexcept = 0;
    virtual void SetAttribute(nostd::string_view key, const common::AttributeValue &value) noexcept = 0;
    virtual void AddEvent(nostd::string_view name, common::SystemTimestamp at, const common::KeyValueIterable &attributes) noexcept = 0;
    virtual void AddLink(const api::SpanContext &to, const common::KeyValueIterable &attributes) noexcept = 0;
    virtual void SetStatus(api::StatusCode code, nostd::string_view description) noexcept = 0;
    virtual void SetName(nostd::string_view name) noexcept = 0;
    virtual void SetSpanKind(api::SpanKind kind) noexcept = 0;
    virtual void SetResource(const resource::Resource &resource) noexcept = 0;
    virtual void SetStartTime(common::SystemTimestamp at) noexcept = 0;
    virtual void SetDuration(std::chrono::nanoseconds duration) noexcept = 0;
    virtual void SetInstrumentationScope(const instrumentationscope::InstrumentationScope &scope) noexcept = 0;
};

class SpanProcessor {
public:
    virtual ~SpanProcessor() = default;
    virtual std::unique_ptr<Recordable> MakeRecordable() noexcept = 0;
    virtual void OnStart(Recordable &span, const api::SpanContext &parent) noexcept = 0;
    virtual void OnEnd(std::unique_ptr<Recordable> &&span) noexcept = 0;
    virtual bool ForceFlush(std::chrono::microseconds timeout) noexcept = 0;
    virtual bool Shutdown(std::chrono::microseconds timeout) noexcept = 0;
};

// A recorded span. Its tracer outlives it.
class Span : public api::Span {
public:
    Span(SpanProcessor &processor, api::SpanContext context)
        : processor_{processor}, context_{context}, recordable_{processor.MakeRecordable()}
    {
    }
    ~Span() override { End(); }
    Recordable &recordable() { return *recordable_; }
    void SetAttribute(nostd::string_view key, const common::AttributeValue &value) noexcept override
    {
        if (recordable_)
            recordable_->SetAttribute(key, value);
    }
    void UpdateName(nostd::string_view name) noexcept override
    {
        if (recordable_)
            recordable_->SetName(name);
    }
    void End() noexcept override
    {
        if (recordable_)
            processor_.OnEnd(std::move(recordable_));
        recordable_.reset();
    }
    api::SpanContext GetContext() const noexcept override { return context_; }

private:
    SpanProcessor &processor_;
    api::SpanContext context_;
    std::unique_ptr<Recordable> recordable_;
};

class Tracer {
public:
    using Attributes = std::initializer_list<std::pair<nostd::string_view, common::AttributeValue>>;

    Tracer(SpanProcessor &processor, nostd::string_view name) : processor_{processor}, scope_{name} {}
    nostd::shared_ptr<api::Span> StartSpan(nostd::string_view name, Attributes attributes, const api::StartSpanOptions &options = {})
    {
        const api::SpanContext parent = parent_of(options);
        const api::TraceId trace = parent.IsValid() ? parent.trace_id() : new_id<api::TraceId, 16>();
        const api::SpanContext context{trace, new_id<api::SpanId, 8>(), api::TraceFlags{1}, false};
        auto span = std::make_shared<Span>(processor_, context);
        span->recordable().SetName(name);
        span->recordable().SetInstrumentationScope(scope_);
        span->recordable().SetIdentity(context, parent.span_id());
        for (const auto &attribute : attributes)
            span->recordable().SetAttribute(attribute.first, attribute.second);
        processor_.OnStart(span->recordable(), parent);
        return span;
    }
    nostd::shared_ptr<api::Span> StartSpan(nostd::string_view name, const api::StartSpanOptions &options = {})
    {
        return StartSpan(name, Attributes{}, options);
    }

private:
    static api::SpanContext parent_of(const api::StartSpanOptions &options)
    {
        if (const auto *given = nostd::get_if<api::SpanContext>(&options.parent)) {
            if (given->IsValid())
                return *given;
        } else if (const auto *context = nostd::get_if<context::Context>(&options.parent)) {
            const context::ContextValue root = context->GetValue(api::kIsRootSpanKey);
            if (const bool *is_root = nostd::get_if<bool>(&root))
                if (*is_root)
                    return api::SpanContext::GetInvalid();
            const api::SpanContext of_context = api::GetSpan(*context)->GetContext();
            if (of_context.IsValid())
                return of_context;
        }
        return api::GetSpan(context::RuntimeContext::GetCurrent())->GetContext();
    }

    template <class Id, std::size_t Bytes> static Id new_id()
    {
        static std::atomic<std::uint64_t> last{0};
        const std::uint64_t number = ++last;
        std::uint8_t bytes[Bytes] = {};
        std::memcpy(bytes + Bytes - sizeof number, &number, sizeof number);
        return Id{nostd::span<const std::uint8_t, Bytes>{bytes, Bytes}};
    }

    SpanProcessor &processor_;
    instrumentationscope::InstrumentationScope scope_;
};

// With one processor.
class TracerProvider {
public:
    explicit TracerProvider(std::vector<std::unique_ptr<SpanProcessor>> &&) {}
    void AddProcessor(std::unique_ptr<SpanProcessor> processor) { processor_ = std::move(processor); }
    nostd::shared_ptr<Tracer> GetTracer(nostd::string_view name) { return std::make_shared<Tracer>(*processor_, name); }
    bool Shutdown() { return processor_->Shutdown(std::chrono::microseconds::max()); }

private:
    std::unique_ptr<SpanProcessor> processor_;
};
} // namespace trace
} // namespace sdk
} // namespace opentelemetry

#endif
