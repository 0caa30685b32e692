#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A tenant of docstore that wants more memory than it may have: uploads that take their time, many at once.

usage: rogue.py URL SECONDS UPLOADS

Each upload is a document of 1 MB of which the service gets all but the last byte, and so has to keep what it has:
half of them all the time, the others for about a second, again and again. Once a second comes a search for all that
was stored besides. Prints how many answers of which status came.
"""

import asyncio
import collections
import json
import random
import sys
import urllib.parse

BODY = b'{"a": "' + b"x" * 1_000_000 + b'"}'
HEADERS = "Host: docstore\r\nX-Tenant: rogue\r\nConnection: close\r\n"


async def ask(address, head, body=b"", hold_seconds=0.0):
    """The status of the answer."""
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        writer.write(f"{head} HTTP/1.1\r\n{HEADERS}Content-Length: {len(body)}\r\n\r\n".encode())
        writer.write(body[:-1])
        await writer.drain()
        await asyncio.sleep(hold_seconds)
        writer.write(body[-1:])
        await writer.drain()
        answer = await reader.readline()
        await reader.read()
        return int(answer.split()[1])
    finally:
        writer.close()


async def upload(address, statuses, number):
    while True:
        hold = random.uniform(0.5, 1.5) if number % 2 else 3600
        statuses[await ask(address, f"PUT /docs/rogue/{number}", BODY, hold)] += 1


async def search(address, statuses):
    while True:
        await asyncio.sleep(1)
        statuses[await ask(address, "GET /docs/rogue?limit=100")] += 1


async def run(url, seconds, uploads):
    statuses = collections.Counter()
    address = urllib.parse.urlsplit(url)
    tasks = [upload(address, statuses, i) for i in range(uploads)]
    _, running = await asyncio.wait(map(asyncio.ensure_future, [search(address, statuses), *tasks]), timeout=seconds)
    if len(running) <= uploads:
        raise SystemExit("rogue.py: the service did not answer")
    return statuses


print(json.dumps(asyncio.run(run(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))))
