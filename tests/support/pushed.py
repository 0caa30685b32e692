# SPDX-License-Identifier: BSD-2-Clause
"""What a Pyroscope server or an OpenTelemetry collector is pushed: decoding it, checking it against the server's limits, and books of its figures.

Knows of protobuf what the messages at hand need: https://protobuf.dev/programming-guides/encoding/.
"""

import collections
import gzip
import hashlib
import json
import re
import time
import zlib

MAX_SAMPLES, MAX_BYTES, MAX_SAMPLE_LABELS, MAX_SERIES_LABELS = 16000, 4 << 20, 100, 30
LEVELS = ("inuse_objects", "inuse_space")  # all others are sums
NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*$")  # Grafana hides others


class Wrong(Exception):
    """What a server answers with 400."""


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """Pairs of a field's number and its value, a number or bytes."""
    at, end = 0, len(data)
    while at < end:
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 1:
            value, at = int.from_bytes(data[at : at + 8], "little"), at + 8
        elif key & 7 == 2:
            length, at = varint(data, at)
            if at + length > end:
                raise Wrong("a field is cut")
            value, at = data[at : at + length], at + length
        else:
            raise Wrong(f"wire type {key & 7}")
        yield key >> 3, value


def message(data):
    """The fields of a message, each a list of its values by number."""
    found = collections.defaultdict(list)
    for number, value in fields(data):
        found[number].append(value)
    return found


def numbers(values):
    """A repeated number's, packed or not."""
    for value in values:
        at = 0
        while not isinstance(value, int) and at < len(value):
            number, at = varint(value, at)
            yield number
        if isinstance(value, int):
            yield value


def signed(number):
    return number - (1 << 64) if number >> 63 else number


def one(values, otherwise=0):
    return values[-1] if values else otherwise


class Profile:
    """A pprof profile: its types, the time that it covers, and samples as (leaf, labels, values)."""

    def __init__(self, data):
        try:
            self.bytes = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
            self.found = message(self.bytes)
            self.strings = [bytes(s).decode() for s in self.found[6]]
            self.types = [self.text(one(message(t)[1])) for t in self.found[1]]
        except (IndexError, UnicodeDecodeError, EOFError, OSError, zlib.error) as error:
            raise Wrong(f"no profile: {error}") from error
        self.count = len(self.found[2])
        self.until_ns = one(self.found[9])
        self.from_ns = self.until_ns - one(self.found[10])

    def text(self, index):
        return self.strings[index]

    def leaves(self):
        """Names of locations, by their numbers."""
        names = {}
        for data in self.found[5]:
            function = message(data)
            names[one(function[1])] = self.text(one(function[2]))
        leaves = {}
        for data in self.found[4]:
            location = message(data)
            leaves[one(location[1])] = names[one(message(one(location[4]))[1])]
        return leaves

    def samples(self):
        leaves = self.leaves()
        for data in self.found[2]:
            yield self.sample(message(data), leaves)

    def sample(self, found, leaves):
        stack = [leaves[i] for i in numbers(found[1])]
        values = [signed(n) for n in numbers(found[2])]
        labels = {}
        for label in map(message, found[3]):
            labels[self.text(one(label[1]))] = self.text(one(label[2]))
        if len(values) != len(self.types):
            raise Wrong(f"{len(values)} values of {len(self.types)} types")
        if not stack or len(labels) != len(found[3]) or len(labels) > MAX_SAMPLE_LABELS:
            raise Wrong(f"labels {labels} of {stack}")
        return stack[0], labels, values

    def brief_samples(self):
        """The same without labels, which is quicker."""
        leaves = self.leaves()
        for data in self.found[2]:
            parts = dict(fields(data))  # the last label is enough
            yield leaves[varint(parts[1], 0)[0]], {}, list(numbers([parts[2]]))


class OtlpTables:
    """The dictionary of a request."""

    def __init__(self, data):
        found = message(data)
        self.strings = [bytes(s).decode() for s in found[5]]
        self.functions = [self.strings[one(message(f)[1])] for f in found[3]]
        self.leaves = [self.leaf(message(location)) for location in found[2]]
        self.stacks = [list(numbers(message(stack)[1])) for stack in found[7]]
        self.attributes = [self.attribute(message(a)) for a in found[6]]
        self.links = [tuple(bytes(one(message(link)[i])).hex() for i in (1, 2)) for link in found[4]]

    def leaf(self, location):
        return self.functions[one(message(location[3][0])[1])] if location[3] else None

    def attribute(self, found):
        value = message(one(found[2], b""))
        return self.strings[one(found[1])], bytes(one(value[1], b"")).decode()


