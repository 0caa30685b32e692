# SPDX-License-Identifier: BSD-2-Clause
"""A span processor that opens and closes a span of jespan's with each span of OpenTelemetry's."""
import os
import threading

from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor

from ._native import current, open_span

LABELS = frozenset(os.environ.get("JESPAN_OTEL_LABELS", "http.route,http.request.method,http.method,rpc.service,rpc.method,"
                                  "db.system,db.operation.name,messaging.destination.name").split(","))


_lock = threading.Lock()
_known = None  # the provider that has a processor
_opened = {}  # spans of jespan's by the identifiers of those of OpenTelemetry's that have started and not ended


def _key(span):
    identity = span.get_span_context()
    return identity.trace_id, identity.span_id


def _labels(span):
    attributes = getattr(span, "attributes", None) or {}
    labels = {key: attributes[key] for key in attributes if key in LABELS}
    for key, digits in ("trace_id", 32), ("span_id", 16):
        if key in LABELS:
            labels[key] = format(getattr(span.get_span_context(), key), f"0{digits}x")
    return labels


def _trace(span):
    """Its identifiers, as a struct jespan_traceparent."""
    identity = span.get_span_context()
    return b"%032x\0%016x\0%c" % (identity.trace_id, identity.span_id, identity.trace_flags & 0xff)


def _open(span, parent):
    made = open_span(span.name, _labels(span), parent, trace=_trace(span))
    if made:
        _opened[_key(span)] = made
    return made


class Processor(SpanProcessor):
    """Opens and closes a span of jespan's with each span."""

    def on_start(self, span, parent_context=None):
        _open(span, _opened.get(_key(trace.get_current_span(parent_context))))

    def on_end(self, span):
        made = _opened.pop(_key(span), None)
        if made:
            made.close()


def of_context(context):
    """The span of jespan's that belongs to a context of OpenTelemetry's, or None."""
    span = trace.get_current_span(context)
    made = _opened.get(_key(span))
    if made is None and span.is_recording():  # it started before there was a processor
        made = _open(span, current.get())
    return made


def add_processor():
    """Adds a processor to the tracer provider if that has none."""
    global _known
    provider = trace.get_tracer_provider()
    if provider is _known or not hasattr(provider, "add_span_processor"):
        return
    with _lock:
        if provider is not _known:
            provider.add_span_processor(Processor())
            _known = provider
