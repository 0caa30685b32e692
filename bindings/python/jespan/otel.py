# SPDX-License-Identifier: BSD-2-Clause
"""A context storage for OpenTelemetry, which OTEL_PYTHON_CONTEXT=jespan selects. It is told each change of the current span.

OpenTelemetry imports this module while it imports itself. So what this needs of it beside the storage is imported later.
"""
from opentelemetry.context.contextvars_context import ContextVarsRuntimeContext

from . import _tasks, is_available
from ._native import current, follow, reset


class RuntimeContext(ContextVarsRuntimeContext):
    _has_sdk = True

    def attach(self, context):
        token = super().attach(context)
        if not is_available() or not self._has_sdk:
            return token
        try:
            from . import otel_spans
        except ImportError:  # the API of OpenTelemetry alone, without its SDK: nothing makes spans
            self._has_sdk = False
            return token
        _tasks.follow_anyio()
        otel_spans.add_processor()
        span = otel_spans.of_context(context)
        ours = current.set(span)
        follow(span)
        return token, ours, span

    def detach(self, token):
        if isinstance(token, tuple):
            token, ours, span = token
            reset(ours, span)
            follow(current.get())
        super().detach(token)
