# SPDX-License-Identifier: BSD-2-Clause
"""Reads what a process publishes for OpenTelemetry's profilers, as OTEP 4719 and OTEP 4947 tell a profiler to, on x86-64.

usage: otel_context.py LIBRARY PROGRAM ARGUMENT…

The program is started. A line of it `expect TID TRACE SPAN FLAGS` names what its thread publishes then, and `expect TID none`
that it publishes nothing. It goes on after a line on its stdin. Lines `resource KEY VALUE` and `attribute KEY VALUE` are
expected of the process context, and `no context` that there is none. Status 77: this process may not trace another one.
"""
import ctypes
import os
import re
import struct
import subprocess
import sys

from pushed import fields

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
PTRACE_PEEKUSER, PTRACE_ATTACH, PTRACE_DETACH = 3, 16, 17
FS_BASE = 21 * 8  # in struct user


class Process:
    def __init__(self, pid):
        self.pid = pid
        self.memory = open(f"/proc/{pid}/mem", "rb", buffering=0)

    def read(self, address, n):
        return os.pread(self.memory.fileno(), n, address)

    def mappings(self):
        with open(f"/proc/{self.pid}/maps") as maps:
            for line in maps:
                words = line.rstrip("\n").split(None, 5)
                yield int(words[0].split("-")[0], 16), int(words[2], 16), words[5] if len(words) > 5 else ""


# ---- The process context ----

def pair(message):
    """KeyValue, with a string, an integer or a list of strings as value."""
    parts = dict(fields(message))
    (kind, value), = fields(parts[2])
    assert kind in (1, 3, 5), f"kind {kind} of value"
    return parts[1].decode(), value.decode() if kind == 1 else str(value) if kind == 3 else str([v for _, v in fields(value)])


def process_context(process):
    """Pairs ("resource", KEY, VALUE) and ("attribute", KEY, VALUE); None: there is no context."""
    names = ("[anon_shmem:OTEL_CTX]", "[anon:OTEL_CTX]", "/memfd:OTEL_CTX")
    found = [start for start, _, name in process.mappings() if name.startswith(names)]
    assert len(found) <= 1, f"{len(found)} process contexts"
    if not found:
        return None
    signature, version, n, published, at = struct.unpack("=8sIIQQ", process.read(found[0], 32))
    assert (signature, version) == (b"OTEL_CTX", 2) and published, (signature, version, published)
    context = set()
    for number, value in fields(process.read(at, n)):
        if number == 1:
            context |= {("resource", *pair(attribute)) for _, attribute in fields(value)}
        else:
            context.add(("attribute", *pair(value)))
    keys = [key for _, key, _ in context]
    assert len(keys) == len(set(keys)), f"keys occur twice: {keys}"
    return context


# ---- Thread contexts ----

def slot_address(process, library):
    """Where the offset of otel_thread_ctx_v1 from the thread's pointer is. The dynamic linker writes it for each library that
    uses the variable."""
    said = subprocess.run(["readelf", "-W", "--dyn-syms", "--relocs", library], check=True, capture_output=True, text=True).stdout
    assert re.search(r" TLS +GLOBAL +DEFAULT +\d+ otel_thread_ctx_v1\b", said), f"{library} does not export the variable"
    relocation = re.search(r"^([0-9a-f]+) .*R_X86_64_TPOFF64 .*\botel_thread_ctx_v1\b", said, re.MULTILINE)
    assert relocation, f"{library} has no relocation for the variable"
    base = min(start - offset for start, offset, name in process.mappings() if os.path.basename(name) == os.path.basename(library))
    return base + int(relocation[1], 16)


def stopped(tid):
    """Stops a thread, and returns its pointer to thread-local memory; None: that is not permitted."""
    if libc.ptrace(PTRACE_ATTACH, tid, None, None):
        return None
    os.waitpid(tid, 0x40000000)  # __WALL
    ctypes.set_errno(0)
    return libc.ptrace(PTRACE_PEEKUSER, tid, FS_BASE, None)


def thread_context(process, slot, tid):
    pointer = stopped(tid)
    if pointer is None:
        print("skipped: this process may not trace another one", file=sys.stderr)
        sys.exit(77)
    try:
        offset, = struct.unpack("=q", process.read(slot, 8))
        record, = struct.unpack("=Q", process.read(pointer + offset, 8))
        if record == 0:
            return ["none"]
        trace, span, valid, flags, n = struct.unpack("=16s8sBBH", process.read(record, 28))
        assert valid == 1 and n == 0 and record % 2 == 0, (valid, n, record)
        return [trace.hex(), span.hex(), str(flags)]
    finally:
        libc.ptrace(PTRACE_DETACH, tid, None, None)


def main():
    library, *program = sys.argv[1:]
    child = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    process, slot, compared = None, None, 0
    for line in child.stdout:
        what, *words = line.split()
        if process is None:  # it runs
            process = Process(child.pid)
            context = process_context(process)
            slot = slot_address(process, os.path.realpath(library))
        if what == "expect":
            is_now = thread_context(process, slot, int(words[0]))
            assert is_now == words[1:], f"{line.strip()}: it is {is_now}"
            child.stdin.write("\n")
        elif what == "no":
            assert context is None, context
        elif what in ("resource", "attribute"):
            assert (what, words[0], " ".join(words[1:])) in context, f"{line.strip()}: it is {sorted(context or ())}"
        else:
            print(line, end="")
            continue
        compared += 1
    assert child.wait() == 0, f"status {child.returncode}"
    print(f"compared {compared}")


main()
