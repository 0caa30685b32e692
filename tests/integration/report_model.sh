#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan report` of random programs, compared with what the programs counted themselves: by path, name, label and thread, with all
# below, filters, differences. report.sh compares reports with dumps; this compares them with the truth.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

need python3
"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without the pprof exporter"
compile "$scratch/program" tests/integration/report_model_program.c
export JESPAN_CONF=module_dir:$JESPAN_MODULES,contexts_kept:1000000

cat > "$scratch/compare.py" << 'END'
import collections, fnmatch, json, subprocess, sys
jespan, directory, *once = sys.argv[1:]
WORDS = ("inuse_bytes", "inuse_objects", "alloc_bytes", "alloc_objects")
COLUMNS = "--columns=inuse,objects,alloc,allocs"
OURS = {"request", "render", "parse", "cache", "thread:w0", "thread:w1"}
differ = 0

class Path:
    """spans: (name, key, value), the outermost first"""
    def __init__(self, spans, figures):
        self.spans, self.figures = tuple(map(tuple, spans)), collections.Counter(dict(zip(WORDS, figures)))
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

def text_of(spans):
    labels = ", ".join(f"{key}={value}" for key, value in labels_of(spans))
    return in_order(" > ".join(name for name, _, _ in spans) + (f" {{{labels}}}" if labels else ""))

def in_order(text):
    """Contexts whose labels differ in order only are one row. The order of values of one key counts."""
    path, brace, labels = text.rstrip("}").partition(" {")
    return path + brace + ", ".join(sorted(labels.split(", "), key=lambda label: label.split("=")[0]))

def read(name):
    return [Path(*json.loads(line)) for line in open(f"{directory}/{name}.json")]

def report(*words):
    return json.loads(subprocess.run([jespan, "report", "--json", *words], stdout=subprocess.PIPE, check=True).stdout)

def sums(paths, keys):
    """keys(path): what it counts for"""
    groups = {}
    for path in paths:
        for key in dict.fromkeys(keys(path)):
            groups.setdefault(key, collections.Counter()).update(path.figures)
    return {key: {word: group[word] for word in WORDS} for key, group in groups.items()}

def compare(what, actual, expected):
    global differ
    if actual != expected:
        differ += 1
        print(f"{what}:")
        for key in list({**expected, **actual})[:2000]:
            if actual.get(key) != expected.get(key):
                print(f"  {key}: is {actual.get(key)}, should be {expected.get(key)}")

def rows_of(rows, words=WORDS):
    """Those of the model: the main thread and jespan have others"""
    rows = [row for row in rows if row["path"][0] in OURS] if rows and "path" in rows[0] else [row for row in rows if row["has_key"]]
    return {in_order(row["context"]) if "context" in row else row["key"]: {word: row[word] for word in words} for row in rows}

NAMES = lambda path: list(reversed(path.names))
TENANTS = lambda path: [value for key, value in path.labels if key == "tenant"]
SHARDS = lambda path: [value for key, value in path.labels if key == "shard"]
THREADS = lambda path: [name for name in path.names if name.startswith("thread:")]
ABOVE = lambda path: [text_of(path.spans[:n]) for n in range(1, len(path.spans) + 1)]
BY = {"path": lambda path: [path.text()], "name": NAMES, "label:tenant": TENANTS, "label:shard": SHARDS, "thread": THREADS}
FILTERS = {
    "cache": lambda p: "cache" in p.names,
    "request > cache": lambda p: ("request", "cache") in zip(p.names, p.names[1:]),
    "{tenant=bl*}": lambda p: any(fnmatch.fnmatch(value, "bl*") for value in TENANTS(p)),
    "render{tenant=blue,shard=-1}": lambda p: "render" in p.names and "blue" in TENANTS(p) and "-1" in SHARDS(p),
    "thread:w0|parse": lambda p: "thread:w0" in p.names or "parse" in p.names,
}

def without_others(actual, expected):
    return {key: row for key, row in actual.items() if key in expected or key not in ("setup", "(jespan)", "(root)", "(retired)")
            and not (key.startswith("thread:") and key not in OURS)}

def check(name, paths):
    dump = f"{directory}/{name}.pb.gz"
    for by, keys in BY.items():
        for inclusive in (False, True) if once or by != "path" else (False,):
            expected = sums(paths, (ABOVE if by == "path" else keys) if inclusive else lambda path: keys(path)[:1])
            actual = rows_of(report(COLUMNS, "--by", by, *["--inclusive"] * inclusive, dump)["rows"])
            compare(f"{name} --by {by}{' --inclusive' * inclusive}", without_others(actual, expected), expected)
    for text, fits in FILTERS.items():
        expected = sums(filter(fits, paths), BY["path"])
        compare(f"{name} --filter {text}", rows_of(report(COLUMNS, "--filter", text, dump)["rows"]), expected)

def check_diff(old, new):
    dumps = [f"{directory}/{name}.pb.gz" for name in ("old", "new")]
    words = [f"inuse_bytes_{word}" for word in ("change", "before", "after")]
    for by, keys in BY.items():
        before, after = (sums(paths, lambda path: keys(path)[:1]) for paths in (old, new))
        expected = {}
        for key in {**before, **after}:
            b, a = (side.get(key, {"inuse_bytes": 0})["inuse_bytes"] for side in (before, after))
            if a != b:
                expected[key] = dict(zip(words, (a - b, b, a)))
        difference = report("--diff", "--by", by, *dumps)
        actual = {key: row for word in ("grown", "shrunk") for key, row in rows_of(difference[word], words).items()}
        compare(f"--diff --by {by}", without_others(actual, expected), expected)

old, new = read("old"), read("new")
assert len(old) > 300 and len(new) > len(old) and any(not path.figures["inuse_bytes"] for path in new)
check("old", old)
check("new", new)
check_diff(old, new)
sys.exit(differ > 0)
END

# With labels that come again on a path, a sample does not say which contexts are above its own
for words in 1 2 "3 once" "4 once"; do
    read -r seed once <<< "$words"
    mkdir "$scratch/$seed"
    "$scratch/program" "$seed" "$scratch/$seed" $once || fail "seed $seed: no dumps: status $?"
    python3 "$scratch/compare.py" "$JESPAN_CMD" "$scratch/$seed" $once > "$scratch/out" 2>&1 ||
        fail_with "seed $seed: the report differs from the program's own model" "$scratch/out"
done
finish
