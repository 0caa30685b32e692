# SPDX-License-Identifier: BSD-2-Clause
"""A real program: redis-server, asked to SET keys of 64 bytes through a pipeline of 64.

It does little but allocate, so it shows what the micro-benchmarks cannot: cache misses and lost reuse in a real heap.
What counts is the server's user CPU time and its RSS at the end, the first from the server itself; throughput on a
small machine is the client's as much as the server's.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time

from . import target

KEYS, QUICK_KEYS = 1_000_000, 200_000
VALUE_BYTES, PIPELINE = 64, 64
START_SECONDS = 30
SERVER_OPTIONS = ["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no"]


def missing():
    """The program that is not there, or None."""
    return next((p for p in ("redis-server", "redis-benchmark", "redis-cli") if not shutil.which(p)), None)


@contextlib.contextmanager
def server(variant):
    """A server on a socket of its own, ended with the block."""
    with tempfile.TemporaryDirectory(prefix="bench-redis-") as directory:
        socket = os.path.join(directory, "redis.sock")
        command = ["redis-server", "--unixsocket", socket, "--dir", directory, *SERVER_OPTIONS]
        process = subprocess.Popen(command, env=variant.environment(), stdout=subprocess.DEVNULL)
        try:
            wait_until_ready(process, socket)
            check_preloaded(process.pid, variant)
            yield process.pid, socket
        finally:
            process.terminate()
            process.wait()


def wait_until_ready(process, socket):
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end and process.poll() is None:
        if ask(socket, "ping") == "PONG":
            return
        time.sleep(0.02)
    raise target.Failed(f"redis-server does not answer (exit {process.poll()})")


def check_preloaded(pid, variant):
    """By the files behind its mappings: the loader leaves out with no more than a warning what it lacks."""
    with open(f"/proc/{pid}/maps", encoding="utf-8") as maps:
        loaded = {line.split()[-1] for line in maps}
    for library in variant.preload:
        if not any(target.same_library(found, library) for found in loaded):
            raise target.Failed(f"{library} was not preloaded into redis-server")


def ask(socket, *words):
    done = subprocess.run(["redis-cli", "-s", socket, *words], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def load(socket, keys):
    command = ["redis-benchmark", "-s", socket, "-t", "set", "-q", "-c", "50"]
    sizes = ["-n", str(keys), "-r", str(keys), "-d", str(VALUE_BYTES), "-P", str(PIPELINE)]
    done = subprocess.run([*command, *sizes], capture_output=True, text=True, check=False)
    if done.returncode:
        raise target.Failed(f"redis-benchmark failed: {done.stderr.strip()[-500:]}")


def info(socket, field):
    for line in ask(socket, "info", "all").splitlines():
        if line.startswith(field + ":"):
            return float(line.split(":")[1])
    raise target.Failed(f"redis-server does not report {field}")


def resident_mib(pid):
    """Exact, unlike the counters in stat and statm."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("Rss:")) / 1024


def text(quick):
    keys = QUICK_KEYS if quick else KEYS
    return f"redis-server, SET of {keys:,} keys of {VALUE_BYTES} B, pipeline {PIPELINE}"


def run_once(variant, quick):
    """User CPU in milliseconds and RSS in MiB after the load."""
    with server(variant) as (pid, socket):
        before = info(socket, "used_cpu_user")
        load(socket, QUICK_KEYS if quick else KEYS)
        return (info(socket, "used_cpu_user") - before) * 1000, resident_mib(pid)
