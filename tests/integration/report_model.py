# SPDX-License-Identifier: BSD-2-Clause
"""report_model.py JESPAN DIRECTORY PID [once] [stacks]: compares what jespan says of report_model_program with the program's own model.

PID is the program, which waits since the dump "new" and has the same figures.
"""
import collections
import csv
import fnmatch
import json
import pathlib
import random
import re
import subprocess
import sys

jespan, directory, pid, *modes = sys.argv[1:]
once, stacks = ("once" in modes), ("stacks" in modes)
WORDS = ("inuse_bytes", "inuse_objects", "alloc_bytes", "alloc_objects")
COLUMNS = "--columns=inuse,objects,alloc,allocs"
OURS = ["request", "render", "parse", "cache", "thread:w0", "thread:w1"]
ONLY_OURS = ["--filter", "|".join(OURS)]
differ = 0

# --- The model ---


class Path:
    """spans: (name, key, value); calls: (function, file, line, library). The outermost first"""

    def __init__(self, spans, calls, figures):
        self.spans, self.figures = tuple(map(tuple, spans)), collections.Counter(dict(zip(WORDS, figures)))
        self.calls = tuple(tuple(frames[i]) for i in calls)
        self.names = [name for name, _, _ in self.spans]
        self.labels = labels_of(self.spans)

    def text(self):
        return text_of(self.spans)


def labels_of(spans):
    """The nearest first. A span adds none if its value is that of the next span outwards that has the key."""
    labels, now = [], {}
    for _, key, value in spans:
        if key and now.get(key) != value:
            labels.insert(0, (key, value))
            now[key] = value
    return labels


def text_of(spans, functions=()):
    labels = ", ".join(f"{key}={value}" for key, value in labels_of(spans))
    return in_order(" > ".join([*(name for name, _, _ in spans), *functions]) + (f" {{{labels}}}" if labels else ""))


def in_order(text):
    """Contexts whose labels differ in order only are one row. The order of values of one key counts."""
    path, brace, labels = text.rstrip("}").partition(" {")
    return path + brace + ", ".join(sorted(labels.split(", "), key=lambda label: label.split("=")[0]))


def read(name):
    return [Path(*json.loads(line)) for line in open(f"{directory}/{name}.json")]


def sums(paths, keys):
    """keys(path): what it counts for"""
    groups = {}
    for path in paths:
        for key in dict.fromkeys(keys(path)):
            groups.setdefault(key, collections.Counter()).update(path.figures)
    return {key: {word: group[word] for word in WORDS} for key, group in groups.items()}


# --- What jespan says ---


def run(*words):
    return subprocess.run([jespan, *words], stdout=subprocess.PIPE, check=True).stdout.decode()


def report(*words):
    return json.loads(run("report", "--json", *words))


def compare(what, actual, expected):
    global differ
    if actual != expected:
        differ += 1
        print(f"{what}:")
        for key in list({**expected, **actual})[:2000]:
            if actual.get(key) != expected.get(key):
                print(f"  {key}: is {actual.get(key)}, should be {expected.get(key)}")


def equal(what, actual, expected):
    compare(what, {"": actual}, {"": expected})


def rows_of(rows, words=WORDS):
    """Those of the model: the main thread and jespan have others"""
    rows = [row for row in rows if row["path"][0] in OURS] if rows and "path" in rows[0] else [
        row for row in rows if row["has_key"] or [row["key"]] == NONE]
    return {in_order(row["context"]) if "context" in row else without_directory(row["key"]): {word: row[word] for word in words}
            for row in rows}


def without_directory(key):
    return re.sub(r" \(\S*/(\S+:\d+)\)$", r" (\1)", key)


def without_others(actual, expected):
    return {key: row for key, row in actual.items() if key in expected or key.split(" (")[0] not in ("setup", "(jespan)", "(root)", "(retired)")
            and not (key.startswith("thread:") and key not in OURS)}


# --- Tables of spans ---

NAMES = lambda path: list(reversed(path.names))
TENANTS = lambda path: [value for key, value in path.labels if key == "tenant"]
SHARDS = lambda path: [value for key, value in path.labels if key == "shard"]
THREADS = lambda path: [name for name in path.names if name.startswith("thread:")]
PROGRAM = "report_model_program.c"
SITES = {name: f"{name} ({PROGRAM}:{line})" for line, text in enumerate(open(pathlib.Path(__file__).with_name(PROGRAM)), 1)
         for name in re.findall(r'^ *JESPAN\w*\("(\w+)"', text)}
