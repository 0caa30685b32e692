# SPDX-License-Identifier: BSD-2-Clause
"""asyncio tasks: each step of a task runs in the span that is current in the task."""
import asyncio.base_events
import collections.abc

from ._native import current, follow


class _Steps(collections.abc.Coroutine):
    """A coroutine that enters the task's span before each step, and goes back to the thread's after it."""

    def __init__(self, coroutine):
        self._coroutine = coroutine

    def __getattr__(self, name):  # cr_frame and the like
        return getattr(self._coroutine, name)

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        return self.send(None)

    def send(self, value):
        before = follow(current.get())
        try:
            return self._coroutine.send(value)
        finally:
            follow(before)

    def throw(self, *what):
        before = follow(current.get())
        try:
            return self._coroutine.throw(*what)
        finally:
            follow(before)

    def close(self):
        self._coroutine.close()


def install():
    loop = asyncio.base_events.BaseEventLoop
    create_task = loop.create_task

    def create_followed_task(self, coro, **named):
        return create_task(self, _Steps(coro) if asyncio.iscoroutine(coro) else coro, **named)

    loop.create_task = create_followed_task
