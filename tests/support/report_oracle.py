# SPDX-License-Identifier: BSD-2-Clause
"""report_oracle.py JESPAN OLD NEW: compares `jespan report` with another reading of two heap profiles.

The profiles are decoded here by the wire format of protocol buffers and grouped in the plainest way. Every table of
`jespan report --json` and `--csv` must have the same rows with the same figures. Prints what differs.
"""
import collections
import csv
import fnmatch
import gzip
import json
import subprocess
import sys

from pushed import fields

failures = 0


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def numbers(value):
    if isinstance(value, int):
        return [signed(value)]
    result, current, shift = [], 0, 0
    for byte in value:
        current |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            result.append(signed(current))
            current = shift = 0
    return result


class Sample:
    """path: names, the outermost first. sites: the same with places. labels: pairs, the nearest first."""

    def __init__(self, path, sites, labels, values):
        self.path, self.sites, self.labels = tuple(path), tuple(sites), tuple(labels)
        self.values = values


def read(path):
    with open(path, "rb") as file:
        data = gzip.decompress(file.read())
    messages = collections.defaultdict(list)
    for number, value in fields(data):
        messages[number].append(value)
    strings = [text.decode() for text in messages[6]]
    types = [strings[dict(fields(kind))[1]] for kind in messages[1]]
    functions = {}
    for message in messages[5]:
        f = dict(fields(message))
        place = f" ({strings[f[4]]}:{f.get(5, 0)})" if f.get(4) else ""
        functions[f[1]] = (strings[f[2]], strings[f[2]] + place)
    locations = {}
    for message in messages[4]:
        parts = list(fields(message))
        lines = [functions[dict(fields(value))[1]] for number, value in parts if number == 4]
        locations[dict(parts)[1]] = lines[-1]
    samples = []
    for message in messages[2]:
        frames, values, labels = [], [], []
        for number, value in fields(message):
            if number == 1:
                frames += numbers(value)
            elif number == 2:
                values += numbers(value)
            else:
                label = dict(fields(value))
                text = strings[label[2]] if label.get(2) else str(signed(label.get(3, 0)))
                labels.append((strings[label[1]], text))
        frames = [locations[frame] for frame in reversed(frames)]
        samples.append(Sample([f[0] for f in frames], [f[1] for f in frames], labels, dict(zip(types, values))))
    return samples, messages[9][0] if messages[9] else 0


PEAKS = ("max_space", "max_total_space", "peak_space")


def has_peaks_only(sample):
    """A context that never allocated, for the peaks of those below it: reports without peaks leave it out"""
    peaks = [sample.values.get(name, 0) for name in PEAKS]
    return any(peaks) and not any(value for name, value in sample.values.items() if name not in PEAKS)


COLUMNS = {"inuse_bytes": ("inuse_space", None), "inuse_objects": ("inuse_objects", None), "alloc_bytes": ("alloc_space", None),
           "alloc_objects": ("alloc_objects", None), "freed_bytes": ("alloc_space", "inuse_space"),
           "freed_objects": ("alloc_objects", "inuse_objects")}


def figures(values):
    return {name: values[plus] - (values[minus] if minus else 0) for name, (plus, minus) in COLUMNS.items()}


def add(groups, key, values):
    group = groups.setdefault(key, collections.Counter())
    group.update(values)


def path_text(sample):
    labels = ", ".join(f"{key}={value}" for key, value in sample.labels)
    return " > ".join(sample.path) + (f" {{{labels}}}" if labels else "")


def keys_of(sample, by):
    if by == "name":
        return list(reversed(sample.path))
    if by == "site":
        return list(reversed(sample.sites))
    if by == "thread":
        return [name for name in reversed(sample.path) if name.startswith("thread:")]
    return [value for key, value in sample.labels if key == by.split(":", 1)[1]]


NONE = {"name": "(no path)", "site": "(no path)", "thread": "(spans)"}


def grouped(samples, by, inclusive):
    groups = {}
    for sample in samples:
        if by == "path":
            add(groups, path_text(sample), sample.values)
            continue
        keys = keys_of(sample, by) or [NONE.get(by, "(without)")]
        for key in dict.fromkeys(keys if inclusive else keys[:1]):
            add(groups, key, sample.values)
    return groups


def label_set(labels):
    """The order counts among labels with the same key."""
    return frozenset((key, value, sum(other == key for other, _ in labels[i + 1:])) for i, (key, value) in enumerate(labels))


def trees(samples):
    """Each path with all below it and alone, by names and the set of its labels"""
    own, total, known = {}, {}, set()
    for sample in samples:
        known.add((sample.path, label_set(sample.labels)))
    for sample in samples:
        left = 0
        for n in range(len(sample.path), 0, -1):
            path = sample.path[:n]
            for skip in range(left, len(sample.labels) + 1):
                labels = label_set(sample.labels[skip:])
                if (path, labels) in known:
                    left = skip
                    break
            key = (path, label_set(sample.labels[left:]))
            add(total, key, sample.values)
            known.add(key)  # a context without a sample is known from the first sample below it
            add(own, key, sample.values if n == len(sample.path) else {})
    return total, own


