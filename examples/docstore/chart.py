#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The load of `chart`: traffic that changes.

usage: chart.py URL seed
       chart.py URL warm-up QUIET_SECONDS
       chart.py URL bursts BURST_SECONDS QUIET_SECONDS

There are eight collections. Their documents are lists of strings, whose lengths differ from collection to collection:
17 to 32 bytes in the first, twice as much in each next one. A burst is for one collection: clients search it, again and
again, and each time find its 100 larger documents; others meanwhile read each of its small documents once, which the
cache then keeps. Between bursts there is little to do. The warm-up is of searches only, of a collection of its own, so
that SQLite's own caches are full.
"""

import http.client
import json
import sys
import threading
import time
import urllib.parse

WARM_UP, WARM_UP_SECONDS = ("warm-up", 100), 5
COLLECTIONS = [(f"up-to-{32 << i}", 32 << i) for i in range(8)]
FOUND, FOUND_BYTES = 100, 12_000  # their ids sort before those of the small ones
READ, READ_STRINGS = 1500, 2
SEARCHERS, READERS, QUIET_CLIENTS, QUIET_PAUSE_SECONDS = 28, 4, 4, 0.1
TENANTS = ("acme", "globex", "hooli", "initech")


class Client:
    """A client of the next tenant, which counts its answers. It connects for each request, so any thread may serve it."""

    number = 0

    def __init__(self, address):
        self.address = address
        self.headers = {"X-Tenant": TENANTS[Client.number % len(TENANTS)], "Connection": "close"}
        self.answers = 0
        Client.number += 1

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request(method, f"/docs/{path}", body, self.headers)
        answer = connection.getresponse()
        while answer.read(1 << 16):
            pass
        connection.close()
        if answer.status not in (200, 201, 204):
            raise RuntimeError(f"{method} {path}: {answer.status}")
        self.answers += 1


def document(longest, all_bytes, number):
    """Lengths are evenly distributed over the upper half, and the same in each run."""
    strings, left = [], all_bytes
    while left > 0:
        length = longest // 2 + 1 + (number * 7919 + len(strings) * 104729) % (longest // 2)
        strings.append("x" * length)
        left -= length
    return json.dumps({"strings": strings})


def seed(address):
    client = Client(address)
    for name, longest in (WARM_UP, *COLLECTIONS):
        for i in range(FOUND):
            client.ask("PUT", f"{name}/found-{i}", document(longest, FOUND_BYTES, i))
        for i in range(READ):
            client.ask("PUT", f"{name}/read-{i}", document(longest, READ_STRINGS * longest // 2, i))


def run_all(jobs):
    """Runs each function with its arguments in a thread. Ends the program if one of them fails."""
    failed = []

    def run(job, *args):
        try:
            job(*args)
        except (OSError, RuntimeError, http.client.HTTPException) as e:
            failed.append(e)

    threads = [threading.Thread(target=run, args=job, daemon=True) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        sys.exit(f"chart.py: {failed[0]!r}")


def search(client, name, end):
    while time.monotonic() < end:
        client.ask("GET", f"{name}?limit={FOUND}")


def read(client, name, ids, start, seconds):
    """Distributes the requests over the burst, if the service is fast enough."""
    for i in ids:
        time.sleep(max(0, start + seconds * i / READ - time.monotonic()))
        client.ask("GET", f"{name}/read-{i}")


def burst(searchers, readers, name, seconds):
    start = time.monotonic()
    searches = [(search, client, name, start + seconds) for client in searchers]
    ids = [range(i, READ, len(readers)) for i in range(len(readers))]
    run_all(searches + [(read, client, name, some, start, seconds) for client, some in zip(readers, ids)])


def ask_little(client, name, end):
    while time.monotonic() < end:
        client.ask("GET", f"{name}/read-0")
        time.sleep(QUIET_PAUSE_SECONDS)


def quiet(clients, name, seconds):
    end = time.monotonic() + seconds
    run_all([(ask_little, client, name, end) for client in clients[:QUIET_CLIENTS]])


def clients(address, n):
    return [Client(address) for _ in range(n)]


def warm_up(address, quiet_seconds):
    searchers = clients(address, SEARCHERS)
    burst(searchers, [], WARM_UP[0], WARM_UP_SECONDS)
    quiet(searchers, WARM_UP[0], quiet_seconds)


def bursts(address, burst_seconds, quiet_seconds):
    searchers, readers = clients(address, SEARCHERS), clients(address, READERS)
    for name, _ in COLLECTIONS:
        burst(searchers, readers, name, burst_seconds)
        quiet(readers, name, quiet_seconds)
    print("searches:", sum(client.answers for client in searchers))


def main():
    url, what, *seconds = sys.argv[1:]
    does = {"seed": seed, "warm-up": warm_up, "bursts": bursts}[what]
    does(urllib.parse.urlsplit(url).netloc, *map(float, seconds))


main()
