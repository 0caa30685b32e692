# SPDX-License-Identifier: BSD-2-Clause
"""For python.sh: a Flask service that knows nothing of jespan. It asks itself for some pages over HTTP, and ends."""
import ctypes
import threading
import urllib.request

import flask
from werkzeug.serving import make_server

app = flask.Flask(__name__)
kept = []


@app.route("/keep/<int:number>")
def keep(number):
    kept.append(bytearray(1 << 20))
    return str(number)


@app.route("/look")
def look():
    return str(len(bytearray(4 << 20)))


if __name__ == "__main__":
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for page in [f"/keep/{n}" for n in range(8)] + ["/look"] * 4:
        urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{page}", timeout=600).read()
    server.shutdown()
    ctypes.CDLL(None).exit(0)  # without Python's own end, which frees all
