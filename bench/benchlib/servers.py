# SPDX-License-Identifier: BSD-2-Clause
"""Runs a server with a variant preloaded, for programs that are measured while they serve."""

import contextlib
import os
import pathlib
import subprocess
import tempfile
import time

from . import target

START_SECONDS = 30
# Files here are in memory, so that no disk affects the comparison.
PLACE = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@contextlib.contextmanager
def running(variant, command, ready):
    """Runs the command that `command` returns for a new directory. Yields its process id and the result of `ready`.

    `ready` is asked with the directory and with what the server has said, until it answers something.
    """
    with tempfile.TemporaryDirectory(prefix="bench-server-", dir=PLACE) as directory:
        said = pathlib.Path(directory, "said")
        with open(said, "wb") as output:
            process = subprocess.Popen(
                command(directory), env=variant.environment(), cwd=directory, stdin=subprocess.DEVNULL, stdout=output,
                stderr=output,
            )
        try:
            answer = wait_until(process, lambda: ready(directory, said.read_text(errors="replace")), said)
            check_preloaded(process.pid, variant)
            yield process.pid, answer
        finally:
            process.terminate()
            process.wait()


def wait_until(process, answer, said):
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if got := answer():
            return got
        time.sleep(0.02)
    said = said.read_text(errors="replace").strip()[-500:]
    raise target.Failed(f"{process.args[0]} does not answer (exit {process.poll()}): {said}")


def check_preloaded(pid, variant):
    """Looks at the mapped files: the loader only warns about a library that it cannot load."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        loaded = {line.split()[-1] for line in maps}
    for library in variant.preload:
        if not any(target.same_library(found, library) for found in loaded):
            raise target.Failed(f"{library} was not preloaded into process {pid}")


def resident_mib(pid):
    """The exact figure, unlike the counters in stat and statm."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Rss:")) / 1024


def cpu_seconds(pid):
    """User CPU, and that with the kernel's, in ticks of 10 ms, the unit of the system."""
    behind_name = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1]
    user, system = (int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in behind_name.split()[11:13])
    return user, user + system


def client(command):
    """The output of a client."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=target.CHILD_SECONDS)
    if done.returncode:
        raise target.Failed(f"{command[0]}: exit {done.returncode}: {(done.stdout + done.stderr).strip()[-500:]}")
    return done.stdout
