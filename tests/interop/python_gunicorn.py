# SPDX-License-Identifier: BSD-2-Clause
"""For python.sh: a Flask service that gunicorn runs, and that knows nothing of jespan. Its answers say which worker answered.
python_gunicorn.py ADDRESS: asks it until two workers have each kept something four times, and prints how often each has.
"""
import collections
import os
import sys
import urllib.request

kept = []


def make_app():
    import flask
    made = flask.Flask(__name__)

    @made.route("/keep/<int:number>")
    def keep(number):
        kept.append(bytearray(1 << 20))
        return str(os.getpid())

    @made.route("/look")
    def look():
        return str(len(bytearray(4 << 20)))

    return made


def ask(address):
    counts = collections.Counter()
    while len(counts) < 2 or min(counts.values()) < 4:
        for page in ("/look", f"/keep/{counts.total()}"):
            answer = urllib.request.urlopen(address + page, timeout=600).read().decode()
        counts[answer] += 1
    for pid, count in counts.items():
        print(pid, count)


if __name__ == "__main__":
    ask(sys.argv[1])
else:
    app = make_app()
