#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a collector's file exporter has written of profiles, checked by the rules of the protocol and added up.

usage: otlp_profiles.py FILE WHAT
  figures    "SPAN_ID alloc_objects alloc_space inuse_objects inuse_space cpu wall" of each span, in hexadecimal order
  stacks     "TYPE PATH {KEY=VALUE,…} VALUE" of memory, of each sample that is not jespan's own, of the last push
  resource   KEY=VALUE of the process, of the last push
  dump       FILE is a heap dump: the same as `stacks`, by pprof's format
"""

import collections
import json
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../support"))
import pushed

TYPES = "alloc_objects", "alloc_space", "inuse_objects", "inuse_space", "cpu", "wall"
UNITS = {"alloc_objects": "count", "inuse_objects": "count", "alloc_space": "bytes", "inuse_space": "bytes"}
TABLES = "mappingTable", "locationTable", "functionTable", "attributeTable", "stackTable"
LEVELS = "inuse_objects", "inuse_space"


class Push:
    """One request: the dictionary, and the profiles of one process."""

    def __init__(self, data):
        self.tables = data["dictionary"]
        self.strings = self.tables["stringTable"]
        (of_resource,) = data["resourceProfiles"]
        self.resource = of_resource["resource"]["attributes"]
        (scoped,) = of_resource["scopeProfiles"]
        assert scoped["scope"]["name"] == "jespan", scoped["scope"]
        self.profiles = scoped["profiles"]
        self.check()

    def check(self):
        assert self.strings[0] == "" and len(set(self.strings)) == len(self.strings), self.strings
        for name in TABLES:
            entries = [json.dumps(entry, sort_keys=True) for entry in self.tables[name]]
            assert entries[0] in ("{}", '{"value": {}}'), (name, entries[0])
            assert len(set(entries)) == len(entries), name
        for profile in self.profiles:
            unit = self.strings[profile["sampleType"]["unitStrindex"]]
            assert unit == UNITS.get(self.type_of(profile), "nanoseconds"), unit
            assert profile["period"] == "1" and len(profile["profileId"]) == 32, profile["profileId"]

    def type_of(self, profile):
        return self.strings[profile["sampleType"]["typeStrindex"]]

    def text_of(self, value):
        """The collector may keep texts in the table of strings."""
        if "stringValueStrindex" in value:
            return self.strings[value["stringValueStrindex"]]
        return value.get("stringValue", value.get("intValue", ""))

    def pairs(self, attributes):
        keys = [a.get("key") or self.strings[a["keyStrindex"]] for a in attributes]
        assert len(set(keys)) == len(keys), keys
        return {key: self.text_of(a["value"]) for key, a in zip(keys, attributes)}

    def attributes(self, sample):
        return self.pairs([self.tables["attributeTable"][i] for i in sample.get("attributeIndices", [])])

    def path(self, sample):
        """Outermost first."""
        names = []
        for i in self.tables["stackTable"][sample["stackIndex"]]["locationIndices"]:
            (line,) = self.tables["locationTable"][i]["lines"]
            names.insert(0, self.strings[self.tables["functionTable"][line["functionIndex"]]["nameStrindex"]])
        return names

    def link(self, sample):
        return self.tables["linkTable"][sample.get("linkIndex", 0)]

    def samples(self):
        for profile in self.profiles:
            for sample in profile.get("samples", ()):
                (value,) = map(int, sample["values"])
                assert value > 0, sample
                yield self.type_of(profile), sample, value


def figures(pushes):
    sums = collections.Counter()
    for push in pushes:
        for span, kind in list(sums):
            if kind in LEVELS:
                sums[span, kind] = 0
        for kind, sample, value in push.samples():
            if link := push.link(sample):
                assert len(link["traceId"]) == 32, link
                sums[link["spanId"], kind] += value
    for span in sorted({span for span, _ in sums}):
        print(span, *(sums[span, kind] for kind in TYPES))


class Dump(pushed.Profile):
    """Its samples have the whole path."""

    def sample(self, found, leaves):
        _, labels, values = super().sample(found, leaves)
        return [leaves[i] for i in pushed.numbers(found[1])][::-1], labels, values


def line_of(kind, path, labels, value):
    text = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    return f"{kind} {' > '.join(path)} {{{text}}} {value}"


def is_own(path):
    return path[0] == "(jespan)"


def stacks(push):
    for kind, sample, value in push.samples():
        labels, path = push.attributes(sample), push.path(sample)
        if link := push.link(sample):
            labels |= {"span_id": link["spanId"], "trace_id": link["traceId"]}
        if kind not in ("cpu", "wall") and not is_own(path):
            yield line_of(kind, path, labels, value)


def dump_stacks(dump):
    for path, labels, values in dump.samples():
        for kind, value in zip(dump.types, values):
            if kind in TYPES and value and not is_own(path):
                yield line_of(kind, path, labels, value)


def main():
    if sys.argv[2] == "dump":
        with open(sys.argv[1], "rb") as file:
            print(*sorted(dump_stacks(Dump(file.read()))), sep="\n")
        return
    with open(sys.argv[1], encoding="utf-8") as file:
        pushes = [Push(json.loads(line)) for line in file]
    if sys.argv[2] == "figures":
        figures(pushes)
    elif sys.argv[2] == "stacks":
        print(*sorted(stacks(pushes[-1])), sep="\n")
    else:
        print(*(f"{key}={value}" for key, value in sorted(pushes[-1].pairs(pushes[-1].resource).items())), sep="\n")


main()
