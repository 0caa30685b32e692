# SPDX-License-Identifier: BSD-2-Clause
"""A context storage for OpenTelemetry, which OTEL_PYTHON_CONTEXT=jespan selects. It is told each change of the current span.

OpenTelemetry imports this module while it imports itself. So what this needs of it beside the storage is imported later.
"""
from opentelemetry.context.contextvars_context import ContextVarsRuntimeContext

from . import _tasks, is_available
from ._native import current, follow


class RuntimeContext(ContextVarsRuntimeContext):
    _provider = None

    def attach(self, context):
        token = super().attach(context)
        if not is_available():
            return token
        from . import otel_spans
        _tasks.follow_anyio()
        self._provider = otel_spans.add_processor(self._provider)
        ours = current.set(otel_spans.of_context(context))
        follow(current.get())
        return token, ours

    def detach(self, token):
        if isinstance(token, tuple):
            token, ours = token
            current.reset(ours)
            follow(current.get())
        super().detach(token)