ABOVE = lambda path: [text_of(path.spans[:n]) for n in range(1, len(path.spans) + 1)]
BY = {"path": lambda path: [path.text()], "name": NAMES, "label:tenant": TENANTS, "label:shard": SHARDS, "thread": THREADS,
      "site": lambda path: [SITES.get(name, name) for name in NAMES(path)]}
FILTERS = {
    "cache": lambda p: "cache" in p.names,
    "request > cache": lambda p: ("request", "cache") in zip(p.names, p.names[1:]),
    "{tenant=bl*}": lambda p: any(fnmatch.fnmatch(value, "bl*") for value in TENANTS(p)),
    "render{tenant=blue,shard=-1}": lambda p: "render" in p.names and "blue" in TENANTS(p) and "-1" in SHARDS(p),
    "thread:w0|parse": lambda p: "thread:w0" in p.names or "parse" in p.names,
}


def check_spans(name, dump, paths):
    for by, keys in BY.items():
        for inclusive in (False, True) if once or by != "path" else (False,):
            expected = sums(paths, (ABOVE if by == "path" else keys) if inclusive else lambda path: keys(path)[:1])
            actual = rows_of(report(COLUMNS, "--by", by, *["--inclusive"] * inclusive, dump)["rows"])
            compare(f"{name} --by {by}{' --inclusive' * inclusive}", without_others(actual, expected), expected)
    for text, fits in FILTERS.items():
        expected = sums(filter(fits, paths), BY["path"])
        compare(f"{name} --filter {text}", rows_of(report(COLUMNS, "--filter", text, dump)["rows"]), expected)


def check_tree(name, dump, paths):
    """Each row with all below it and alone, below the row that it belongs to, and the largest of a parent first"""
    expected, own = sums(paths, ABOVE), sums(paths, BY["path"])
    for key, row in expected.items():
        for word in "inuse_bytes", "alloc_bytes":
            row[f"own_{word}"] = own.get(key, {word: 0})[word]
    actual, above, before = {}, [], {}
    for row in report("--tree", COLUMNS + ",own,ownalloc", *ONLY_OURS, dump)["rows"]:
        depth, labels = row["depth"], ", ".join(f"{key}={value}" for key, value in row["labels"].items())
        key = in_order(" > ".join(row["path"]) + (f" {{{labels}}}" if labels else ""))
        equal(f"{name} --tree: {key} comes twice", key in actual, False)
        actual[key] = {word: row[word] for word in (*WORDS, "own_inuse_bytes", "own_alloc_bytes")}
        parent = above[depth - 1] if depth else {"path": [], "labels": {}}
        equal(f"{name} --tree: the row above {key}", (len(above) >= depth, parent["path"], parent["labels"].items() <= row["labels"].items()),
              (True, row["path"][:-1], True))
        del above[depth:]
        above.append(row)
        place = (*map(id, above[:-1]),)
        equal(f"{name} --tree: order at {key}", before.get(place, row["inuse_bytes"]) >= row["inuse_bytes"], True)
        before[place] = row["inuse_bytes"]
    compare(f"{name} --tree", actual, expected)


def check_diff(old, new):
    dumps = [f"{directory}/{name}.pb.gz" for name in ("old", "new")]
    words = [f"inuse_bytes_{word}" for word in ("change", "before", "after")]
    for by, keys in {**BY, **(CALLS if stacks else {})}.items():
        is_calls = by in CALLS
        before, after = (sums(paths, keys if is_calls else lambda path: keys(path)[:1]) for paths in (old, new))
        expected = {}
        for key in {**before, **after}:
            b, a = (side.get(key, {"inuse_bytes": 0})["inuse_bytes"] for side in (before, after))
            if a != b:
                expected[key] = dict(zip(words, (a - b, b, a)))
        difference = report("--diff", "--by", by, *(ONLY_OURS if is_calls else []), *dumps)
        actual = {key: row for word in ("grown", "shrunk") for key, row in rows_of(difference[word], words).items()}
        actual = by_base_name(actual) if by in ("file", "library") else actual
        compare(f"--diff --by {by}", without_others(actual, expected), expected)


# --- Tables of calls ---

