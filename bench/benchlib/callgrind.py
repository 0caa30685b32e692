# SPDX-License-Identifier: BSD-2-Clause
"""Counts instructions and cache misses per operation by running a workload under valgrind's callgrind.

The same run is made twice with different numbers of operations; the difference, divided by the difference of the
numbers, is free of start-up, set-up and end. Simulated instructions do not depend on the machine's load, nor do misses,
since the caches are given here: they are no machine's.
"""

import collections
import os
import re
import tempfile

from . import target

# So many operations that rare events (filling a thread cache, a full batch) are evenly distributed.
FEW, MANY = 20_000, 100_000
# callgrind does not replace malloc, and is told not to, so the preloaded library runs.
VALGRIND = ["valgrind", "--tool=callgrind", "--soname-synonyms=somalloc=NONE", "--quiet"]
# First level: 32 KiB with 8 ways. Last level: 8 MiB with 16 ways. Lines of 64 bytes.
CACHES = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"]
INSTRUCTIONS = "Ir"
MISSES = {"D1 misses": ("D1mr", "D1mw"), "LL misses": ("DLmr", "DLmw")}
NAME = re.compile(r"c?(ob|fn)=\((\d+)\)(?: (.*))?")
COST = re.compile(r"[0-9+*-]")


def parse(lines):
    """Own cost by (event, object, function). A name is given once and then by number. Costs after calls= belong to the
    callee. Trailing costs of 0 are left out."""
    names, current, costs, events = {}, {}, collections.Counter(), []
    skip = False
    for line in lines:
        if found := NAME.match(line):
            kind, key, name = found.groups()
            name = names.setdefault((kind, key), name)
            if not line.startswith("c"):
                current[kind] = name
        elif line.startswith("calls="):
            skip = True
        elif line.startswith("events: "):
            events = line.split()[1:]
        elif COST.match(line):
            for event, cost in zip(events, [] if skip else line.split()[1:]):
                costs[event, current["ob"], current["fn"]] += int(cost)
            skip = False
    return costs


def profile(program, variant, arguments, operations, options):
    with tempfile.TemporaryDirectory(prefix="bench-callgrind-") as directory:
        out = os.path.join(directory, "out")
        prefix = [*VALGRIND, *options, f"--callgrind-out-file={out}"]
        target.run_workload(program, variant, [*arguments, "--operations", operations], prefix)
        with open(out, encoding="utf-8", errors="replace") as f:
            return parse(f.read().splitlines())


def per_operation(program, variant, arguments, caches=False):
    """Costs by (event, object, function)."""
    options = CACHES if caches else []
    many, few = (profile(program, variant, arguments, n, options) for n in (MANY, FEW))
    many.subtract(few)
    costs = {k: v / (MANY - FEW) for k, v in many.items() if v}
    if not any(target.same_library(where, variant.origin) for _, where, _ in costs):
        raise target.Failed(f"no instruction of {variant.origin} was counted")
    return costs


def instructions(program, costs):
    """Costs by (object, function), without the program's own: its loop is no part of the allocator."""
    mine = os.path.realpath(program)
    return {(where, fn): n for (event, where, fn), n in costs.items() if event == INSTRUCTIONS and where != mine}


def misses(costs, which):
    """Misses include the program's own: the allocator may have evicted its data from a cache."""
    return sum(n for (event, _, _), n in costs.items() if event in MISSES[which])
