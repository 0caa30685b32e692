#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A Pyroscope server, or an OpenTelemetry collector, that misbehaves on demand and keeps books of what it accepted, for tests of those who push to it.

usage: fault_server.py PORTS-FILE [--cert FILE --key FILE [--client-ca FILE]] [--brief] [--seconds N]

Writes its port and that of its control to PORTS-FILE, and ends after N seconds at the latest. Control answers GET in text:
  /control?mode=MODE&times=N&…   from now on, or for N requests, behave like that; see fault_modes.py
  /sums                          LEAF{LABEL=VALUE,…} TYPE FIGURE, of what was accepted
  /log                           SECONDS MODE STATUS BYTES ID…, a line for each request, "-" where there was none
  /modes                         SECONDS MODE, a line for each time that control set it
  /heads                         the heads of all requests, as they came
  /series                        N LABELS, of what was accepted
  /wrong                         what no exporter should send, and what was refused with 400 for that
  /connections                   how many there were
  /most                          samples and bytes of the largest profiles, how many there were
"""

import argparse
import os
import signal
import socket
import ssl
import struct
import threading
import time
import urllib.parse
import zlib

import fault_modes
import pushed


OTLP = "/v1development/profiles"


class Gone(Exception):
    """The other side has closed, or was sent away."""


class Request:
    """The head; the body stays on the connection until it is asked for."""

    def __init__(self, head):
        self.head = head.decode("latin-1")
        first, *lines = self.head.rstrip("\r\n").split("\r\n")
        self.method, self.target, _ = first.split(" ")
        pairs = (line.split(":", 1) for line in lines)
        self.headers = {key.lower(): value.strip() for key, value in pairs}
        self.body = b""


class Connection:
    """One of the exporter's, with what was read ahead, and the line of the log for the request at hand."""

    def __init__(self, server, sock):
        self.server, self.sock, self.buffer = server, sock, b""
        self.is_shut = False  # by vanish()
        self.noted = None

    def read(self, most=65536):
        try:
            data = self.sock.recv(most)
        except OSError as error:
            raise Gone from error
        if not data:
            raise Gone
        return data

    def take(self, n):
        while len(self.buffer) < n:
            self.buffer += self.read()
        taken, self.buffer = self.buffer[:n], self.buffer[n:]
        return taken

    def take_until(self, mark):
        while mark not in self.buffer:
            self.buffer += self.read()
        return self.take(self.buffer.index(mark) + len(mark))

    def send(self, data):
        try:
            self.sock.sendall(data)
        except OSError as error:
            raise Gone from error

    def wait_for_request(self):
        if not self.buffer:
            self.buffer = self.read()

    def receive_head(self):
        request = Request(self.take_until(b"\r\n\r\n"))
        self.server.heads.append(request.head)
        return request

    def receive(self):
        """A whole request."""
        request = self.receive_head()
        if request.headers.get("expect") == "100-continue":
            self.send(b"HTTP/1.1 100 Continue\r\n\r\n")
        if request.headers.get("transfer-encoding") == "chunked":
            while size := int(self.take_until(b"\r\n"), 16):
                request.body += self.take(size)
                self.take(2)
            self.take(2)
        else:
            request.body = self.take(int(request.headers.get("content-length", 0)))
        is_otlp = request.target == OTLP
        self.noted["bytes"], self.noted["ids"] = len(request.body), pushed.identities(request.body, is_otlp)
        return request

    def answer(self, status, body=b"", headers=(), version="1.1"):
        self.noted["status"] = status
        lines = [f"HTTP/{version} {status} Test", f"Content-Length: {len(body)}", *headers, "", ""]
        self.send("\r\n".join(lines).encode() + body)

    def reset(self):
        """No orderly end, but RST."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        raise Gone

    def finish(self):
        raise Gone

    def wait_for_end(self):
        """Reads nothing more, answers nothing."""
        self.server.over.wait()
        raise Gone

    def serve_one(self):
        self.wait_for_request()
        mode, options = self.server.take_mode()
        self.noted = {"time": time.monotonic(), "mode": mode, "status": "-", "bytes": "-", "ids": []}
        self.server.log.append(self.noted)
        fault_modes.MODES[mode](self, options)

    def serve(self):
        try:
            if self.server.tls:
                if self.server.mode == "hang":
                    self.wait_for_end()
                self.sock = self.server.tls.wrap_socket(self.sock, server_side=True)
            while True:
                self.serve_one()
        except (Gone, OSError):
            pass
        finally:
            self.sock.close()
            self.server.connections.discard(self)


class Server:
    """Modes are switched by control, while connections of the exporter's each have a thread."""

    def __init__(self, options):
        self.books = pushed.Books(options.brief)
        self.tls = make_tls(options) if options.cert else None
        self.lock, self.answering = threading.Lock(), threading.Lock()
        self.over = threading.Event()
        self.mode, self.options, self.times = "ok", {}, None
        self.modes = []
        self.log, self.heads, self.connections = [], [], set()
        self.accepted = 0
        self.began = time.monotonic()
        self.port, self.listener = 0, None
        self.listen()

    def listen(self):
        if not self.listener:
            self.listener = listener(self.port)
            self.port = self.listener.getsockname()[1]
            threading.Thread(target=self.accept, args=[self.listener], daemon=True).start()

    def vanish(self):
        """Connections are refused, and those that there are end."""
        gone, self.listener = self.listener, None
        if gone:
            gone.shutdown(socket.SHUT_RDWR)
            gone.close()
        with self.answering:  # what was stored was answered too, else it would come again
            for connection in list(self.connections):
                connection.is_shut = True
                shut(connection.sock)

    def accept(self, from_listener):
        while True:
            try:
                sock, _ = from_listener.accept()
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = Connection(self, sock)
            self.connections.add(connection)
            self.accepted += 1
            threading.Thread(target=connection.serve, daemon=True).start()

    def set_mode(self, mode, options):
        with self.lock:
            self.modes.append((time.monotonic(), mode))
            self.mode, self.options = mode, options
            self.times = int(options["times"]) if "times" in options else None
        if mode == "refuse":
            self.vanish()
        else:
            self.listen()

    def take_mode(self):
        with self.lock:
            mode, options = self.mode, self.options
            if self.times is not None:
                self.times -= 1
            if self.times == 0:
                self.mode, self.options, self.times = "ok", {}, None
        return mode, options

    def store(self, connection, request):
        """Returns the status that a server gives."""
        url = urllib.parse.urlsplit(request.target)
        try:
            body = request.body
            if request.headers.get("content-encoding") == "gzip":
                body = zlib.decompress(body, 31)
            with self.lock:
                self.enter(url, request.headers.get("content-type", ""), body)
            return 200
        except (pushed.Wrong, zlib.error, IndexError, KeyError, UnicodeDecodeError, ValueError) as error:
            self.books.wrong.append(f"{url.path}: {type(error).__name__}: {error}")
            return 400

    def store_v2(self, request, options):
        """Returns the errors."""
        with self.lock:
            return pushed.push_v2(self.books, zlib.decompress(request.body, 31), options)

    def enter(self, url, content_type, body):
        if url.path.endswith("/push.v1.PusherService/Push") and content_type == "application/proto":
            pushed.push(self.books, body)
        elif url.path == OTLP and content_type == "application/x-protobuf":
            pushed.otlp(self.books, body)
        elif url.path.endswith("/ingest"):
            pushed.ingest(self.books, dict(urllib.parse.parse_qsl(url.query)), content_type, body)
        else:
            raise pushed.Wrong(f"{content_type} to {url.path}")

    def log_line(self, noted):
        return (f"{noted['time'] - self.began:.3f} {noted['mode']} {noted['status']} {noted['bytes']} "
                f"{' '.join(noted['ids']) or '-'}\n")

    def control(self, target):
        """Returns the answer's text."""
        url = urllib.parse.urlsplit(target)
        options = dict(urllib.parse.parse_qsl(url.query))
        mode = options.pop("mode", "")
        if url.path == "/control" and (mode in fault_modes.MODES or mode == "refuse"):
            self.set_mode(mode, options)
            return "\n"
        with self.lock:
            return {
                "/sums": self.books.text,
                "/log": lambda: "".join(map(self.log_line, self.log)),
                "/modes": lambda: "".join(f"{at - self.began:.3f} {mode}\n" for at, mode in self.modes),
                "/heads": lambda: "".join(self.heads),
                "/series": lambda: "".join(f"{n} {labels}\n" for labels, n in sorted(self.books.series.items())),
                "/wrong": lambda: "".join(f"{line}\n" for line in self.books.wrong),
                "/connections": lambda: f"{self.accepted}\n",
                "/most": lambda: "".join(f"{key} {n}\n" for key, n in sorted(self.books.most.items())),
            }[url.path]()

    def run(self, control):
        while True:
            sock, _ = control.accept()
            with sock:
                request = b""
                while b"\r\n\r\n" not in request and (more := sock.recv(4096)):
                    request += more
                try:
                    status, text = "200 OK", self.control(request.split(b" ")[1].decode())
                except (KeyError, IndexError, ValueError) as error:
                    status, text = "404 Not Found", f"{error!r}\n"
                sock.sendall(f"HTTP/1.0 {status}\r\n\r\n{text}".encode())


def shut(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def listener(port):
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(64)
    return sock


def make_tls(options):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(options.cert, options.key)
    if options.client_ca:
        context.load_verify_locations(options.client_ca)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ports")
    parser.add_argument("--cert")
    parser.add_argument("--key")
    parser.add_argument("--client-ca")
    parser.add_argument("--brief", action="store_true")
    parser.add_argument("--seconds", type=int, default=3600)
    options = parser.parse_args()
    signal.alarm(options.seconds)
    server = Server(options)
    control = listener(0)
    with open(options.ports + ".new", "w", encoding="ascii") as file:
        print(server.port, control.getsockname()[1], file=file)
    os.rename(options.ports + ".new", options.ports)
    server.run(control)


if __name__ == "__main__":
    main()
