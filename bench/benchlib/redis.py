# SPDX-License-Identifier: BSD-2-Clause
"""A real program: redis-server, with SET, GET and LRANGE through a pipeline.

It does little but allocate, so it shows what the micro-benchmarks cannot: cache misses and lost reuse in a real heap.
What counts most is the server's user CPU time, which it reports itself, and its RSS: throughput and latency on a small
machine are the client's as much as the server's.
"""

import csv
import os
import shutil

from . import servers, target

VALUE_BYTES, LIST_LENGTH, BIG_KEYS = 64, 100, 5_000_000
OPTIONS = ["--port", "0", "--save", "", "--appendonly", "no", "--daemonize", "no"]

# Name of the row, unit, description, and whether more is better.
ROWS = [
    ("redis-cpu", "ms", "SET of 1,000,000 keys of 64 B, pipeline 64: user CPU", False),
    ("redis-cpu-all", "ms", "the same SET: user and system CPU", False),
    ("redis-rss", "MiB", "RSS after these", False),
    ("redis-set-rps", "1/s", "the same SET: requests in a second", True),
    ("redis-set-p99", "ms", "the same SET: latency that 1 % exceeds", False),
    ("redis-get-cpu", "ms", "1,000,000 GET of these keys, pipeline 64: user CPU", False),
    ("redis-get-cpu-all", "ms", "the same GET: user and system CPU", False),
    ("redis-get-rps", "1/s", "the same GET: requests in a second", True),
    ("redis-get-p99", "ms", "the same GET: latency that 1 % exceeds", False),
    ("redis-lrange-cpu", "ms", "100,000 LRANGE of 100 values of 64 B, pipeline 16: user CPU", False),
    ("redis-lrange-cpu-all", "ms", "the same LRANGE: user and system CPU", False),
    ("redis-lrange-rps", "1/s", "the same LRANGE: requests in a second", True),
    ("redis-lrange-p99", "ms", "the same LRANGE: latency that 1 % exceeds", False),
]
BIG_ROWS = [("redis-5m-rss", "MiB", "redis-server with 5,000,000 keys of 64 B: RSS", False)]


def missing():
    """The name of a missing program, or None."""
    return next((p for p in ("redis-server", "redis-benchmark", "redis-cli") if not shutil.which(p)), None)


def socket_in(directory):
    return os.path.join(directory, "redis.sock")


def ask(socket, *words):
    return servers.client(["redis-cli", "-s", socket, *words]).strip()


def answers(directory, _said):
    try:
        return socket_in(directory) if ask(socket_in(directory), "ping") == "PONG" else None
    except target.Failed:
        return None


def server(variant, *options):
    """Yields the process and the socket."""
    command = lambda d: ["redis-server", "--unixsocket", socket_in(d), "--dir", d, *OPTIONS, *options]  # noqa: E731
    return servers.running(variant, command, answers)


def cpu_ms(socket):
    """User CPU, and that with the kernel's."""
    lines = dict(line.split(":") for line in ask(socket, "info", "cpu").splitlines() if ":" in line)
    user, system = (float(lines[name]) * 1000 for name in ("used_cpu_user", "used_cpu_sys"))
    return user, user + system


def load(socket, requests, pipeline, *what):
    """CPU of the server, requests per second, and the latency that 1 % of them exceed, in milliseconds."""
    before = cpu_ms(socket)
    sizes = ["-n", str(requests), "-P", str(pipeline), "-c", "50", "--csv"]
    said = servers.client(["redis-benchmark", "-s", socket, *sizes, *what])
    figures = next(csv.DictReader(said.splitlines()))
    after = cpu_ms(socket)
    return after[0] - before[0], after[1] - before[1], float(figures["rps"]), float(figures["p99_latency_ms"])


def run_once(variant, quick):
    """One server for all of ROWS."""
    got, requests = {}, 200_000 if quick else 1_000_000
    keys = ["-r", str(requests), "-d", str(VALUE_BYTES)]
    with server(variant) as (pid, socket):
        load_set = load(socket, requests, 64, *keys, "-t", "set")
        got["redis-cpu"], got["redis-cpu-all"], got["redis-set-rps"], got["redis-set-p99"] = load_set
        got["redis-rss"] = servers.resident_mib(pid)
        got |= named("redis-get", load(socket, requests, 64, *keys, "-t", "get"))
        ask(socket, "rpush", "list", *(f"{i:0{VALUE_BYTES}}" for i in range(LIST_LENGTH)))
        got |= named("redis-lrange", load(socket, requests // 10, 16, "lrange", "list", "0", str(LIST_LENGTH - 1)))
    return got


def named(row, figures):
    return dict(zip((f"{row}-cpu", f"{row}-cpu-all", f"{row}-rps", f"{row}-p99"), figures, strict=True))


def run_big(variant):
    """The server makes the keys itself, like SET. That is faster than any client."""
    with server(variant, "--enable-debug-command", "local") as (pid, socket):
        ask(socket, "debug", "populate", str(BIG_KEYS), "key", str(VALUE_BYTES))
        return {"redis-5m-rss": servers.resident_mib(pid)}
