#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Callers who mean no good, for http_hostile.sh: usage: http_hostile.py PORT CASE

Ends with 0 where the service answered or closed as it should, and else says what it did instead.
"""
import resource
import select
import socket
import sys
import time

PORT = int(sys.argv[1])
GOOD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connect():
    return socket.create_connection(("127.0.0.1", PORT), 600)


def everything(s):
    """What comes until the end; a reset is an end too."""
    parts = []
    try:
        while True:
            part = s.recv(65536)
            if not part:
                break
            parts.append(part)
    except ConnectionError:
        pass
    return b"".join(parts)


def exchange(data):
    with connect() as s:
        try:
            s.sendall(data)
        except ConnectionError:
            pass
        return everything(s)


def check(what, ok):
    if not ok:
        sys.exit(f"{what}")


def status(answer):
    return answer.split(b" ")[1] if answer.startswith(b"HTTP/1.1 ") else b"" if not answer else b"?"


def refused(what, data, expected=(b"", b"400", b"404", b"405", b"413", b"414", b"431", b"501", b"505")):
    answer = exchange(data)
    check(f"{what}: {answer[:200]!r}", status(answer) in expected)


def slow():
    """A byte a second is no way to keep a place: closed 10 s after it began."""
    began, closed = time.monotonic(), False
    with connect() as s:
        s.settimeout(0.5)
        for byte in GOOD[:-4] + b"X: y" * 100:
            try:
                s.sendall(bytes([byte]))
                closed = not s.recv(1)
            except TimeoutError:
                continue
            except ConnectionError:
                closed = True
            break
    took = time.monotonic() - began
    check(f"a slow caller was {'closed' if closed else 'answered'} after {took} s", closed and took > 8)


def huge():
    refused("a huge header", b"GET /spans HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 10_000_000 + b"\r\n\r\n")
    refused("many headers", b"GET /spans HTTP/1.1\r\n" + b"X: y\r\n" * 1_000_000 + b"\r\n")
    refused("a huge path", b"GET /" + b"x" * 10_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    refused("a huge query", b"GET /spans?" + b"a=b&" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    refused("no end of a line", b"G" * 10_000_000)
    refused("a huge body", b"GET /spans HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n" + b"x" * 10_000_000)


def arguments():
    """A head of 32 KiB is answered; a query of more arguments than there is room for is refused, and not just closed."""
    for n, expected in ((500, b"200"), (1000, b"200"), (1001, b"414"), (3000, b"414"), (16000, b"414")):
        answer = exchange(b"GET /healthz?a" + b"&a" * (n - 1) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
        check(f"{n} arguments: {answer[:100]!r}", status(answer) == expected)
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: "
    answer = exchange(head + b"x" * (32768 - len(head) - 4) + b"\r\n\r\n")
    check(f"a head of 32 KiB: {answer[:100]!r}", status(answer) == b"200")
    refused("a head of 128 KiB", head + b"x" * (131072 - len(head) - 4) + b"\r\n\r\n")


def leave():
    """Who waits for long and is gone does not keep others from waiting."""
    for _ in range(40):
        with connect() as s:
            s.sendall(b"GET /debug/pprof/heap?seconds=3600 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    answer = exchange(b"GET /debug/pprof/heap?seconds=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
    check(f"nobody can wait: {answer[:200]!r}", status(answer) == b"200")


def pipelined():
    answer = exchange(GOOD * 1000)
    check(f"{answer.count(b'HTTP/1.1 200')} of 1000 at once were answered, not one", answer.count(b"HTTP/1.1 200") == 1)
    check("the connection stays", b"Connection: close" in answer)


def paths():
    for path in ("/../../etc/passwd", "/..%2f..%2fetc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "//etc/passwd", "/etc/passwd%00",
                 "/spans/../../../etc/passwd", "/debug/pprof/%2fetc%2fpasswd", "/\\..\\etc\\passwd", "/proc/self/environ",
                 "file:///etc/passwd", "/debug/pprof/heap%00.html/..", "/" + "../" * 1000 + "etc/passwd", "*", "x"):
        answer = exchange(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        check(f"{path}: {answer[:200]!r}", b"root:" not in answer and b"PATH=" not in answer)
        check(f"{path}: {answer[:200]!r}", status(answer) in (b"404", b"400", b"") or path.startswith("/debug/pprof/heap%00"))


def garbage():
    refused("TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2 + b"\n\n")
    refused("zeros", bytes(100_000))
    refused("lines", b"\r\n" * 100_000)
    refused("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9))
    refused("HTTP/0.9", b"GET /spans\r\n\r\n")
    refused("another version", b"GET /spans HTTP/7.3\r\nHost: localhost\r\n\r\n")
    refused("two Hosts", b"GET /spans HTTP/1.1\r\nHost: localhost\r\nhost: localhost\r\n\r\n", (b"400",))
    refused("no Host", b"GET /spans HTTP/1.1\r\n\r\n")
    refused("chunks", b"GET /spans HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + b"fffffff\r\n" + b"x" * 1_000_000)
    refused("a broken chunk", b"POST /spans HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nzz")
    refused("two lengths", b"GET /spans HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 0\r\n\r\nhello")
    refused("a negative length", b"GET /spans HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n")


def half_a_request_s():
    """How long it keeps its place: until it is seen to be over, or for 10 s. On a busy machine, one of some is at once."""
    began = time.monotonic()
    with connect() as s:
        s.sendall(GOOD[:20])
        s.shutdown(socket.SHUT_WR)
        everything(s)
    return time.monotonic() - began


def half_closed():
    """Who has said all gets the answer; who has not is closed at once."""
    with connect() as s:
        s.sendall(GOOD)
        s.shutdown(socket.SHUT_WR)
        check("a request and no more", status(everything(s)) == b"200")
    check("half a request keeps its place", any(half_a_request_s() < 5 for _ in range(10)))
    callers = [connect() for _ in range(8)]
    for s in callers:
        s.sendall(b"GET /debug/pprof/heap?seconds=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        s.shutdown(socket.SHUT_WR)
    for s in callers:
        check("who has said all and waits", status(everything(s)) == b"200")
        s.close()


def deaf():
    """Who does not read what is large keeps a place, and no more."""
    callers = []
    for _ in range(40):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        s.connect(("127.0.0.1", PORT))
        s.sendall(b"GET /spans?limit=100000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        callers.append(s)
    check("others get no answer", status(exchange(GOOD)) == b"200")
    for s in callers:
        s.close()


def many():
    """1,000 connections that say nothing, or half of something; the service has places for 64 and time for all."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (2048, max(2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1])))
    callers = []
    for i in range(1000):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", PORT))
        callers.append(s)
    _, writable, _ = select.select([], callers[:900], [], 1)
    for s in writable[::2]:
        try:
            s.send(GOOD[:15])
        except OSError:
            pass
    time.sleep(1)
    for s in callers:
        s.close()


CASES = {f.__name__: f for f in (slow, huge, arguments, leave, pipelined, paths, garbage, half_closed, deaf, many)}
CASES[sys.argv[2]]()
