# SPDX-License-Identifier: BSD-2-Clause
"""The memory of heaptrack outside the program: its interpreter, a process that knows every live allocation.

Here the events go to a file, and the interpreter reads that after the program has ended: it holds the same as it does
beside the running program.
"""

import os
import subprocess

from . import target

PRELOAD = "/usr/lib/heaptrack/libheaptrack_preload.so"
INTERPRETER = "/usr/lib/heaptrack/libexec/heaptrack_interpret"


def most_resident_bytes(events):
    with open(events, "rb") as source:
        process = subprocess.Popen([INTERPRETER], stdin=source, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        usage = target.usage_of(process)
    if process.returncode:
        raise target.Failed(f"{INTERPRETER}: exit {process.returncode}")
    return usage.ru_maxrss * 1024


def interpreter_bytes_per_object(events):
    """The memory above that with the same events without the allocations (+) and frees (-)."""
    allocated = freed = 0
    others = events + ".others"
    with open(events, "rb") as source, open(others, "wb") as left:
        for line in source:
            allocated += line.startswith(b"+ ")
            freed += line.startswith(b"- ")
            if not line.startswith((b"+ ", b"- ")):
                left.write(line)
    fixed = most_resident_bytes(others)
    target.say(
        f"heaptrack: {os.path.getsize(events) / allocated:.0f} bytes of its file for an allocation; its interpreter "
        f"holds {fixed / 2**20:.0f} MiB before the first"
    )
    return (most_resident_bytes(events) - fixed) / (allocated - freed)
