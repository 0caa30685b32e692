# SPDX-License-Identifier: BSD-2-Clause
"""Counts instructions per operation, function by function, by running a workload under valgrind's callgrind.

The same run is made twice with different numbers of operations; the difference, divided by the difference of the
numbers, is free of start-up, set-up and end. Simulated instructions do not depend on the machine's load.
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
NAME = re.compile(r"c?(ob|fn)=\((\d+)\)(?: (.*))?")
COST = re.compile(r"[0-9+*-]")


def parse(lines):
    """Self cost by (object, function). Names are given once and then by number; costs after calls= are the callee's."""
    names, current, costs = {}, {}, collections.Counter()
    skip = False
    for line in lines:
        if found := NAME.match(line):
            kind, key, name = found.groups()
            name = names.setdefault((kind, key), name)
            if not line.startswith("c"):
                current[kind] = name
        elif line.startswith("calls="):
            skip = True
        elif COST.match(line):
            if not skip:
                costs[current["ob"], current["fn"]] += int(line.split()[1])
            skip = False
    return costs


def profile(program, variant, arguments, operations):
    with tempfile.TemporaryDirectory(prefix="bench-callgrind-") as directory:
        out = os.path.join(directory, "out")
        prefix = [*VALGRIND, f"--callgrind-out-file={out}"]
        target.run_workload(program, variant, [*arguments, "--operations", operations], prefix)
        with open(out, encoding="utf-8", errors="replace") as f:
            return parse(f.read().splitlines())


def per_operation(program, variant, arguments):
    """Instructions by (object, function), the program's own left out: its loop is no part of the allocator."""
    many, few = (profile(program, variant, arguments, n) for n in (MANY, FEW))
    many.subtract(few)
    mine = {k: v / (MANY - FEW) for k, v in many.items() if k[0] != os.path.realpath(program) and v}
    if not any(target.same_library(k[0], variant.origin) for k in mine):
        raise target.Failed(f"no instruction of {variant.origin} was counted")
    return mine
