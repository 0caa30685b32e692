// SPDX-License-Identifier: BSD-2-Clause
// For otel_context.sh: says what each thread publishes, and waits for a line after it. It is also compiled with opentelemetry-cpp
// itself.
#include <jespan/opentelemetry.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <opentelemetry/context/runtime_context.h>
#include <opentelemetry/sdk/trace/tracer_provider.h>
#include <opentelemetry/trace/scope.h>

#include <unistd.h>

namespace nostd = opentelemetry::nostd;
namespace trace = opentelemetry::trace;
using opentelemetry::context::RuntimeContext;

static void wait_for_reader()
{
    std::fflush(stdout);
    if (std::getchar() == EOF)
        std::abort();
}

static void expect_none()
{
    std::printf("expect %d none\n", static_cast<int>(gettid()));
    wait_for_reader();
}

template <class Bytes> static void print(const Bytes &bytes)
{
    for (std::size_t i = 0; i < bytes.size(); i++)
        std::printf("%02x", static_cast<unsigned>(bytes.data()[i]));
}

static void expect(const trace::SpanContext &identity)
{
    std::printf("expect %d ", static_cast<int>(gettid()));
    print(identity.trace_id().Id());
    std::printf(" ");
    print(identity.span_id().Id());
    std::printf(" %u\n", static_cast<unsigned>(identity.trace_flags().flags()));
    wait_for_reader();
}

static void run_spans(opentelemetry::sdk::trace::TracerProvider &provider)
{
    auto tracer = provider.GetTracer("shop");
    expect_none();
    auto outer = tracer->StartSpan("request");
    expect_none();
    {
        trace::Scope scope{outer};
        expect(outer->GetContext());
        {
            auto inner = tracer->StartSpan("render");
            trace::Scope scope_inside{inner};
            expect(inner->GetContext());
            std::thread{[&] {
                expect_none();
                auto other = tracer->StartSpan("other");
                trace::Scope scope_there{other};
                expect(other->GetContext());
            }}.join();
            expect(inner->GetContext());
            auto without = RuntimeContext::Attach(opentelemetry::context::Context{});
            expect_none();
        }
        expect(outer->GetContext());
        // A span that was not sampled, in another process.
        const std::uint8_t trace_id[16] = {1, 2, 3}, span_id[8] = {4, 5, 6};
        const trace::SpanContext identity{trace::TraceId{nostd::span<const std::uint8_t, 16>{trace_id, 16}},
                                          trace::SpanId{nostd::span<const std::uint8_t, 8>{span_id, 8}}, trace::TraceFlags{}, true};
        nostd::shared_ptr<trace::Span> remote{new trace::DefaultSpan{identity}};
        trace::Scope scope_remote{remote};
        expect(remote->GetContext());
    }
    expect_none();
}

int main(int argc, char **argv)
{
    std::vector<std::unique_ptr<opentelemetry::sdk::trace::SpanProcessor>> none;
    opentelemetry::sdk::trace::TracerProvider provider{std::move(none)};
    jespan::otel::install(provider);
    for (int i = 1; i < argc; i++)
        std::puts(argv[i]);
    run_spans(provider);
    return 0;
}