class OtlpProfile:
    """A profile of OTLP, which has one type."""

    def __init__(self, tables, data):
        self.tables, self.bytes = tables, data
        self.found = message(data)
        self.types = [tables.strings[one(message(one(self.found[1]))[1])]]
        self.count = len(self.found[2])
        self.from_ns = one(self.found[3])
        self.until_ns = self.from_ns + one(self.found[4])

    def samples(self):
        for found in map(message, self.found[2]):
            stack = self.tables.stacks[one(found[1])]
            labels = dict(self.tables.attributes[i] for i in numbers(found[2]))
            if link := one(found[3]):
                labels["trace_id"], labels["span_id"] = self.tables.links[link]
            values = list(numbers(found[4]))
            if not stack or len(values) != 1:
                raise Wrong(f"{values} of {stack}")
            yield self.tables.leaves[stack[0]], labels, values

    brief_samples = samples


def text_of(labels):
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


class Books:
    """What was accepted. With `brief`, as if samples had no labels."""

    def __init__(self, brief=False):
        self.brief = brief
        self.sums = collections.Counter()
        self.levels = {}  # by type: the time of the newest profile, and its figures
        self.series = collections.Counter()
        self.wrong = []
        self.seen = {}  # IDs, and hashes of what they named
        self.until = {}  # by series: where the time of its last profile ended
        self.most = collections.Counter()

    def check_limits(self, profile):
        now = time.time_ns()
        self.most["samples"] = max(self.most["samples"], profile.count)
        self.most["bytes"] = max(self.most["bytes"], len(profile.bytes))
        self.most["profiles"] += 1
        if profile.count > MAX_SAMPLES or len(profile.bytes) > MAX_BYTES:
            raise Wrong(f"too large: {profile.count} samples, {len(profile.bytes)} bytes")
        if not now - 3600 * 10**9 < profile.from_ns <= profile.until_ns < now + 600 * 10**9:
            raise Wrong(f"from {profile.from_ns} to {profile.until_ns}, and it is {now}")

    def check_series(self, labels):
        for key in labels:
            if not NAME.match(key):
                raise Wrong(f"a label's name is {key}")
        if len(labels) > MAX_SERIES_LABELS or not labels.get("__name__") or not labels.get("service_name"):
            raise Wrong(f"labels {labels}")

    def check_order(self, series, profile):
        """Neither the beginning nor the end goes back: a period that was refused is told with the next one."""
        last_from, last_until = self.until.get(series, (0, 0))
        if profile.from_ns < last_from or profile.until_ns < last_until:
            self.wrong.append(f"{series}: {profile.from_ns} to {profile.until_ns} after {last_from} to {last_until}")
        self.until[series] = profile.from_ns, profile.until_ns

    def add_level(self, key, kind, value, profile):
        when, figures = self.levels.setdefault(kind, (profile.until_ns, collections.Counter()))
        if when < profile.until_ns:
            figures = collections.Counter()
        if when <= profile.until_ns:
            figures[key] += value
            self.levels[kind] = profile.until_ns, figures

    def begin_levels(self, profile):
        for kind in profile.types:
            if kind in LEVELS:
                self.add_level("", kind, 0, profile)

    def add(self, series, profile):
        self.series[text_of(series)] += 1
        self.begin_levels(profile)
        if "alloc_space" in profile.types:
            self.most["with_inuse" if "inuse_space" in profile.types else "without_inuse"] += 1
        added = collections.Counter()
        for leaf, labels, values in profile.brief_samples() if self.brief else profile.samples():
            key = f"{leaf}{{{text_of(labels)}}}"
            for kind, value in zip(profile.types, values):
                if value < 0:
                    raise Wrong(f"{key} {kind} {value}")
                if kind in LEVELS:
                    self.add_level(key, kind, value, profile)
                else:
                    added[key, kind] += value
        self.sums.update(added)

    def accept(self, series, data, identity, make=Profile):
        """`make` makes a profile of the data. Raises Wrong. What has an ID that was accepted before is passed over, as the server does."""
        digest = hashlib.sha256(data).digest()
        if identity in self.seen:
            if self.seen[identity] != digest:
                self.wrong.append(f"other bytes under the ID {identity}")
            return
        profile = make(data)
        self.check_limits(profile)
        self.check_series(series)
        self.check_order(text_of(series), profile)
        self.add(series, profile)
        if identity:
            self.seen[identity] = digest

    def text(self):
        lines = [f"{key} {kind} {value}" for (key, kind), value in self.sums.items() if value]
        for kind, (_, figures) in self.levels.items():
            lines += [f"{key} {kind} {value}" for key, value in figures.items() if value]
        return "".join(f"{line}\n" for line in sorted(lines))


