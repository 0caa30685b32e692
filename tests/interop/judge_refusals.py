# SPDX-License-Identifier: BSD-2-Clause
# Pushes profiles to the judge in argv[1] that have one fault each, and prints those that are not answered as they should be.
import base64
import json
import sys
import time
import urllib.error
import urllib.request

ID = "734fd599-6865-419e-9475-932762d8f4"
LABELS = {"__name__": "wall", "service_name": "judged"}


def varint(n):
    return bytes([n & 127 | 128]) + varint(n >> 7) if n > 127 else bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def profile(value=1, age_s=0, label=None, samples=1, more=b""):
    """One stack in profile.proto's fields; label is a pair of a name and a value."""
    strings = [b"", b"wall", b"nanoseconds", b"f"] + list(label or ())
    sample = field(1, b"\1") + field(2, varint(value)) + (field(3, field(1, 4) + field(2, 5)) if label else b"")
    kind = field(1, 1) + field(2, 2)
    return (field(1, kind) + field(2, sample) * samples + field(4, field(1, 1) + field(4, field(1, 1)))
            + field(5, field(1, 1) + field(2, 3)) + b"".join(field(6, s) for s in strings)
            + field(9, time.time_ns() - age_s * 10**9) + field(11, kind) + field(12, 1) + more)


def push(raw, identifier, labels):
    pairs = [{"name": name, "value": value} for name, value in labels.items()]
    samples = [{"rawProfile": base64.b64encode(raw).decode(), "ID": identifier}]
    request = urllib.request.Request(sys.argv[1] + "/push.v1.PusherService/Push", headers={"Content-Type": "application/json"},
                                     data=json.dumps({"series": [{"labels": pairs, "samples": samples}]}).encode())
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, ""
    except urllib.error.HTTPError as error:
        return error.code, json.load(error).get("message", "")


good = profile()
cases = [  # what is wrong, or "" if nothing is; the profile, its ID, labels of the series
    ("", good, "00", {}),
    ("", good, "00", {}),
    ("came before with other content", profile(2), "00", {}),
    ("is no UUID", good, "", {}),
    ("time is", profile(age_s=3660), "01", {}),
    ("time is", profile(age_s=-660), "02", {}),
    ("values are", good, "03", {"__name__": "memory"}),
    ("__name__ is", good, "04", {"__name__": "other"}),
    ("no service_name", good, "05", {"service_name": ""}),
    ("label name", good, "06", {"a-b": "1"}),
    ("comes twice", good, "07", {"a.b": "1", "a_b": "1"}),
    ("31 labels", good, "08", {f"l{i}": "1" for i in range(29)}),
    ("16001 samples", profile(samples=16001), "09", {}),
    ("bytes uncompressed", profile(more=field(6, b"x" * (4 << 20))), "10", {}),
    ("span_id", profile(label=(b"span_id", b"abc")), "11", {}),
    ("trace_id", profile(label=(b"trace_id", b"abc")), "12", {}),
    ("the series' and a sample's", profile(label=(b"service_name", b"abc")), "13", {}),
    ("no UTF-8", profile(label=(b"k", b"\xff")), "14", {}),
    ("", profile(label=(b"span_id", b"00000000000000ab")), "15", {}),
]
for fault, raw, last, labels in cases:
    status, message = push(raw, ID + last if last else "", LABELS | labels)
    if status != (400 if fault else 200) or fault not in message:
        print(f"{fault or 'no fault'}: {status} {message}")
