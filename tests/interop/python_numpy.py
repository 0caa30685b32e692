# SPDX-License-Identifier: BSD-2-Clause
"""For python.sh: a numpy script, each part of which is a block. Prints what each block keeps: the bytes of its arrays as numpy says,
each rounded up to the size class of the allocator, and the context."""
import ctypes
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy
import jespan

ROWS = 300_000
kept = {name: [None] * 8 for name in ("load > ids", "load > values", "clean", "clean > mask", "model {kind=ridge}", "worker", "resized")}


def keep(context, index, array):
    assert array.base is None
    kept[context][index] = array


def load():
    with jespan.span("load"):
        with jespan.span("ids"):
            keep("load > ids", 0, numpy.arange(ROWS, dtype=numpy.int64))
            keep("load > ids", 1, kept["load > ids"][0][::2].copy())
        with jespan.span("values"):
            generator = numpy.random.default_rng(20)
            keep("load > values", 0, generator.standard_normal((ROWS, 3)))
            keep("load > values", 1, numpy.zeros(4097, dtype=numpy.float32))
            keep("load > values", 2, numpy.empty(2001, dtype="S5"))


def clean():
    ids, values = kept["load > ids"][0], kept["load > values"][0]
    with jespan.span("clean"):
        for _ in range(5):
            numpy.sort(values, axis=0)  # comes and goes
        with jespan.span("mask"):
            keep("clean > mask", 0, values[:, 0] > 0)
        keep("clean", 0, values[kept["clean > mask"][0]])
        keep("clean", 1, ids.astype(numpy.int32))
        values[:, 1] *= 2  # in place
        ids.reshape(2, -1).T.sum()  # a view


@jespan.span("model", kind="ridge")
def model():
    x = kept["clean"][0]
    keep("model {kind=ridge}", 0, x[:500] @ x.T[:, :2000])
    keep("model {kind=ridge}", 1, numpy.linalg.solve(numpy.eye(200), numpy.ones((200, 200))))


def resize():
    """An array that grows becomes the memory of the block that made it grow."""
    with jespan.span("made"):
        array = numpy.ones(100_000)
    with jespan.span("resized"):
        array.resize(250_000, refcheck=False)
        kept["resized"][0] = array


def work(index):
    with jespan.span("worker"):
        part = numpy.cumsum(kept["load > values"][0][:, index])
        keep("worker", index, part + part)  # a number would be a small array, and numpy keeps the memory of some


def begin(barrier):
    """Makes a thread, and what numpy has once for each thread."""
    barrier.wait()
    numpy.ones(10_000).cumsum()
    barrier.wait()


def size_class(nbytes):
    return ctypes.CDLL(None).nallocx(ctypes.c_size_t(nbytes), 0)


if __name__ == "__main__":
    ctypes.CDLL(None).nallocx.restype = ctypes.c_size_t
    numpy.linalg.solve(numpy.eye(2), numpy.ones((2, 2)))  # imports what they need
    numpy.random.default_rng(0)
    barrier = threading.Barrier(3)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(begin, [barrier] * 3))
        load()
        clean()
        model()
        resize()
        list(pool.map(work, range(3)))
    for context, arrays in kept.items():
        arrays = [array for array in arrays if array is not None]
        print(sum(size_class(array.nbytes) for array in arrays), context)
        print(context, [array.nbytes for array in arrays], file=sys.stderr)
    sys.stdout.flush()
    ctypes.CDLL(None).exit(0)  # without Python's own end, which frees all