NONE = ["(no stack)"]
CALLS = {
    "function": lambda path: [function for function, _, _, _ in reversed(path.calls)] or NONE,
    "line": lambda path: [f"{file}:{line}  {function}" for function, file, line, _ in reversed(path.calls)] or NONE,
    "file": lambda path: [file for _, file, _, _ in reversed(path.calls)] or NONE,
    "library": lambda path: [library for _, _, _, library in reversed(path.calls)] or NONE,
}


def by_base_name(rows):
    result = {key.rsplit("/", 1)[-1]: row for key, row in rows.items()}
    equal("names of files and libraries", len(result), len(rows))
    return result


def check_calls(name, dump, paths):
    for by, keys in CALLS.items():
        expected, own = sums(paths, keys), sums(paths, lambda path: keys(path)[:1])
        for key, row in expected.items():
            for word in "inuse_bytes", "alloc_bytes":
                row[f"own_{word}"] = own.get(key, {word: 0})[word]
        rows = report(COLUMNS + ",own,ownalloc", "--by", by, *ONLY_OURS, dump)["rows"]
        actual = rows_of(rows, (*WORDS, "own_inuse_bytes", "own_alloc_bytes"))
        actual = by_base_name(actual) if by in ("file", "library") else actual
        compare(f"{name} --by {by}", actual, expected)
    actual = {}
    for row in report(COLUMNS, "--stacks", *ONLY_OURS, dump)["rows"]:  # functions of the same name differ, and their texts do not
        text = in_order(" > ".join(row["path"]) + row["context"][row["context"].index(" {"):] if row["labels"] else " > ".join(row["path"]))
        actual.setdefault(text, collections.Counter()).update({word: row[word] for word in WORDS})
    actual = {text: {word: row[word] for word in WORDS} for text, row in actual.items()}
    compare(f"{name} --stacks", actual, sums(paths, lambda path: [text_of(path.spans, [call[0] for call in path.calls])]))


def check_leaks(dump, paths, least):
    """What each stack has in use, by the bytes in digits that `leaks` does not print: its objects"""
    holders = sums(paths, lambda path: [path.calls or path.text()])
    expected = [row["inuse_objects"] for row in holders.values() if row["inuse_bytes"] >= least]
    found = re.findall(r"^\S+ (?:\w+ )?in (\d+) objects?$", run("leaks", "--top=0", *ONLY_OURS, f"--min-bytes={least}", dump), re.M)
    equal(f"leaks --min-bytes={least}", sorted(map(int, found)), sorted(n for n in expected if n))


# --- Order, and other forms of a table ---

SORTS = {"inuse": "inuse_bytes", "objects": "inuse_objects", "alloc": "alloc_bytes", "allocs": "alloc_objects", "peak": "peak_bytes",
         "atpeak": "at_peak_bytes"}
ALL = "--columns=inuse,share,objects,alloc,allocs,freed,frees,size,atpeak"


def check_row(what, row, total, sort):
    derived = {"freed_bytes": row["alloc_bytes"] - row["inuse_bytes"], "freed_objects": row["alloc_objects"] - row["inuse_objects"],
               "share": float(f"{row[sort] / total[sort] if total[sort] else 0:.6f}")}
    if row["inuse_objects"]:
        derived["mean_inuse_bytes"] = row["inuse_bytes"] // row["inuse_objects"]
    compare(what, {word: row[word] for word in derived}, derived)
    equal(f"{what}: mean of nothing", "mean_inuse_bytes" in row, bool(row["inuse_objects"]))


def numbers_of(line):
    return [int(word) for word in re.findall(r"\d+", line)]


def check_forms(dump, words, inclusive, peaks=True):
    for sort, column in SORTS.items():
        if sort == "peak" and not peaks:
            continue
        what = " ".join([*words, f"--sort={sort}"])
        query = [ALL + (",peak" if peaks else ""), f"--sort={sort}", *words, dump]
        whole = report(*query)
        rows, total = whole["rows"], whole["total"]
        equal(f"{what}: n_rows", whole["n_rows"], len(rows))
        equal(f"{what}: order", [row[column] for row in rows], sorted((row[column] for row in rows), reverse=True))
        for row in rows:
            check_row(what, row, total, column)
        if not inclusive:
            for word in (word for word in total if word in row and word not in ("share", "peak_bytes")):
                equal(f"{what}: total of {word}", total[word], sum(row[word] for row in rows))
        table = list(csv.DictReader(run("report", "--csv", *query).splitlines()))
        equal(f"{what}: --csv", [{k: v for k, v in row.items() if v} for row in table],
              [{k: f"{v:.6f}" if k == "share" else str(v) for k, v in row.items() if k not in ("has_key", "path", "labels")} for row in rows])
        top = random.Random(sort).randrange(1, len(rows))
        first = report(f"--top={top}", *query)
        equal(f"{what} --top={top}", (first["rows"], first["total"], first["n_rows"]), (rows[:top], total, len(rows)))
        lines = run("report", f"--top={top}", "--exact", f"--sort={sort}", *words, COLUMNS + ",atpeak", dump).splitlines()
        rest = [] if inclusive else [sum(row[word] for row in rows[top:]) for word in (*WORDS, "at_peak_bytes")]
        equal(f"{what} --top={top}: the rest", numbers_of(lines[-2]), [*rest, len(rows) - top])


