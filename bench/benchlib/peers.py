# SPDX-License-Identifier: BSD-2-Clause
"""Builds the programs in bench/peers: Rust's exact profilers, which cannot be preloaded, and one without a profiler."""

import os
import pathlib
import shutil
import subprocess

from . import target
from .variants import Variant

RUST = "rust"
BUILD_SECONDS = 1200
KINDS = ("time", "peer", "memory")
# Name of the program and of the variant, and a description.
PROFILERS = [
    ("tracing-prof", "tracing-prof in a span, reporting to nobody"),
    ("alloc-track-none", "alloc-track without backtraces"),
    ("alloc-track", "alloc-track with short backtraces"),
]


def build():
    """The directory of the programs. It is kept in build/ of the current directory, because the crates take minutes."""
    if not shutil.which("cargo"):
        raise target.Failed("no cargo (any Rust from 1.86 on)")
    place = pathlib.Path.cwd() / "build/bench-peers"
    shutil.copytree(target.BENCH / "peers", place, ignore=shutil.ignore_patterns("target"), dirs_exist_ok=True)
    target.say("building bench/peers with cargo")
    done = subprocess.run(
        ["cargo", "build", "--release", "--quiet"], cwd=place, capture_output=True, text=True, timeout=BUILD_SECONDS,
        check=False, env={**os.environ, "CARGO_TARGET_DIR": str(place / "target")},
    )
    if done.returncode:
        raise target.Failed(f"cargo build failed: {done.stderr.strip()[-500:]}")
    return place / "target/release"


def variants(plain):
    """The Rust profilers over plain jemalloc, and the same program without any. Nothing if they cannot be built."""
    try:
        place = build()
    except (target.Failed, OSError, subprocess.TimeoutExpired) as e:
        target.say(f"{', '.join(name for name, _ in PROFILERS)} are skipped: {e}")
        return
    yield Variant(RUST, "the same program on plain jemalloc", (plain,), kinds=KINDS, program=str(place / "plain"),
                  base=RUST)
    for name, text in PROFILERS:
        yield Variant(name, text, (plain,), kinds=KINDS, program=str(place / name), base=RUST, exact=True)
