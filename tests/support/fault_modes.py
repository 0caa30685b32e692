# SPDX-License-Identifier: BSD-2-Clause
"""The ways in which fault_server.py handles a request, by name, with the options that control gave.

"stored" is what was accepted whatever the exporter hears of it. Beside these there is "refuse": nobody listens.
"""

import email.utils
import functools
import gzip
import json
import time

EMPTY = gzip.compress(b"")  # gzipped like the request
OTLP = "Content-Type: application/x-protobuf"
GZIP, PROTO, HTML = "Content-Encoding: gzip", "Content-Type: application/proto", "Content-Type: text/html"


@functools.cache
def make_bomb():
    return gzip.compress(bytes(1 << 24), 1)


def ok(c, _):
    """As a server does."""
    request = c.receive()
    with c.server.answering:
        if c.is_shut:
            c.finish()
        c.answer(c.server.store(c, request), EMPTY, [PROTO, GZIP])


def portal(c, _):
    """Something that answers everybody, and is no Pyroscope."""
    c.receive()
    c.answer(200, b"<title>Welcome</title>", [HTML])


def hang(c, _):
    """Accepts, and that is all."""
    c.wait_for_end()


def hang_after(c, options):
    """Takes the request, stored with stored=1, and is silent."""
    request = c.receive()
    if "stored" in options:
        c.server.store(c, request)
    c.wait_for_end()


def held(c, _):
    """Stores the request, and answers when there is another mode."""
    status = c.server.store(c, c.receive())
    while c.server.mode == "held" and not c.server.over.wait(0.01):
        pass
    c.answer(status, EMPTY, [PROTO, GZIP])


def reset(c, _):
    c.reset()


