# SPDX-License-Identifier: BSD-2-Clause
"""Spans for jespan, the malloc that knows which span made each live byte. Without jespan in the process, nothing happens."""
import contextlib
import functools
import inspect
import sys
import threading

from ._native import current, follow, is_available, open_span, reset
from . import _tasks

__all__ = ["is_available", "span"]


class span(contextlib.ContextDecorator):
    """A span that lasts as long as a `with` block, or as each call of a function that it decorates. Labels are strings or integers."""

    def __init__(self, name, /, **labels):
        self._name = name
        self._labels = labels
        self._entered = []  # several threads and tasks may be in it, and one of them several times

    def __enter__(self):
        caller = sys._getframe(1)
        opened = open_span(self._name, self._labels, current.get(), caller.f_code.co_filename, caller.f_lineno)
        self._entered.append((opened, current.set(opened), threading.get_ident()))
        follow(opened)
        _tasks.follow_anyio()
        return self

    def __exit__(self, *_):
        now, thread, newest_first = current.get(), threading.get_ident(), self._entered[::-1]
        of_thread = next((one for one in newest_first if one[2] == thread), newest_first[0])
        entered = next((one for one in newest_first if one[0] is now), of_thread)
        self._entered.remove(entered)
        opened, token, _ = entered
        reset(token, opened)
        follow(current.get())
        if opened:
            opened.close()
        return False

    def _recreate_cm(self):  # each call of a decorated function has a span of its own
        return type(self)(self._name, **self._labels)

    def __call__(self, function):
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(f"jespan.span cannot decorate {getattr(function, '__qualname__', function)}, a generator; use it by `with` inside")
        if not inspect.iscoroutinefunction(function):
            return super().__call__(function)

        @functools.wraps(function)
        async def call(*arguments, **named):
            with self._recreate_cm():
                return await function(*arguments, **named)
        return call


if is_available():
    _tasks.install()
