# SPDX-License-Identifier: BSD-2-Clause
"""For python.sh: spans of a program's own, in threads and in asyncio tasks that take turns.

usage: python_spans.py [uvloop | uvloop-first]

Tasks run on asyncio's own loop, or on that of uvloop, which is imported after jespan or before it.
"""
import asyncio
import concurrent.futures
import contextvars
import ctypes
import sys
import threading

if "uvloop-first" in sys.argv:
    import uvloop
import jespan
if "uvloop" in sys.argv:
    import uvloop

kept = []
in_pool_threads = set()
MIB = 1 << 20


@jespan.span("decorated", kind=7)
def decorated():
    kept.append(bytearray(2 * MIB))


@jespan.span("decorated async")
async def step(mib):
    await asyncio.sleep(0)
    kept.append(bytearray(mib * MIB))


def in_pool(mib):
    kept.append(bytearray(mib * MIB))
    with jespan.span("in pool"):
        kept.append(bytearray(mib * MIB))
    in_pool_threads.add(threading.current_thread())


async def task(name, mib):
    with jespan.span("task", name=name):
        for _ in range(10):
            await asyncio.sleep(0)  # the other task's turn
            kept.append(bytearray(mib * MIB))
        await asyncio.gather(step(mib), step(mib))
        await asyncio.to_thread(in_pool, mib)
    kept.append(bytearray(MIB))


async def main():
    await asyncio.gather(task("a", 1), task("b", 3))


def thread():
    with jespan.span("thread"):
        try:
            with jespan.span("fails"):
                kept.append(bytearray(5 * MIB))
                raise ValueError
        except ValueError:
            kept.append(bytearray(MIB))


def generator():
    with jespan.span("in generator"):
        yield


def left_in_another_context(now):
    left = generator()
    contextvars.copy_context().run(next, left)
    contextvars.copy_context().run(next, left, None)
    assert now() == base


def nested_in_itself(now):
    again = jespan.span("again")
    with again:
        outer = now()
        with again:
            assert now() != outer
        assert now() == outer
    assert now() == base


async def closed_by_another_thread(now):
    """As when the caller's time is over: the thread goes on."""
    def work():
        started.set()
        end.wait()

    started, end = threading.Event(), threading.Event()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        own = pool.submit(now).result()
        with jespan.span("request"):
            future = asyncio.get_running_loop().run_in_executor(pool, work)
            while not started.is_set():
                await asyncio.sleep(0.01)
        end.set()
        await future
        assert pool.submit(now).result() == own


def refuses_generators():
    try:
        jespan.span("generator")(generator)
    except TypeError:
        return
    raise AssertionError


if __name__ == "__main__":
    print("available", jespan.is_available(), flush=True)
    with jespan.span("outer"):
        decorated()
        asyncio.run(main()) if len(sys.argv) == 1 else uvloop.run(main())
    assert in_pool_threads and threading.main_thread() not in in_pool_threads
    started = threading.Thread(target=thread)
    started.start()
    started.join()
    refuses_generators()
    if jespan.is_available():
        base = ctypes.CDLL(None).jespan_current()
        left_in_another_context(ctypes.CDLL(None).jespan_current)
        nested_in_itself(ctypes.CDLL(None).jespan_current)
        asyncio.run(closed_by_another_thread(ctypes.CDLL(None).jespan_current))
    ctypes.CDLL(None).exit(0)  # without Python's own end, which frees all