def pushed_samples(body):
    """Of a PushRequest: labels, profile and ID of each sample."""
    for series in map(message, message(body)[1]):
        labels = {}
        for pair in map(message, series[1]):
            labels[bytes(one(pair[1])).decode()] = bytes(one(pair[2])).decode()
        for sample in map(message, series[2]):
            yield labels, bytes(one(sample[1], b"")), bytes(one(sample[2], b"")).decode()


def push(books, body):
    """A PushRequest."""
    for labels, data, identity in pushed_samples(body):
        books.accept(labels, data, identity)


def otlp_profiles(body):
    """Of an ExportProfilesServiceRequest: labels of a series, profile and ID of each profile, and a function that makes it."""
    found = message(body)
    tables = OtlpTables(one(found[2]))
    for resource in map(message, found[1]):
        labels = {}
        for pair in map(message, message(one(resource[1]))[1]):
            value = message(one(pair[2]))
            text = bytes(one(value[1], b"")).decode() or str(one(value[3]))
            labels[bytes(one(pair[1])).decode().replace(".", "_")] = text
        for data in (data for scoped in map(message, resource[2]) for data in scoped[2]):
            profile = OtlpProfile(tables, data)
            series = labels | {"__name__": profile.types[0]}
            yield series, data, bytes(one(profile.found[7])).hex(), lambda data: OtlpProfile(tables, data)


def otlp(books, body):
    """An ExportProfilesServiceRequest."""
    for series, data, identity, make in list(otlp_profiles(body)):
        books.accept(series, data, identity, make)


def v2_error(labels, data, options):
    """Why version 2 of the server refuses a series, in its words, or None."""
    if labels["__name__"] == options.get("refuse"):
        return "resource_exhausted: push rate limit (4.0 MiB) exceeded while adding 1 B"
    profile = Profile(data)
    if profile.count > int(options.get("samples", MAX_SAMPLES)):
        return (f"the profile with labels '{text_of(labels)}' exceeds the samples count limit (max_profile_stacktrace_samples, "
                f"actual: {profile.count}, limit: {options['samples']})")
    return None


def push_v2(books, body, options):
    """A PushRequest as version 2 of the server takes it: each series by itself, and IDs mean nothing. Returns its errors. A
    mock, after pkg/distributor/distributor.go and pkg/validation/validate.go of its sources."""
    errors = []
    for index, (labels, data, identity) in enumerate(pushed_samples(body)):
        if len(data) > int(options.get("bytes", MAX_BYTES)):
            errors.append("uncompressed profile payload size exceeds limit of 1 B")
        elif error := v2_error(labels, data, options):
            errors.append(f"push series with index {index} and id {identity} failed: {error}")
        else:
            books.accept(labels, data, None)
    return f"{len(errors)} errors: {'; '.join(errors)}" if len(errors) > 1 else "".join(errors)


def identities(body, is_otlp):
    """The IDs in what may be a request, gzipped."""
    try:
        if is_otlp:
            return [identity for _, _, identity, _ in otlp_profiles(gzip.decompress(body))]
        series = map(message, message(gzip.decompress(body))[1])
        return [bytes(one(message(sample)[2])).decode() for s in series for sample in s[2]]
    except (Wrong, OSError, EOFError, IndexError, TypeError, UnicodeDecodeError, zlib.error):
        return []


def parts(content_type, body):
    """Of a multipart form, by name."""
    boundary = re.search(r'boundary="?([^";]+)', content_type)
    if not boundary:
        raise Wrong("no multipart form")
    found = {}
    for part in body.split(b"--" + boundary[1].encode())[1:-1]:
        head, _, content = part.partition(b"\r\n\r\n")
        name = re.search(rb'name="([^"]*)"', head)
        found[name[1].decode() if name else ""] = content.removesuffix(b"\r\n")
    return found


def ingest(books, query, content_type, body):
    """A request for /ingest."""
    form = parts(content_type, body)
    name, _, labels = query.get("name", "").partition("{")
    if not {"profile", "sample_type_config"} <= form.keys() or "format" in query or not name:
        raise Wrong(f"parts {list(form)}, query {query}")
    series = dict(pair.split("=", 1) for pair in labels.rstrip("}").split(",") if pair)
    config = json.loads(form["sample_type_config"])
    profile = Profile(form["profile"])
    for kind in profile.types:
        if kind not in config or (kind.startswith("alloc") and config[kind].get("cumulative") is not False):
            raise Wrong(f"{kind} in {config}")
    books.accept({"__name__": ",".join(profile.types), "service_name": name, **series}, form["profile"], None)
