# SPDX-License-Identifier: BSD-2-Clause
"""asyncio tasks: each step of a task runs in the span that is current in the task. So does what a task has a thread of a pool do."""
import asyncio
import collections.abc
import concurrent.futures
import sys

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


def _in_worker(function):
    """The function for a thread of a pool, which has no span: it runs there in the span that is current here."""
    span = current.get()

    def call(*arguments, **named):
        before = follow(span)
        try:
            return function(*arguments, **named)
        finally:
            follow(before)

    return call if span else function


def follow_anyio():
    """Starlette and FastAPI run functions that are not async by this. To be called when it may have been imported."""
    to_thread = sys.modules.get("anyio.to_thread")
    run_sync = getattr(to_thread, "run_sync", None)
    if run_sync is None or hasattr(run_sync, "_jespan"):
        return

    async def run_followed_sync(func, *arguments, **named):
        return await run_sync(_in_worker(func), *arguments, **named)

    run_followed_sync._jespan = True
    to_thread.run_sync = run_followed_sync


def _follow_loop(loop):
    """Wraps what a class of event loops makes tasks with, unless it has this from a class that is wrapped. A class such as uvloop's
    inherits nothing from asyncio's loop."""
    create_task, run_in_executor = loop.create_task, loop.run_in_executor

    def create_followed_task(self, coro, *arguments, **named):
        is_new = asyncio.iscoroutine(coro) and not isinstance(coro, _Steps)
        return create_task(self, _Steps(coro) if is_new else coro, *arguments, **named)

    def run_followed_in_executor(self, executor, func, *arguments):
        is_thread = executor is None or isinstance(executor, concurrent.futures.ThreadPoolExecutor)
        return run_in_executor(self, executor, _in_worker(func) if is_thread else func, *arguments)

    if not hasattr(create_task, "_jespan"):
        create_followed_task._jespan = True
        loop.create_task = create_followed_task
    if not hasattr(run_in_executor, "_jespan"):
        run_followed_in_executor._jespan = True
        loop.run_in_executor = run_followed_in_executor


def install():
    """Follows the loops that there are, and those that will be defined."""
    abstract = asyncio.AbstractEventLoop

    def follow_subclass(cls, **named):
        super(abstract, cls).__init_subclass__(**named)
        _follow_loop(cls)

    abstract.__init_subclass__ = classmethod(follow_subclass)
    loops = list(abstract.__subclasses__())
    for loop in loops:  # those above come first
        _follow_loop(loop)
        loops.extend(loop.__subclasses__())
