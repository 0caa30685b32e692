# SPDX-License-Identifier: BSD-2-Clause
"""usage: prometheus.py TARGET SERVER LOG EXPECTED

Reads the page of the program at TARGET with the parser of Prometheus's client for Python, and asks the Prometheus at
SERVER, whose log is LOG, for what it has stored of it. EXPECTED has a line "QUERY VALUE" for each sum it must know.
Prints what is wrong.
"""
import json
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

TARGET, SERVER, LOG, EXPECTED = sys.argv[1:]
WAIT_S = 600
failures = []


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=600) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        sys.exit(f"{url}: {error}: {error.read().decode()}")


def query(text):
    answer = json.loads(get(f"{SERVER}/api/v1/query?" + urllib.parse.urlencode({"query": text})))
    return answer["data"]["result"]


def page():
    """The samples of the page, and how often each of them is there. To Prometheus an empty label is none."""
    samples = {}
    for family in text_string_to_metric_families(get(f"http://{TARGET}/metrics")):
        for sample in family.samples:
            key = (sample.name, *sorted((k, v) for k, v in sample.labels.items() if v))
            samples[key] = samples.get(key, 0) + 1
    return samples


def stored():
    """The same of what Prometheus has now. It names a label of ours that it has itself exported_NAME."""
    found = set()
    for result in query('{job="app",__name__=~"jespan_.*"}'):
        labels = {k: v for k, v in result["metric"].items() if k not in ("__name__", "job", "instance")}
        labels = {k.removeprefix("exported_"): v for k, v in labels.items()}
        found.add((result["metric"]["__name__"], *sorted(labels.items())))
    return found


def wait_for(what, condition):
    end = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > end:
            failures.append(f"{what}: not within {WAIT_S} s")
            return
        time.sleep(0.2)


def check_sum(line):
    text, expected = line.rsplit(" ", 1)
    found = []

    def is_right():
        found[:] = [result["value"][1] for result in query(text)]
        return len(found) == 1 and float(found[0]) == float(expected)

    wait_for(f"{text} is {expected}", is_right)
    if not is_right():
        failures.append(f"{text} is {found}")


first = page()
for key, times in first.items():
    if times > 1:
        failures.append(f"{times} times on a page: {key}")
if sum(key[0] == "jespan_span_inuse_bytes" for key in first) < 10:
    failures.append(f"few series: {sorted(first)}")

# Each look makes the page's own spans known: the set of series is soon a steady one.
wait_for("Prometheus has what is on the page, and no more", lambda: stored() == set(page()))
for key in sorted(stored() ^ set(page()), key=str):
    failures.append(f"on the page or in Prometheus only: {key}")
with open(EXPECTED, encoding="utf-8") as lines:
    for line in lines:
        check_sum(line.rstrip("\n"))
with open(LOG, encoding="utf-8") as log:
    failures += [line for line in log if "ingesting" in line or "uplicate" in line]
for line in get(f"{SERVER}/metrics").splitlines():
    if line.startswith("prometheus_target_scrapes_sample_duplicate_timestamp_total ") and not line.endswith(" 0"):
        failures.append(line)
print(*failures, sep="\n", end="\n" if failures else "")
sys.exit(1 if failures else 0)
