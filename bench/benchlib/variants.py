# SPDX-License-Identifier: BSD-2-Clause
"""The compared allocators and profilers, each as libraries to preload and variables to set."""

import dataclasses
import os
import typing

from . import heaptrack

# The names of plain jemalloc, jespan, and jespan with all threads inside an open span.
PLAIN, JESPAN, SPAN = "plain", "jespan", "jespan-span"
# Ways to track times: none, wall time, CPU time by a system call. By default jespan needs no system call.
TIMED = {"time-off": "track_time:off", "time-wall": "track_time:wall", "cpu-thread": "cpu_clock:thread"}
# Modes of stacks.
STACKS = {"stacks-all": "stacks:all", "stacks-sampled": "stacks:sampled"}
# Allocation policies of that span: its own arena, a limit that is never reached.
GOVERNED = {"jespan-arena": "arena:bench", "jespan-limit": "limit:bench=64G"}
JEMALLOC = "libjemalloc.so.2"
# Also preloaded, for programs that are linked with another allocator, like Debian's redis-server.
LIBC = "libc.so.6"
# Long enough for two dumps at one per second, also with --quick.
DUMPS_MS = 2200

ALL_KINDS = ("time", "program", "memory", "idle", "peer", "heap")


@dataclasses.dataclass(frozen=True)
class Variant:
    """Programs run with `preload` in LD_PRELOAD. The first library has malloc.

    `settings` are added to the environment; those that end in _CONF, after the caller's own.
    """

    name: str
    help: str
    preload: tuple
    settings: dict = dataclasses.field(default_factory=dict)
    package: str = ""  # Debian's
    kinds: tuple = ALL_KINDS  # of rows that it can run
    inside: bool = False  # in an open span
    by_mean: bool = False  # costs something now and then only, which a best round would hide
    least_ms: int = 0
    prof: bool = False  # needs a jemalloc that was built with prof
    program: str = ""  # one that has the allocator built in, instead of bench/workloads
    base: str = PLAIN  # the variant that it is compared with
    exact: bool = False  # a profiler that counts every allocation, which jespan is to beat
    beside: typing.Callable | None = None  # bytes per object of the last run that another process of it holds

    @property
    def origin(self):
        """The library that malloc must come from."""
        return self.preload[0]

    def environment(self):
        """The variables of the caller, except LD_PRELOAD. MALLOC_CONF and JESPAN_CONF apply to all variants."""
        env = {**os.environ, "LD_PRELOAD": ":".join(self.preload)}
        for name, value in self.settings.items():
            own = os.environ.get(name) if name.endswith("_CONF") else None
            env[name] = f"{own},{value}" if own else value
        return env


def jespan_variants(library, directory):
    """The built library outside any span, inside one, and with a running reporter."""
    conf = f"dump_dir:{directory},dump_interval_s:1,dump_keep:2,module_dir:{os.path.dirname(library)}"
    kinds = (*ALL_KINDS, "span", "contexts", "snapshot", "timed", "stacks")
    yield Variant(JESPAN, "jespan, outside any span", (library,), kinds=kinds)
    yield Variant(SPAN, "jespan, all threads in an open span", (library,), kinds=("time", "peer", "heap"), inside=True)
    yield Variant(
        "jespan-dumps", "jespan, its reporter dumping every second", (library,), {"JESPAN_CONF": conf},
        kinds=("time", "program"), by_mean=True, least_ms=DUMPS_MS,
    )
    for name, setting in GOVERNED.items():
        settings = {"JESPAN_CONF": setting}
        yield Variant(name, f"jespan-span with {setting}", (library,), settings, kinds=("time", "idle"), inside=True)
    for name, setting in TIMED.items():
        yield Variant(name, f"jespan, {setting}", (library,), {"JESPAN_CONF": setting}, kinds=("timed",))
    for name, setting in STACKS.items():
        yield Variant(name, f"jespan, {setting}", (library,), {"JESPAN_CONF": setting}, kinds=("stacks",))


def allocators(plain, jespan, directory):
    """Everything that --variants can name, plain jemalloc first."""
    return [
        Variant(PLAIN, "plain jemalloc", (plain,), package="libjemalloc2"),
        *jespan_variants(jespan, directory),
        Variant(
            "jemalloc-prof", "plain jemalloc, sampling every 512 KiB", (plain,),
            {"MALLOC_CONF": "prof:true,lg_prof_sample:19"}, "libjemalloc2", prof=True,
        ),
        Variant("glibc", "the C library's own", (LIBC,)),
        Variant("mimalloc", "mimalloc", ("libmimalloc.so.2",), package="libmimalloc2.0"),
        Variant("tcmalloc", "tcmalloc, minimal", ("libtcmalloc_minimal.so.4",), package="libtcmalloc-minimal4"),
    ]


def profilers(plain, jespan, directory):
    """jespan and the preloaded exact profilers, each over plain jemalloc if it allows a choice."""
    events = os.path.join(directory, "heaptrack")
    return [
        Variant(PLAIN, "plain jemalloc", (plain,), package="libjemalloc2"),
        *list(jespan_variants(jespan, directory))[:2],
        Variant(
            "jemalloc-prof-0", "jemalloc prof, every allocation", (plain,),
            {"MALLOC_CONF": "prof:true,lg_prof_sample:0"}, "libjemalloc2", prof=True, exact=True,
        ),
        Variant(
            "gperftools", "gperftools HEAPPROFILE on its tcmalloc", ("libtcmalloc.so.4",),
            {"HEAPPROFILE": os.path.join(directory, "gperftools")}, "libgoogle-perftools4", exact=True,
        ),
        Variant(
            "heaptrack", "heaptrack, writing what it recorded to a file", (heaptrack.PRELOAD, plain),
            {"DUMP_HEAPTRACK_OUTPUT": events}, "heaptrack", exact=True,
            beside=lambda: heaptrack.interpreter_bytes_per_object(events),
        ),
    ]
