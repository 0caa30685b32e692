# SPDX-License-Identifier: BSD-2-Clause
"""Finds the workload program, jespan as built here, and plain jemalloc."""

import json
import os
import pathlib
import shlex
import subprocess
import sys

BENCH = pathlib.Path(__file__).resolve().parent.parent
SOURCE = BENCH.parent
# Built like an installed program, except for the builtins: the compiler must neither drop nor rewrite the calls.
CFLAGS = "-std=gnu11 -O2 -g -fno-builtin -Wall -Wextra"
CHILD_SECONDS = 300


class Failed(Exception):
    """An error that the user can fix."""


def find_library(wanted):
    """The requested jespan, or the one built in the current directory or in the source tree."""
    places = [pathlib.Path(wanted)] if wanted else [d / ".libs/libjespan.so" for d in (pathlib.Path.cwd(), SOURCE)]
    for place in places:
        if place.exists():
            return str(place.resolve())
    raise Failed(f"no {' or '.join(map(str, places))}: build jespan first, or name its library with --lib")


def build_program(directory):
    """The workload program of the build if it is up to date, or one compiled for this run."""
    sources = sorted(BENCH.glob("*.c"))
    newest = max(s.stat().st_mtime for s in [*sources, *BENCH.glob("*.h")])
    built = pathlib.Path.cwd() / "bench/workloads"
    if built.is_file() and built.stat().st_mtime >= newest:
        return str(built)
    program = os.path.join(directory, "workloads")
    compile_with("CC", "cc", [*CFLAGS.split(), f"-I{SOURCE}/include", "-o", program, *map(str, sources), "-pthread"])
    return program


def compile_with(variable, default, arguments):
    """Runs the compiler that the variable names."""
    try:
        subprocess.run([*shlex.split(os.environ.get(variable, default)), *arguments], check=True)
    except (OSError, subprocess.CalledProcessError) as e:
        raise Failed(f"cannot compile ({e}); set {variable} to a compiler") from e


def build_with_no_spans(directory, name):
    """A program of bench/programs, linked with a library whose spans do nothing. A preloaded jespan precedes it."""
    no_spans, program = os.path.join(directory, "libno_spans.so"), os.path.join(directory, name)
    flags = [*CFLAGS.split(), f"-I{SOURCE}/include"]
    compile_with("CC", "cc", [*flags, "-shared", "-fPIC", "-o", no_spans, str(BENCH / "programs/no_spans.c")])
    compile_with("CC", "cc", [*flags, "-o", program, str(BENCH / f"programs/{name}.c"), no_spans])
    return program


def list_workloads(program):
    """Tuples of name, kind and help, in the order of the table."""
    text = subprocess.run([program, "--list"], check=True, capture_output=True, text=True).stdout
    return [tuple(line.split("\t")) for line in text.splitlines()]


def run_workload(program, variant, arguments, prefix=()):
    """Runs one workload in its own process, checks where malloc came from, and returns the line."""
    command = [*prefix, variant.program or program, *map(str, arguments), *(["--span"] if variant.inside else [])]
    done = subprocess.run(
        command, env=variant.environment(), capture_output=True, text=True, timeout=CHILD_SECONDS, check=False
    )
    if done.returncode:
        raise Failed(f"{shlex.join(command)} as {variant.name}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
    result = json.loads(done.stdout.splitlines()[-1])
    if not same_library(result["malloc"], variant.origin):
        raise Failed(f"{variant.origin} was not preloaded; malloc came from {result['malloc']}: {done.stderr.strip()}")
    if variant.prof and not result["prof"]:
        raise Failed(f"{variant.origin} is built without prof")
    return result


def usage_of(process):
    """Waits for the end and returns the resources that it and its children used. `returncode` has the exit code."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage


def same_library(found, wanted):
    """Compares names. The file may have more digits after its name than the loader asked for, or be found by a link."""
    names = {os.path.basename(wanted), os.path.basename(os.path.realpath(wanted))}
    return any(os.path.basename(f).startswith(n) for f in (found, os.path.realpath(found)) for n in names)


def about(program, variant):
    """The version that the jemalloc inside a library reports."""
    return run_workload(program, variant, ["pair", "--operations", 1])["jemalloc"].split("-g")[0] or "not jemalloc"


def usable(program, variants, required):
    """The variants that run here. Reports the others with the reason. Fails if a required one does not run."""
    for variant in variants:
        try:
            run_workload(program, variant, ["pair", "--operations", 1])
            yield variant
        except (Failed, OSError, ValueError) as e:
            if variant.name in required:
                raise
            hint = f" (Debian: {variant.package})" if variant.package else ""
            say(f"{variant.name} is skipped{hint}: {e}")


def machine():
    """One line: processor, cores, kernel, load."""
    model = "unknown processor"
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    system = os.uname()
    return (
        f"{model}, {os.cpu_count()} cores, {system.sysname} {system.release} {system.machine}, "
        f"load {os.getloadavg()[0]:.1f}"
    )


def say(text):
    print(text, file=sys.stderr, flush=True)