# --- mallctl ---


def check_contexts(name, paths):
    """The program reads figures of each context, and of some with all below it"""
    contexts = {}
    for line in open(f"{directory}/{name}.contexts"):
        number, parent, span, key, value, own, *total = json.loads(line)
        contexts[number] = (parent, (span, key, value), own, total)
    n_totals = 0

    def spans_of(number):
        parent, span, _, _ = contexts[number]
        return (*spans_of(parent), span) if parent else ()

    own, above = {}, {}
    for path in paths:
        own.setdefault(path.spans, collections.Counter()).update(path.figures)
        for n in range(1, len(path.spans) + 1):
            above.setdefault(path.spans[:n], collections.Counter()).update(path.figures)
    for number, (_, _, figures, total) in contexts.items():
        spans = spans_of(number)
        if not spans or spans[0][0] not in OURS:
            continue
        n_totals += len(total)
        for what, is_figures, should in ("", figures, own), *(("total.", figures, above) for figures in total):
            sum_ = should.get(spans, collections.Counter())
            expected = [sum_[word] for word in WORDS]
            expected += [sum_["alloc_bytes"] - sum_["inuse_bytes"], sum_["alloc_objects"] - sum_["inuse_objects"]]
            equal(f"{name}: mallctl spans.{number}.{what}* of {text_of(spans)}", is_figures, expected)
    known = {spans_of(number) for number in contexts}
    equal(f"{name}: contexts that mallctl does not have", [spans for spans in own if spans not in known], [])
    assert n_totals > 2


def check_outside(paths):
    """The waiting program, read from outside"""
    check_spans("process", pid, paths)
    by_spans, found = {}, 0
    for path in paths:
        by_spans.setdefault(path.spans, collections.Counter()).update(path.figures)
    for spans in sorted(by_spans, key=len)[-25:]:  # the deepest ones: others fit several contexts
        text = " > ".join(name + (f"{{{key}={value}}}" if key else "") for name, key, value in spans)
        words = [jespan, "ctl", pid, "get", *(f"{word}:{text}" for word in WORDS)]
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode == 0:
            found += 1
            actual = [int(line.rsplit(" ", 1)[-1]) for line in done.stdout.decode().splitlines()]
            equal(f"ctl get of {text}", actual, [by_spans[spans][word] for word in WORDS])
        elif b"spans fit" not in done.stderr:
            equal(f"ctl get of {text}", done.stderr.decode(), "")
    equal("contexts that ctl found by their path", found > 5, True)


frames = [tuple(frame) for frame in json.load(open(f"{directory}/frames.json"))]
old, new = read("old"), read("new")
assert len(old) > 300 and len(new) > len(old) and any(not path.figures["inuse_bytes"] for path in new)
for name, paths in ("old", old), ("new", new):
    dump = f"{directory}/{name}.pb.gz"
    check_spans(name, dump, paths)
    check_contexts(name, paths)
    if once:
        check_tree(name, dump, paths)
    if stacks:
        check_calls(name, dump, paths)
for by in "path", "name", "label:tenant":
    check_forms(f"{directory}/new.pb.gz", ["--by", by], False)
if stacks:
    check_forms(f"{directory}/new.pb.gz", ["--by=line"], True, peaks=False)  # peaks of calls do not add up
check_forms(f"{directory}/new.pb.gz", ["--by=name", "--inclusive"], True)
if stacks:
    for least in 0, 300, 5000:
        check_leaks(f"{directory}/new.pb.gz", new, least)
check_diff(old, new)
check_outside(new)
sys.exit(differ > 0)
