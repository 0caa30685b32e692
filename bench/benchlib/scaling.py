# SPDX-License-Identifier: BSD-2-Clause
"""The rows of the two special runs: with exact profilers, and over growing heaps and numbers of contexts."""

import dataclasses
import re

from . import rows, target
from .variants import JESPAN

# So many operations that the slowest profilers, at some microseconds per allocation, can still do them.
PROFILER_ROWS = ("pair", "churn", "cold-200k", "rss-64")
PROFILER_MS_LEAST = 100
MOST_CONTEXTS = 2_000_000
# A heap of this size and half as much again must be free.
HEAP_HEADROOM = 1.5
# Each of them takes half a minute.
LONG = ("heap-8192M", "snapshot-heap-8192M", "snapshot-1000000", "snapshot-rss-1000000")


def profiler_rows(program, chosen, milliseconds):
    chosen = [dataclasses.replace(v, kinds=(*v.kinds, "memory", "peer")) for v in chosen]
    for row in rows.workload_rows(program, chosen, ("time", "peer", "memory"), max(milliseconds, PROFILER_MS_LEAST)):
        if row.name in PROFILER_ROWS and row.kind == "memory":
            yield dataclasses.replace(row, kind="peer-memory", measure=with_what_is_beside(row.measure))
        elif row.name in PROFILER_ROWS:
            yield dataclasses.replace(row, kind="peer")


def with_what_is_beside(measure):
    return lambda variant: measure(variant)[0] + (variant.beside() if variant.beside else 0)


def available_mib():
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("MemAvailable:")) // 1024


def scaling_rows(program, chosen, milliseconds, quick):
    """Heaps for all variants, contexts and snapshots for jespan alone, pauses with and without snapshots."""
    room = available_mib()
    raised = [with_contexts(v) for v in chosen]
    for row in rows.workload_rows(program, raised, ("heap", "contexts", "snapshot"), milliseconds):
        mib = re.search(r"heap-(\d+)M", row.name)
        if mib and int(mib[1]) * HEAP_HEADROOM > room:
            target.say(f"{row.name} is skipped: {room} MiB of memory are available")
        elif row.name not in LONG:
            yield dataclasses.replace(row, unit=unit(row.name), most_rounds=rows.MEMORY_ROUNDS)
        elif not quick:
            yield dataclasses.replace(row, unit=unit(row.name), most_rounds=1)
    yield from pause_rows(program, next(v for v in raised if v.name == JESPAN))


def pause_rows(program, jespan):
    """Two columns from one run, which takes snapshots and rests in turns."""
    quiet = dataclasses.replace(jespan, name="quiet", base="quiet")
    variants = [quiet, dataclasses.replace(quiet, name="snapshots")]
    for name, kind, text in target.list_workloads(program):
        if kind == "pause":
            shared = rows.Shared(lambda variant, name=name: target.run_workload(program, variant, [name]))
            for figure, what in (("max", "longest in a window"), ("p999", "what 0.1 % exceed")):
                take = lambda v, s=shared, f=figure: s.take(f"{v.name}_{f}", jespan)  # noqa: E731
                yield rows.Row(f"{name}-{figure}", kind, "us", f"{text}: {what}", variants, take, rows.MEMORY_ROUNDS)


def unit(name):
    if name.startswith("snapshot-rss"):
        return "B"
    return "ms" if name.startswith("snapshot") else "ns"


def with_contexts(variant):
    """The default max_contexts is smaller than the largest numbers tried."""
    conf = f"max_contexts:{MOST_CONTEXTS},contexts_kept:{MOST_CONTEXTS}"
    if own := variant.settings.get("JESPAN_CONF"):
        conf = f"{own},{conf}"
    return dataclasses.replace(variant, settings={**variant.settings, "JESPAN_CONF": conf})
