// SPDX-License-Identifier: BSD-2-Clause
// For opentelemetry.sh: what becomes of OpenTelemetry's spans. It is also compiled with opentelemetry-cpp itself.
#include <jespan/opentelemetry.hpp>

#include <malloc.h>

#include <algorithm>
#include <opentelemetry/sdk/trace/tracer_provider.h>
#include <opentelemetry/trace/scope.h>
#include <opentelemetry/trace/span_startoptions.h>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../support/ctl.h"

namespace nostd = opentelemetry::nostd;
namespace trace = opentelemetry::trace;
using opentelemetry::context::Context;
using opentelemetry::context::RuntimeContext;

static opentelemetry::sdk::trace::TracerProvider *provider;

// A tracer's type differs between the stand-in and the real one.
static auto tracer()
{
    return provider->GetTracer("shop");
}

static nostd::shared_ptr<trace::Span> start(const char *name)
{
    return tracer()->StartSpan(name);
}

// A context with its labels and its parents, as "request{http.route=/a} > render"; "" outside any span.
static std::string path_of(jespan_context_t context)
{
    if (ctl_span(context, "parent") == 0 || context == JESPAN_ROOT || std::strncmp(ctl_span_text(context, "name"), "thread:", 7) == 0)
        return "";
    std::string path = path_of(static_cast<jespan_context_t>(ctl_span(context, "parent")));
    path += (path.empty() ? "" : " > ") + std::string{ctl_span_text(context, "name")};
    char labels[2000];
    std::size_t bytes = sizeof labels;
    char name[96];
    CHECK_EQ(mallctl(ctl_span_name(name, sizeof name, context, "labels"), labels, &bytes, nullptr, 0), 0);
    std::vector<std::string> words;
    for (const char *s = labels; s < labels + bytes && bytes > 1; s += words.back().size() + 1)
        words.emplace_back(s);
    for (std::size_t i = 0; i + 1 < words.size(); i += 2)
        path += (i == 0 ? "{" : ", ") + words[i] + "=" + words[i + 1] + (i + 2 == words.size() ? "}" : "");
    return path;
}

#define CHECK_PATH(context, expected)                                                                                  \
    do {                                                                                                               \
        const std::string check_is = path_of(context);                                                                 \
        if (check_is != (expected))                                                                                    \
            check_fail("%s:%d: failed: the path is \"%s\", not \"%s\"", __FILE__, __LINE__, check_is.c_str(), expected); \
    } while (0)

static bool is_outside()
{
    return path_of(jespan_current()).empty();
}

static void spans_have_their_memory()
{
    jespan_context_t request, render;
    void *in_request, *in_render;
    {
        auto outer = tracer()->StartSpan("request", {{"http.route", "/a"}, {"user.id", "left out"}});
        CHECK(is_outside());
        trace::Scope scope{outer};
        request = jespan_current();
        in_request = malloc(1000);
        {
            auto inner = start("render");
            CHECK_EQ(jespan_current(), request);
            trace::Scope scope_inside{inner};
            render = jespan_current();
            in_render = malloc(3000);
        }
        CHECK_EQ(jespan_current(), request);
        CHECK_EQ(ctl_span(render, "open"), 0);
        CHECK_EQ(ctl_span(request, "open"), 1);
    }
    CHECK(is_outside());
    CHECK_PATH(request, "request{http.route=/a}");
    CHECK_PATH(render, "request{http.route=/a} > render");
    CHECK(!std::strcmp(ctl_span_text(render, "target"), "shop"));
    CHECK_EQ(ctl_span(request, "open"), 0);
    CHECK_EQ(ctl_span(render, "opens"), 1);
    CHECK_EQ(ctl_span(render, "enters"), 1);
    CHECK_EQ(ctl_span(render, "inuse_bytes"), malloc_usable_size(in_render));
    // The SDK's own spans and contexts are gone, and this header's have never been here.
    CHECK_EQ(ctl_span(request, "inuse_bytes"), malloc_usable_size(in_request));
    free(in_request);
    free(in_render);
    CHECK_EQ(ctl_span(request, "inuse_objects"), 0);
}

