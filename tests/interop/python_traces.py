# SPDX-License-Identifier: BSD-2-Clause
"""For python.sh: says what each thread publishes of OpenTelemetry's spans, for tests/support/otel_context.py."""
import asyncio
import sys
import threading

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider, sampling

import jespan

trace.set_tracer_provider(TracerProvider(sampler=sampling.ParentBased(sampling.ALWAYS_ON)))
tracer = trace.get_tracer("shop")


def ask(expected):
    print("expect", threading.get_native_id(), expected, flush=True)
    sys.stdin.readline()


def expect(span):
    identity = span.get_span_context()
    ask(f"{identity.trace_id:032x} {identity.span_id:016x} {int(identity.trace_flags)}")


def in_thread():
    ask("none")
    with tracer.start_as_current_span("other") as span:
        expect(span)


async def task(name, turn, next_turn):
    with tracer.start_as_current_span(name) as span:
        for _ in range(2):
            await turn.wait()
            turn.clear()
            expect(span)
            next_turn.set()


async def tasks():
    one, two = asyncio.Event(), asyncio.Event()
    both = asyncio.gather(task("one", one, two), task("two", two, one))
    one.set()
    await both


print("resource process.executable.name python")
ask("none")
with tracer.start_as_current_span("outer") as outer:
    expect(outer)
    with tracer.start_as_current_span("inner") as inner:
        expect(inner)
        with jespan.span("a block of the program"):
            expect(inner)
        thread = threading.Thread(target=in_thread)
        thread.start()
        thread.join()
        expect(inner)
    expect(outer)
    asyncio.run(tasks())
    expect(outer)
unsampled = trace.NonRecordingSpan(trace.SpanContext(1, 2, is_remote=True))
with trace.use_span(unsampled):
    ask("none")
ask("none")
