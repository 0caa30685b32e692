# SPDX-License-Identifier: BSD-2-Clause
"""Spans for jespan, the malloc that knows which span made each live byte. Without jespan in the process, nothing happens."""
import contextlib
import functools
import inspect
import sys

from ._native import current, follow, is_available, open_span
from . import _tasks

__all__ = ["is_available", "span"]


class span(contextlib.ContextDecorator):
    """A span that lasts as long as a `with` block, or as each call of a function that it decorates. Labels are strings or integers."""

    def __init__(self, name, /, **labels):
        self._name = name
        self._labels = labels

    def __enter__(self):
        caller = sys._getframe(1)
        self._span = open_span(self._name, self._labels, current.get(), caller.f_code.co_filename, caller.f_lineno)
        self._token = current.set(self._span)
        follow(self._span)
        _tasks.follow_anyio()
        return self

    def __exit__(self, *_):
        current.reset(self._token)
        follow(current.get())
        if self._span:
            self._span.close()
        return False

    def _recreate_cm(self):  # each call of a decorated function has a span of its own
        return type(self)(self._name, **self._labels)

    def __call__(self, function):
        if not inspect.iscoroutinefunction(function):
            return super().__call__(function)

        @functools.wraps(function)
        async def call(*arguments, **named):
            with self._recreate_cm():
                return await function(*arguments, **named)
        return call


if is_available():
    _tasks.install()