static void values_become_labels()
{
    const bool flags[] = {true};
    auto span = tracer()->StartSpan("values", {{"a.bool", true},
                                               {"a.int", std::int64_t{-7}},
                                               {"a.big", std::uint64_t{1} << 63},
                                               {"a.double", 0.5},
                                               {"a.text", nostd::string_view{"text and more", 4}},
                                               {"a.list", nostd::span<const bool>{flags, 1}}});
    trace::Scope scope{span};
    CHECK_PATH(jespan_current(), "values{a.bool=true, a.int=-7, a.big=9223372036854775808, a.double=0.5, a.text=text}");
    span->SetAttribute("http.route", "/late");
    span->SetAttribute("a.int", 8);
    span->SetAttribute("user.id", "left out");
    span->UpdateName("another");
    CHECK_PATH(jespan_current(),
               "values{a.bool=true, a.int=8, a.big=9223372036854775808, a.double=0.5, a.text=text, http.route=/late}");
    span->SetAttribute("a.text", std::string(1000, 'x').c_str());
    CHECK(path_of(jespan_current()).find(std::string(255, 'x') + ',') != std::string::npos);
}

static void exceptions_leave_spans()
{
    jespan_context_t inside = 0;
    try {
        auto span = start("throws");
        trace::Scope scope{span};
        inside = jespan_current();
        auto deeper = start("deeper");
        trace::Scope scope_inside{deeper};
        throw std::runtime_error{"out of both"};
    } catch (const std::runtime_error &) {
    }
    CHECK(is_outside());
    CHECK_PATH(inside, "throws");
    CHECK_EQ(ctl_span(inside, "open"), 0);
}

// A span that ends inside its scope, and scopes that end in another order than they began.
static void ends_in_any_order()
{
    auto span = start("ended");
    jespan_context_t ended;
    {
        trace::Scope scope{span};
        ended = jespan_current();
        span->End();
        CHECK_EQ(ctl_span(ended, "open"), 0);
        CHECK_EQ(jespan_current(), ended);
        trace::Scope again{span};
        CHECK_EQ(jespan_current(), ended);
    }
    CHECK(is_outside());

    auto first = start("first"), second = start("second");
    auto outer = RuntimeContext::Attach(RuntimeContext::GetCurrent().SetValue(trace::kSpanKey, first));
    auto inner = RuntimeContext::Attach(RuntimeContext::GetCurrent().SetValue(trace::kSpanKey, second));
    CHECK_PATH(jespan_current(), "second");
    CHECK(RuntimeContext::Detach(*outer));
    CHECK(is_outside());
    CHECK(!RuntimeContext::Detach(*inner));
    CHECK(RuntimeContext::GetCurrent() == Context{});
}

// The identifiers of a span of another process, or of one that was not sampled.
static trace::SpanContext unknown(bool is_remote)
{
    static const std::uint8_t bytes[16] = {1};
    return {trace::TraceId{nostd::span<const std::uint8_t, 16>{bytes, 16}}, trace::SpanId{nostd::span<const std::uint8_t, 8>{bytes, 8}},
            trace::TraceFlags{}, is_remote};
}

static void parents_are_the_ones_given()
{
    auto first = start("first"), second = start("second");
    trace::StartSpanOptions below_first, root, remote;
    below_first.parent = first->GetContext();
    root.parent = Context{}.SetValue(trace::kIsRootSpanKey, true);
    remote.parent = unknown(true);
    const nostd::shared_ptr<trace::Span> unsampled{new trace::DefaultSpan{unknown(false)}};
    {
        trace::Scope in_child{tracer()->StartSpan("child", remote)};
        CHECK_PATH(jespan_current(), "child");
    }
    trace::Scope scope{second};
    jespan_context_t here = jespan_current();
    {
        trace::Scope in_child{tracer()->StartSpan("child", below_first)};
        CHECK_PATH(jespan_current(), "first > child");
    }
    CHECK_EQ(jespan_current(), here);
    {
        trace::Scope in_child{tracer()->StartSpan("child", root)};
        CHECK_PATH(jespan_current(), "child");
    }
    {
        trace::Scope in_child{tracer()->StartSpan("child", remote)};
        CHECK_PATH(jespan_current(), "child");
    }
    {
        trace::Scope in_unsampled{unsampled};
        CHECK_EQ(jespan_current(), here);
        {
            trace::Scope in_child{start("child")};
            CHECK_PATH(jespan_current(), "second > child");
        }
        trace::Scope in_child{tracer()->StartSpan("child", root)};
        CHECK_PATH(jespan_current(), "child");
    }
    {
        JESPAN("block");
        trace::Scope in_child{start("child")};
        CHECK_PATH(jespan_current(), "second > block > child");
    }
    CHECK_EQ(jespan_current(), here);
}

