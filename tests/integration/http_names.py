# SPDX-License-Identifier: BSD-2-Clause
"""http_names.py STACKS REPORT: compares an answer of /stacks with `jespan report --json --stacks` of the same process, which is quiet."""
import json
import sys

FIGURES = ("inuse_bytes", "inuse_objects", "alloc_bytes")


def of_service(answer):
    """From a path of names to what was allocated there."""
    spans, found = {span["id"]: span for span in answer["spans"]}, {}
    for span in spans.values():
        path, at = [], span
        while at and at["kind"] != "root":
            path, at = [at["name"] + "".join(f" {key}={value}" for key, value in at["labels"].items())] + path, spans.get(at["parent"])
        figures = [span[name] for name in FIGURES]
        if any(figures) and path:
            found[tuple(path)] = [a + b for a, b in zip(found.get(tuple(path), [0] * len(FIGURES)), figures)]
    return found


def of_report(report):
    found = {}
    for row in report["rows"]:
        figures = [row[name] for name in FIGURES]
        found[tuple(row["path"])] = [a + b for a, b in zip(found.get(tuple(row["path"]), [0] * len(FIGURES)), figures)]
    return found


def without_labels(found):
    merged = {}
    for path, figures in found.items():
        key = tuple(name.split(" route=")[0] for name in path)
        merged[key] = [a + b for a, b in zip(merged.get(key, [0] * len(FIGURES)), figures)]
    return merged


service, report = (json.load(open(name)) for name in sys.argv[1:])
service, report = without_labels(of_service(service)), of_report(report)
different = [path for path in service.keys() | report.keys() if service.get(path) != report.get(path)]
for path in different:
    print(" > ".join(path), "is", service.get(path), "should be", report.get(path))
print(len(service), "paths")
sys.exit(bool(different) or len(service) < 5)
