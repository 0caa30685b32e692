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

# Enough for what happens only now and then (a thread cache that is filled, a batch that is full) to come out even.
FEW, MANY = 20_000, 100_000
# Not a tool that replaces malloc, and told not to, so that the preloaded library is what runs.
VALGRIND = ["valgrind", "--tool=callgrind", "--soname-synonyms=somalloc=NONE", "--quiet"]
# 32 KiB of 8 ways before 8 MiB of 16 ways, lines of 64 bytes.
CACHES = ["--cache-sim=yes", "--I1=32768,8,64", "--D1=32768,8,64", "--LL=8388608,16,64"]
INSTRUCTIONS = "Ir"
MISSES = {"D1 misses": ("D1mr", "D1mw"), "LL misses": ("DLmr", "DLmw")}
NAME = re.compile(r"c?(ob|fn)=\((\d+)\)(?: (.*))?")
COST = re.compile(r"[0-9+*-]")


def parse(lines):
    """Self cost by (event, object, function). Names are given once and then by number; costs after calls= are the
    callee's; trailing costs of 0 are left out."""
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
    """By (object, function), the program's own left out: its loop is no part of the allocator."""
    mine = os.path.realpath(program)
    return {(where, fn): n for (event, where, fn), n in costs.items() if event == INSTRUCTIONS and where != mine}


def misses(costs, which):
    """The program's own count too: what the allocator drove out of a cache is missed there."""
    return sum(n for (event, _, _), n in costs.items() if event in MISSES[which])
