# SPDX-License-Identifier: BSD-2-Clause
"""The rows of the two special runs: with exact profilers, and over growing heaps and numbers of contexts."""

import dataclasses
import re

from . import rows, target

# What the slowest profilers, at some microseconds an allocation, can still do.
PROFILER_ROWS = ("pair", "churn", "cold-200k", "rss-64")
PROFILER_MS_LEAST = 100
MOST_CONTEXTS = 2_000_000
# A heap of this size and half as much again must be free.
HEAP_HEADROOM = 1.5


def profiler_rows(program, chosen, milliseconds):
    chosen = [dataclasses.replace(v, kinds=(*v.kinds, "memory", "peer")) for v in chosen]
    for row in rows.workload_rows(program, chosen, ("time", "peer", "memory"), max(milliseconds, PROFILER_MS_LEAST)):
        if row.name in PROFILER_ROWS:
            yield dataclasses.replace(row, kind="peer") if row.kind == "time" else row


def available_mib():
    with open("/proc/meminfo", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("MemAvailable:")) // 1024


def scaling_rows(program, chosen, milliseconds):
    """Heaps for all variants, contexts and snapshots for jespan alone."""
    room = available_mib()
    raised = [with_contexts(v) for v in chosen]
    for row in rows.workload_rows(program, raised, ("heap", "contexts", "snapshot"), milliseconds):
        mib = re.fullmatch(r"heap-(\d+)M", row.name)
        if mib and int(mib[1]) * HEAP_HEADROOM > room:
            target.say(f"{row.name} is skipped: {room} MiB of memory are available")
        else:
            yield dataclasses.replace(row, unit=unit(row.name), most_rounds=rows.MEMORY_ROUNDS)


def unit(name):
    if name.startswith("snapshot-rss"):
        return "B"
    return "ms" if name.startswith("snapshot") else "ns"


def with_contexts(variant):
    """The default max_contexts is smaller than the largest numbers tried."""
    conf = f"max_contexts:{MOST_CONTEXTS}"
    if own := variant.settings.get("JESPAN_CONF"):
        conf = f"{own},{conf}"
    return dataclasses.replace(variant, settings={**variant.settings, "JESPAN_CONF": conf})