def run(*words):
    done = subprocess.run([jespan, "report", *words], stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(f"jespan report {' '.join(words)}: status {done.returncode}")
    return done.stdout.decode()


def compare(what, actual, expected):
    global failures
    if actual != expected:
        failures += 1
        print(f"{what}:")
        for key in list(dict.fromkeys([*actual, *expected])):
            if actual.get(key) != expected.get(key):
                print(f"  {key}: is {actual.get(key)}, should be {expected.get(key)}")


ALL = "--columns=inuse,objects,alloc,allocs,freed,frees"


def check_groups(path, samples):
    for by in "path", "name", "site", "thread", "label:tenant", "label:shard", "label:none":
        for inclusive in [[], ["--inclusive"]] if by != "path" else [[]]:
            expected = {key: figures(values) for key, values in grouped(samples, by, inclusive).items()}
            report = json.loads(run("--json", ALL, "--by", by, *inclusive, path))
            names = [row.get("context", row.get("key")) for row in report["rows"]]
            actual = {name: {k: row[k] for k in COLUMNS} for name, row in zip(names, report["rows"])}
            compare(f"--by {by} {inclusive}", actual, expected)
            if len(set(names)) != len(names):
                compare(f"--by {by}: rows that repeat", {"n": len(names)}, {"n": len(set(names))})
            in_use = [row["inuse_bytes"] for row in report["rows"]]
            compare(f"--by {by}: order", {"in use": in_use}, {"in use": sorted(in_use, reverse=True)})
            total = figures(sum((collections.Counter(s.values) for s in samples), collections.Counter(dict.fromkeys(samples[0].values, 0))))
            compare(f"--by {by}: total", report["total"], total)
    rows = list(csv.DictReader(run("--csv", ALL, "--by=name", path).splitlines()))
    actual = {row["key"]: {k: int(row[k]) for k in COLUMNS} for row in rows}
    compare("--csv", actual, {key: figures(values) for key, values in grouped(samples, "name", False).items()})


def check_tree(path, samples):
    total, own = trees(samples)
    report = json.loads(run("--json", "--tree", "--columns=inuse,objects,alloc,allocs,freed,frees,own", path))
    expected = {key: {**figures(values), "own_inuse_bytes": own[key]["inuse_space"]} for key, values in total.items()}
    compare("--tree: number of rows", {"n": len(report["rows"])}, {"n": len(expected)})
    above = []
    for row in report["rows"]:
        del above[row["depth"]:]
        if row["path"][:-1] != (above[-1]["path"] if above else []) or row["depth"] + 1 != len(row["path"]):
            compare("--tree: what is above", {row["context"]: row["path"]}, {})
        if above and not set(above[-1]["labels"]) <= set(row["labels"]):
            compare("--tree: labels", {row["context"]: row["labels"]}, {})
        above.append(row)
    actual = sorted((row["path"], *[row[k] for k in [*COLUMNS, "own_inuse_bytes"]]) for row in report["rows"])
    compare("--tree", {"rows": actual}, {"rows": sorted((list(key[0]), *values.values()) for key, values in expected.items())})


def check_peaks(path, samples):
    """What was there at the peak is a sum. Together, contexts had at least that, what one of them had, and what they have."""
    for by in "path", "name", "label:tenant":
        expected, inuse = {}, {}
        for sample in samples:
            if has_peaks_only(sample) and not sample.values["max_space"]:
                continue
            key = path_text(sample) if by == "path" else (keys_of(sample, by) or [NONE.get(by, "(without)")])[0]
            row = expected.setdefault(key, {"peak_bytes": 0, "at_peak_bytes": 0})
            row["peak_bytes"] = max(row["peak_bytes"], sample.values["max_space"])
            row["at_peak_bytes"] += sample.values["peak_space"]
            inuse[key] = inuse.get(key, 0) + sample.values["inuse_space"]
        for key, row in expected.items():
            row["peak_bytes"] = max(row["peak_bytes"], row["at_peak_bytes"], inuse[key])
        report = json.loads(run("--json", "--columns=peak,atpeak", "--sort=peak", "--by", by, path))
        compare(f"--by {by}: peaks", {row.get("context", row.get("key")): {k: row[k] for k in ("peak_bytes", "at_peak_bytes")}
                                      for row in report["rows"]}, expected)
        peaks = [row["peak_bytes"] for row in report["rows"]]
        compare(f"--by {by}: order of peaks", {"peaks": peaks}, {"peaks": sorted(peaks, reverse=True)})
        compare(f"--by {by}: total of peaks", report["total"], {"peak_bytes": max(s.values["max_total_space"] for s in samples),
                                                                "at_peak_bytes": sum(s.values["peak_space"] for s in samples)})


FILTERS = {
    "cache": lambda s: "cache" in s.path,
    "request > cache": lambda s: ("request", "cache") in zip(s.path, s.path[1:]),
    "request>**>cache": lambda s: "request" in s.path and "cache" in s.path[s.path.index("request") + 1:],
    "request > * > cache": lambda s: any(s.path[i] == "request" and s.path[i + 2] == "cache" for i in range(len(s.path) - 2)),
    "{tenant=b*}": lambda s: any(k == "tenant" and v.startswith("b") for k, v in s.labels),
    "c*{tenant=blue,shard=*}": lambda s: any(fnmatch.fnmatchcase(n, "c*") for n in s.path) and ("tenant", "blue") in s.labels
    and any(k == "shard" for k, _ in s.labels),
    "!cache": lambda s: "cache" not in s.path,
    "parse|!request": lambda s: "parse" in s.path or "request" not in s.path,
    "~^(cache|pars.)$": lambda s: "cache" in s.path or "parse" in s.path,
    "~ch": lambda s: any("ch" in n for n in s.path),
    "!~^[a-c].*e$": lambda s: not any(n[0] in "abc" and n[-1] == "e" for n in s.path),
}


def check_filters(path, samples):
    for text, fits in FILTERS.items():
        expected = {key: figures(values) for key, values in grouped([s for s in samples if fits(s)], "path", False).items()}
        report = json.loads(run("--json", ALL, "--filter", text, path))
        compare(f"--filter {text!r}", {row["context"]: {k: row[k] for k in COLUMNS} for row in report["rows"]}, expected)


def large_rows(rows, column, bound):
    """Rows that have so many bytes, and in a tree all above these."""
    result, depth = [], 0
    for row in reversed(rows):
        if row[column] >= bound or row.get("depth", 0) < depth:
            result.append(row)
            depth = row.get("depth", 0)
    return result[::-1]


def check_min_bytes(path, samples):
    """The same rows as without a bound, but for those below it."""
    for sort, column in ("inuse", "inuse_bytes"), ("alloc", "alloc_bytes"), ("peak", "peak_bytes"), ("atpeak", "at_peak_bytes"):
        for options in ["--by", "path"], ["--by", "label:tenant"], ["--tree"], ["--by", "path", "--top", "5"]:
            every = json.loads(run("--json", "--sort", sort, *options, path))
            sizes = sorted(row[column] for row in every["rows"])
            for bound in 1, sizes[len(sizes) // 2], sizes[-1], sizes[-1] + 1:
                some = json.loads(run("--json", "--sort", sort, *options, "--min-bytes", str(bound), path))
                compare(f"--min-bytes {bound} {options}", {"rows": some["rows"], "n": some["n_rows"], "total": some["total"]},
                        {"rows": large_rows(every["rows"], column, bound), "n": every["n_rows"], "total": every["total"]})
    bound = sorted(s.values["inuse_space"] for s in samples)[len(samples) // 2]
    lines = run("--folded", "--min-bytes", str(bound), path).splitlines()
    sums = [values["inuse_space"] for values in grouped(samples, "path", False).values()]
    compare("--folded --min-bytes", {"figures": sorted(int(line.split()[-1]) for line in lines)},
            {"figures": sorted(figure for figure in sums if figure >= bound and figure)})


def check_diff(old_path, old, new_path, new, minutes):
    for by in "path", "name", "label:tenant":
        before, after = grouped(old, by, False), grouped(new, by, False)
        expected = {"grown": {}, "shrunk": {}}
        for key in {**before, **after}:
            a, b = (side.get(key, collections.Counter())["inuse_space"] for side in (before, after))
            if a != b:
                expected["grown" if b > a else "shrunk"][key] = (b - a, a, b, int((b - a) / minutes))
        report = json.loads(run("--json", "--diff", "--by", by, old_path, new_path))
        for word, rows in expected.items():
            actual = {row.get("context", row.get("key")): tuple(
                row[f"inuse_bytes_{k}"] for k in ("change", "before", "after", "per_minute")) for row in report[word]}
            compare(f"--diff --by {by}: {word}", actual, rows)
        changes = sorted(abs(row[0]) for rows in expected.values() for row in rows.values())
        report = json.loads(run("--json", "--diff", "--by", by, "--min-bytes", str(changes[len(changes) // 2]), old_path, new_path))
        compare(f"--diff --by {by} --min-bytes", {"changes": sorted(abs(row["inuse_bytes_change"]) for row in report["grown"] + report["shrunk"])},
                {"changes": [change for change in changes if change >= changes[len(changes) // 2]]})


jespan, old_path, new_path = sys.argv[1:]
(old, old_time), (new, new_time) = read(old_path), read(new_path)
check_peaks(new_path, new)
old, new = ([sample for sample in samples if not has_peaks_only(sample)] for samples in (old, new))
check_groups(new_path, new)
check_tree(new_path, new)
check_filters(new_path, new)
check_min_bytes(new_path, new)
check_diff(old_path, old, new_path, new, (new_time - old_time) / 60e9)
print(f"{len(old)} and {len(new)} samples, {failures} tables differ")
sys.exit(failures > 0)
