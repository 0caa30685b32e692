# SPDX-License-Identifier: BSD-2-Clause
"""A real program with spans: the example service under wrk.

It is linked with a library whose spans do nothing (bench/programs/no_spans.c). jespan, where it is preloaded, comes
before that: one program, whose spans cost what they cost under jespan, and an empty call under all others.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from . import servers, target

EXAMPLE = target.SOURCE / "examples/docstore"
LIBRARIES = ["libmicrohttpd", "jansson", "sqlite3"]
CFLAGS = ["-std=gnu11", "-D_GNU_SOURCE", "-O2", f"-I{target.SOURCE}/include"]
WARM_UP_SECONDS = 1
SECONDS, QUICK_SECONDS = 4, 2
RESULT = re.compile(r"load: (\d+) requests in [\d.]+ s \((\d+)/s\), latency .* 99% ([\d.]+) ms, 0 failed")

ROWS = [
    ("docstore-rps", "1/s", "the example service under wrk: requests in a second", True),
    ("docstore-p99", "ms", "the same: latency that 1 % exceeds", False),
    ("docstore-cpu", "us", "the same: user CPU of the service for a request", False),
    ("docstore-cpu-all", "us", "the same: user and system CPU", False),
    ("docstore-rss", "MiB", "the same: RSS at the end", False),
]


def missing():
    """The name of a missing program, or None."""
    for program in ("wrk", "jq", "pkg-config"):
        if not shutil.which(program):
            return program
    if not os.path.exists("/usr/share/iso-codes/json/iso_3166-2.json"):
        return "iso-codes"
    found = subprocess.run(["pkg-config", "--exists", *LIBRARIES], check=False)
    return f"libraries {', '.join(LIBRARIES)}" if found.returncode else None


def build(directory):
    place = tempfile.mkdtemp(dir=directory)
    flags = subprocess.run(
        ["pkg-config", "--cflags", "--libs", *LIBRARIES], check=True, capture_output=True, text=True
    ).stdout.split()
    no_spans, program = os.path.join(place, "libno_spans.so"), os.path.join(place, "docstore")
    source = str(target.BENCH / "programs/no_spans.c")
    target.compile_with("CC", "cc", [*CFLAGS, "-shared", "-fPIC", "-o", no_spans, source])
    sources = map(str, sorted(EXAMPLE.glob("*.c")))
    target.compile_with("CC", "cc", [*CFLAGS, "-o", program, *sources, no_spans, *flags, "-pthread"])
    return program


def load(url, seconds, *options):
    """Requests, requests per second, and the latency that 1 % of them exceed."""
    said = servers.client([str(EXAMPLE / "load"), "--threads", "1", "--seconds", str(seconds), *options, url])
    if not (result := RESULT.search(said)):
        raise target.Failed(f"cannot read what examples/docstore/load says: {said}")
    return [float(n) for n in result.groups()]


def listening(_directory, said):
    found = re.search(r"listening on (http://[^,]*),", said)
    return found and found[1]


def run_once(variant, program, quick):
    """The measurement starts when all documents are stored and the cache is warm."""
    options = ["--port", "0", "--threads", "1"]
    command = lambda directory: [program, *options, "--db", str(pathlib.Path(directory, "db"))]  # noqa: E731
    with servers.running(variant, command, listening) as (pid, url):
        load(url, WARM_UP_SECONDS)
        before = servers.cpu_seconds(pid)
        requests, rate, p99 = load(url, QUICK_SECONDS if quick else SECONDS, "--no-seed")
        user, both = ((now - then) / requests * 1e6 for now, then in zip(servers.cpu_seconds(pid), before, strict=True))
        return {
            "docstore-rps": rate, "docstore-p99": p99, "docstore-cpu": user, "docstore-cpu-all": both,
            "docstore-rss": servers.resident_mib(pid)
        }