static void spans_move_to_threads()
{
    auto span = start("job");
    trace::Scope scope{span};
    jespan_context_t job = jespan_current();
    const Context context = RuntimeContext::GetCurrent();
    void *kept = nullptr;
    std::thread worker{[context, moved = std::move(span), &kept]() mutable {
        auto token = RuntimeContext::Attach(context);
        kept = malloc(500);
        moved->End();
    }};
    worker.join();
    CHECK_EQ(ctl_span(job, "open"), 0);
    CHECK_EQ(ctl_span(job, "enters"), 2);
    CHECK(ctl_span(job, "inuse_bytes") >= malloc_usable_size(kept));
    free(kept);
}

static void ended_spans_leave_nothing()
{
    for (unsigned i = 0; i < 100; i++)
        trace::Scope scope{start("many")};
    const std::uint64_t before = ctl_u64("spans.all.inuse_objects");
    for (unsigned i = 0; i < 1000; i++)
        trace::Scope scope{start("many")};
    CHECK_EQ(ctl_u64("spans.all.inuse_objects"), before);
}

static void many_on_threads()
{
    constexpr unsigned threads = 8, spans = 2000;
    std::vector<std::thread> workers;
    std::vector<jespan_context_t> contexts(threads);
    for (unsigned i = 0; i < threads; i++)
        workers.emplace_back([&contexts, i] {
            for (unsigned n = 0; n < spans; n++) {
                trace::Scope scope{start("many")};
                contexts[i] = jespan_current();
                trace::Scope inside{start("inner")};
                free(malloc(n));
            }
        });
    for (std::thread &worker : workers)
        worker.join();
    CHECK(std::all_of(contexts.begin(), contexts.end(), [&contexts](jespan_context_t c) { return c == contexts[0]; }));
    CHECK_EQ(ctl_span(contexts[0], "opens"), threads * spans);
    CHECK_EQ(ctl_span(contexts[0], "open"), 0);
    CHECK_EQ(ctl_span(contexts[0], "total.opens"), 2 * threads * spans);
    CHECK_EQ(ctl_span(contexts[0], "total.inuse_objects"), 0);
}

static void names_are_bounded()
{
    for (unsigned i = 0; i < 5000; i++) {
        trace::Scope scope{start(("page " + std::to_string(i)).c_str())};
        if (i == 0)
            CHECK_PATH(jespan_current(), "page 0");
        if (i == 4999)
            CHECK_PATH(jespan_current(), "(other)");
    }
    trace::Scope scope{start("job")};
    CHECK_PATH(jespan_current(), "job");
}

static std::string digits_of(const std::uint8_t *bytes, std::size_t n)
{
    static const char digits[] = "0123456789abcdef";
    std::string text;
    for (std::size_t i = 0; i < n; i++)
        text += {digits[bytes[i] >> 4], digits[bytes[i] & 15]};
    return text;
}

static void identifiers_become_labels()
{
    opentelemetry::sdk::trace::TracerProvider other{std::vector<std::unique_ptr<opentelemetry::sdk::trace::SpanProcessor>>{}};
    other.AddProcessor(std::unique_ptr<opentelemetry::sdk::trace::SpanProcessor>{new jespan::otel::processor{"trace_id,span_id"}});
    auto span = other.GetTracer("other")->StartSpan("job");
    trace::Scope scope{span};
    const trace::SpanContext identity = span->GetContext();
    const std::string expected = "job{trace_id=" + digits_of(identity.trace_id().Id().data(), 16) +
                                 ", span_id=" + digits_of(identity.span_id().Id().data(), 8) + "}";
    CHECK_PATH(jespan_current(), expected.c_str());
}

static void shutdown_opens_no_more()
{
    auto before = start("before");
    jespan_context_t context;
    {
        trace::Scope scope{before};
        context = jespan_current();
    }
    provider->Shutdown();
    trace::Scope scope{start("after")};
    CHECK(is_outside());
    before->End();
    CHECK_EQ(ctl_span(context, "open"), 0);
}

int main()
{
    setenv("JESPAN_OTEL_LABELS", "http.route,,a.bool,a.int,a.big,a.double,a.text,a.list", 1);
    opentelemetry::sdk::trace::TracerProvider one{std::vector<std::unique_ptr<opentelemetry::sdk::trace::SpanProcessor>>{}};
    provider = &one;
    jespan::otel::install(one);
    spans_have_their_memory();
    values_become_labels();
    exceptions_leave_spans();
    ends_in_any_order();
    parents_are_the_ones_given();
    spans_move_to_threads();
    many_on_threads();
    ended_spans_leave_nothing();
    identifiers_become_labels();
    names_are_bounded();
    shutdown_opens_no_more();
    return check_result();
}