def reset_in_body(c, _):
    request = c.receive_head()
    c.take(int(request.headers["content-length"]) // 2)
    c.reset()


def reset_after(c, options):
    """stored=1: it is stored all the same."""
    request = c.receive()
    if "stored" in options:
        c.server.store(c, request)
    c.reset()


def retry_after(options):
    """retry_after=SECONDS, or date:SECONDS for the same as a date."""
    how, _, seconds = options["retry_after"].rpartition(":")
    return email.utils.formatdate(time.time() + float(seconds), usegmt=True) if how else seconds


def status(c, options):
    """status=N, with retry_after, text, stored=1 or early=1: then the body is not read and the connection ends."""
    headers = [f"Retry-After: {retry_after(options)}"] if "retry_after" in options else []
    text = options.get("text", "this is a test").encode()
    request = c.receive_head() if "early" in options else c.receive()
    if "stored" in options:
        c.server.store(c, request)
    c.answer(int(options["status"]), text, headers)
    if "early" in options:
        time.sleep(0.05)
        c.reset()


def slow_reading(c, options):
    """rate bytes a second, 1024 by default."""
    rate, began = int(options.get("rate", 1024)), time.monotonic()
    request, taken = c.receive_head(), b""
    for size in range(int(request.headers["content-length"]), 0, -rate):
        taken += c.take(min(size, rate))
        c.server.over.wait(max(0, began + len(taken) / rate - time.monotonic()))
    request.body, c.noted["bytes"] = taken, len(taken)
    c.answer(c.server.store(c, request), headers=[PROTO])


def slow_answer(c, options):
    """Stored; a byte each pause seconds, 0.1 by default."""
    request = c.receive()
    c.server.store(c, request)
    for byte in f"HTTP/1.1 200 OK\r\n{PROTO}\r\nContent-Length: 0\r\n\r\n".encode():
        c.send(bytes([byte]))
        time.sleep(float(options.get("pause", 0.1)))


def unended(c, options):
    """status=N, 200 by default, stored where that is 200; the answer's body begins, and its rest does not come, or after pause seconds."""
    request, n = c.receive(), int(options.get("status", 200))
    if n == 200:
        c.server.store(c, request)
    c.noted["status"] = n
    c.send(f"HTTP/1.1 {n} Test\r\n{PROTO}\r\nContent-Length: 9\r\n\r\n".encode() + b"this")
    if "pause" not in options:
        c.wait_for_end()
    time.sleep(float(options["pause"]))
    c.send(b" ends")


def endless(c, _):
    """Stored; the answer has no end."""
    c.server.store(c, c.receive())
    c.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\n\r\n")
    while True:
        c.send(b"x" * 65536)


def endless_head(c, _):
    """The same, and the body does not even begin."""
    c.server.store(c, c.receive())
    c.send(b"HTTP/1.1 200 OK\r\n")
    while True:
        c.send(b"X-More: " + b"x" * 1000 + b"\r\n")


def garbage(c, _):
    c.receive()
    c.send(bytes(range(256)) * 16)
    c.reset()


def garbage_body(c, _):
    """Stored, and what follows the status is no message."""
    c.answer(c.server.store(c, c.receive()), bytes(range(256)), [PROTO])


def broken_gzip(c, _):
    """Stored, too."""
    c.answer(c.server.store(c, c.receive()), EMPTY[:10] + b"\xff" * 16, [PROTO, GZIP])


def bomb(c, _):
    """Stored, too: 16 MiB in few bytes."""
    c.answer(c.server.store(c, c.receive()), make_bomb(), [PROTO, GZIP])


def v2(c, options):
    """As version 2 of the server, a mock (pushed.py): delay=SECONDS, limits samples=N and bytes=N, refuse=NAME of a series with
    status=N, lost=1: no answer comes."""
    request = c.receive()
    c.server.over.wait(float(options.get("delay", 0)))
    errors = c.server.store_v2(request, options)
    if "lost" in options:
        c.reset()
    if errors:
        c.answer(int(options.get("status", 400)), json.dumps({"code": "invalid_argument", "message": errors}).encode(),
                 ["Content-Type: application/json"])
    else:
        c.answer(200, headers=[PROTO])


def field(number, data):
    """A field of protobuf, short."""
    return bytes([number << 3 | 2, len(data)]) + data


def partial(c, options):
    """As a collector that stores all, and says that it has rejected n=N profiles; its words are text=TEXT."""
    said = field(1, bytes([1 << 3, int(options["n"])]) + field(2, options.get("text", "").encode()))
    c.answer(c.server.store(c, c.receive()), said, [OTLP])


def refusal(c, options):
    """As a collector: status=N, and its words in protobuf."""
    c.receive()
    c.answer(int(options["status"]), bytes([1 << 3, 3]) + field(2, options["text"].encode()), [OTLP])


def quote(c, options):
    """status=N, and an answer that quotes the request's credentials behind `before` other characters: whole, or from= and
    to= of their characters."""
    head = c.receive().headers
    said = head.get("authorization", "") + head.get("x-one", "")
    said = said[int(options.get("from", 0)):int(options.get("to", len(said)))]
    c.answer(int(options["status"]), b"x" * int(options.get("before", 0)) + said.encode(), ["Content-Type: text/plain"])


def redirect(c, options):
    """To location=URL with status=N (307 by default)."""
    c.receive()
    c.answer(int(options.get("status", 307)), b"", [f"Location: {options['location']}"])


def http10(c, _):
    c.answer(c.server.store(c, c.receive()), headers=[PROTO], version="1.0")
    c.finish()


def close(c, _):
    """Answers, lets the exporter believe that the connection stays, and ends it."""
    c.answer(c.server.store(c, c.receive()), headers=[PROTO])
    c.finish()


MODES = {function.__name__: function for function in (
    ok, portal, hang, hang_after, held, reset, reset_in_body, reset_after, status, slow_reading, slow_answer, unended, endless,
    endless_head, garbage, garbage_body, broken_gzip, bomb, v2, partial, refusal, quote, redirect, http10, close)}
