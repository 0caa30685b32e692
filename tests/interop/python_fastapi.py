# SPDX-License-Identifier: BSD-2-Clause
"""For python.sh: a FastAPI service that knows nothing of jespan. One route runs in asyncio's thread, the other in a thread of a
pool. It asks itself for some pages over HTTP, and ends. The argument is uvicorn's event loop."""
import ctypes
import socket
import sys
import threading
import urllib.request

import fastapi
import uvicorn

app = fastapi.FastAPI()
kept = []


@app.get("/task/{number}")
async def in_task(number: int):
    kept.append(bytearray(1 << 20))
    return number


@app.get("/thread/{number}")
def in_thread(number: int):
    kept.append(bytearray(1 << 20))
    return number


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, loop=sys.argv[1], log_level="error"))
    threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True).start()
    for n in range(8):
        for route in "task", "thread":  # the listener keeps the first connection until the service is ready
            urllib.request.urlopen(f"http://127.0.0.1:{listener.getsockname()[1]}/{route}/{n}", timeout=600).read()
    ctypes.CDLL(None).exit(0)  # without Python's own end, which frees all
