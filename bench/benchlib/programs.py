# SPDX-License-Identifier: BSD-2-Clause
"""Real programs from start to end: CPU time of a program and its children, and the largest RSS of any."""

import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

from . import docstore, redis, rows, target

PROGRAMS = target.BENCH / "programs"
SQL = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer TEXT, item TEXT, price REAL);
CREATE INDEX by_customer ON orders (customer, price);
WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200000)
INSERT INTO orders SELECT i, 'customer ' || (i * 7919 % 10007), 'item ' || i, i % 997 / 10.0 FROM n;
SELECT count(*), group_concat(substr(customer, 10, 1)) FROM (SELECT customer FROM orders GROUP BY customer);
"""


def run_program(variant, command, settings, directory):
    """User CPU, and that with the kernel's, in milliseconds, and largest RSS in MiB.

    The output goes to a file, which is shown after a failure.
    """
    log = os.path.join(directory, "output")
    environment = {**variant.environment(), **settings}
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command, env=environment, cwd=directory, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        usage = target.usage_of(process)
    if process.returncode:
        said = pathlib.Path(log).read_text(encoding="utf-8", errors="replace")[-500:]
        raise target.Failed(f"{shlex.join(command)} as {variant.name}: exit {process.returncode}: {said}")
    return usage.ru_utime * 1000, (usage.ru_utime + usage.ru_stime) * 1000, usage.ru_maxrss / 1024


def function_source(i):
    """A function for an optimiser: loops, branches, calls of earlier functions."""
    before = f"f{i - 1}(x ^ {i}, y)" if i else "y"
    return f"""
static struct pair f{i}_table[16] = {{{{{i}, {i * 3}}}, {{1, 2}}}};
unsigned f{i}(unsigned x, unsigned y)
{{
    unsigned sum = x % {i + 3};
    for (unsigned n = 0; n < (y & 63); n++) {{
        f{i}_table[n & 15].a += sum * n;
        if (sum & {1 << i % 12})
            sum += f{i}_table[(x + n) & 15].b;
        else
            sum ^= {before};
        switch (sum % 5) {{ case 0: x++; break; case 1: y ^= x; break; case 3: sum = sum << 3; break; default: y--; }}
    }}
    return sum + x * y;
}}
"""


def prepare_gcc(directory, quick):
    """A generated file, large enough for a second of compilation."""
    source = os.path.join(directory, "large.c")
    text = "struct pair { unsigned a, b; };\n" + "".join(function_source(i) for i in range(60 if quick else 250))
    pathlib.Path(source).write_text(text, encoding="utf-8")
    return [shutil.which("gcc"), "-O2", "-c", "-o", "large.o", source], {}


def prepare_json(directory, quick):
    program = os.path.join(directory, "json")
    target.compile_with("CXX", "c++", ["-std=c++17", "-O2", "-o", program, str(PROGRAMS / "json.cc")])
    return [program, "5" if quick else "20"], {}


def prepare_python(_directory, quick):
    """The interpreter itself: the python3 of PATH may be a shell script, whose processes would be counted too."""
    return [sys.executable, str(PROGRAMS / "objects.py"), "1" if quick else "4"], {}


def prepare_python_malloc(directory, quick):
    return prepare_python(directory, quick)[0], {"PYTHONMALLOC": "malloc"}


def prepare_sqlite(_directory, _quick):
    return ["sqlite3", ":memory:", SQL], {}


# Name, description, the program that it needs, and the function that returns its command line and variables.
TABLE = [
    ("python", "python3, building and dropping dicts, lists, strings and objects", "python3", prepare_python),
    ("python-malloc", "the same with PYTHONMALLOC=malloc, so that all objects come from malloc", "python3",
     prepare_python_malloc),
    ("sqlite", "sqlite3, 200,000 rows and an index in memory", "sqlite3", prepare_sqlite),
    ("json", "a C++ program that parses JSON into maps, strings and vectors", "c++", prepare_json),
    ("gcc", "gcc -O2 of a generated file", "gcc", prepare_gcc),
]


def rows_of_one_run(table, variants, run, most_rounds=rows.Row.most_rounds):
    """A row for each entry. `run` returns the figures of all by name."""
    shared = rows.Shared(run)
    for name, unit, text, more in table:
        yield rows.Row(name, "program", unit, text, variants, shared.taker(name), most_rounds, more)


def prepared_once(prepare, run):
    """Prepares at the first run, so that rows that are not selected cost nothing."""
    made = []

    def prepared(variant):
        if not made:
            made.append(prepare())
        return run(variant, made[0])

    return prepared


def whole_process_rows(variants, directory, quick):
    for name, text, needed, prepare in TABLE:
        if not shutil.which(needed):
            target.say(f"{name} is skipped: no {needed}")
            continue

        def prepare_it(prepare=prepare):
            place = tempfile.mkdtemp(dir=directory)
            return place, *prepare(place, quick)

        def run(variant, prepared, name=name):
            place, command, settings = prepared
            user, both, rss = run_program(variant, command, settings, place)
            return {f"{name}-cpu": user, f"{name}-cpu-all": both, f"{name}-rss": rss}

        table = [
            (f"{name}-cpu", "ms", f"{text}: user CPU", False),
            (f"{name}-cpu-all", "ms", "the same: user and system CPU", False),
            (f"{name}-rss", "MiB", "the same: RSS", False),
        ]
        yield from rows_of_one_run(table, variants, prepared_once(prepare_it, run))


def redis_rows(variants, quick):
    if redis.missing():
        target.say(f"redis is skipped: no {redis.missing()} (Debian: redis-server, redis-tools)")
        return
    yield from rows_of_one_run(redis.ROWS, variants, lambda variant: redis.run_once(variant, quick))
    if not quick:
        yield from rows_of_one_run(redis.BIG_ROWS, variants, redis.run_big, most_rounds=1)


def docstore_rows(variants, directory, quick):
    if docstore.missing():
        target.say(f"docstore is skipped: no {docstore.missing()} (tools/setup bench installs it)")
        return
    run = prepared_once(lambda: docstore.build(directory), lambda v, program: docstore.run_once(v, program, quick))
    yield from rows_of_one_run(docstore.ROWS, variants, run)


START_ROWS = [
    ("start-time", "us", "/bin/true from start to end, elapsed: the best of many", False),
    ("start-vmsize", "MiB", "address space of cat", False),
    ("start-rss", "MiB", "largest RSS of cat", False),
]
STARTS, QUICK_STARTS = 200, 50


def run_start(variant, quick):
    """What a program costs that does next to nothing."""
    environment, best = variant.environment(), float("inf")
    for _ in range(QUICK_STARTS if quick else STARTS):
        began = time.monotonic()
        subprocess.run(["/bin/true"], env=environment, check=True)
        best = min(best, time.monotonic() - began)
    cat = subprocess.run(["/bin/cat", "/proc/self/status"], env=environment, capture_output=True, text=True, check=True)
    kib = {line.split(":")[0]: int(line.split()[1]) for line in cat.stdout.splitlines() if line.endswith(" kB")}
    return {"start-time": best * 1e6, "start-vmsize": kib["VmSize"] / 1024, "start-rss": kib["VmHWM"] / 1024}


def program_rows(variants, directory, quick):
    able = [v for v in variants if "program" in v.kinds]
    yield from rows_of_one_run(START_ROWS, able, lambda variant: run_start(variant, quick))
    yield from redis_rows(able, quick)
    yield from whole_process_rows(able, directory, quick)
    yield from docstore_rows(able, directory, quick)
