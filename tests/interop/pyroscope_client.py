# SPDX-License-Identifier: BSD-2-Clause
# Pushes about 2 s of CPU and memory profiles to the server in argv[1], with Pyroscope's own client.
import sys
import time

import pyroscope

pyroscope.configure(application_name="client.py", server_address=sys.argv[1], upload_interval=1, oncpu=False,
                    tags={"region": "eu"}, mem_enabled=True, mem_heap_sample_size=4096)
with pyroscope.tag_wrapper({"route": "/a"}):
    end = time.monotonic() + 2.3
    kept = []
    while time.monotonic() < end:
        kept.append(bytearray(1000))
        if len(kept) > 10000:
            kept.clear()
sys.exit(not pyroscope.shutdown())
