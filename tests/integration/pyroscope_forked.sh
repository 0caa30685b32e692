#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A forked child that is reported for ends though the server does not answer. What it allocated is pushed nevertheless. The first process
# waits for its own push. With stacks the child waits too, since its calls are named with the help of the process.
# What is pushed begins at the fork, and is exact.
# shellcheck source=tests/support/faults.sh
. "$(dirname "$0")/../support/faults.sh"
[ -e "$JESPAN_MODULES/pyroscope.so" ] || skip "without the module pyroscope"

cd "$scratch"
cat > server.py << 'END'
"""Notes which processes push, and answers when the file 'answer' is there."""
import gzip
import http.server
import os
import re
import time

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
        with open("pushed", "a") as file:
            file.write(re.search(rb"\n\x03pid\x12.(\d+)", body).group(1).decode() + "\n")
        while not os.path.exists("answer"):
            time.sleep(0.01)
        self.send_response(200)
        self.send_header("Content-Type", "application/proto")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
END
python3 server.py > port 2> server.err &
pids+=($!)
await [ -s port ]

# begin OPTION…: a shell that forks, and says when that child has ended
begin() {
    rm -f answer ended child
    : > pushed
    # shellcheck disable=SC2016
    "$JESPAN_CMD" run --quiet --follow-fork --pyroscope "http://127.0.0.1:$(cat port)" --conf \
        "shutdown_timeout_ms:3600000,pyroscope_exit_timeout_ms:3600000,pyroscope_timeout_ms:600000,pyroscope_interval_ms:3600000" "$@" -- \
        bash -c '(echo $BASHPID > child; : "$(< /dev/null)"); : > ended; exit 0' 2> err &
    pid=$!
    pids+=("$pid")
}

# pushes PROCESS: how often it pushed
pushes() {
    grep -cx "$1" pushed || true
}

begin
await [ -e ended ] || fail_with "a forked child waits for the server" err
await grep -qx "$(cat child)" pushed || fail_with "the child's figures are not pushed" err pushed server.err
await grep -qx "$pid" pushed || fail_with "the first process's figures are not pushed" err pushed server.err
kill -0 "$pid" || fail "the first process does not wait for its push"
: > answer
wait "$pid" || fail "the program fails"
equal "pushes of the child" "$(pushes "$(cat child)")" 1
equal "pushes of the first process" "$(pushes "$pid")" 1

begin --stacks
await [ -s child ]
await grep -qx "$(cat child)" pushed || fail_with "with stacks: the child's figures are not pushed" err pushed server.err
[ ! -e ended ] || fail "with stacks: the child does not wait"
: > answer
wait "$pid" || fail "with stacks: the program fails"
equal "with stacks: pushes of the child" "$(pushes "$(cat child)")" 1
equal "what is said before the sidecar ends" "$(cat err)" ""

# allocated SPAN: objects in all pushes
allocated() {
    ask exact sums | sed -n "s/^.*\b$1{[^}]*} alloc_objects //p"
}

# The parent has the memory of "held" too, and children that live for a moment push theirs and nothing of the parent's.
start_server exact
compile "$program" tests/integration/sidecar_program.c
"$JESPAN_CMD" run --quiet --follow-fork --pyroscope "http://127.0.0.1:$port" -- "$program" hold 7 fork 40 hold 5 label 3 status 0 2> err ||
    fail_with "the program that forks fails" err
await eval '[ "$(allocated held)" = 207 ]' || fail "7 pieces and 40 times 5: $(allocated held)"
equal "spans of the children alone" "$(allocated 'cache')" 120
equal "what is said" "$(cat err)" ""

# Nobody listens, and each of 40 children loses its figures.
"$JESPAN_CMD" run --quiet --follow-fork --pyroscope http://127.0.0.1:9 -- bash -c 'for ((i = 0; i < 40; i++)); do (:); done; exit 0' 2> err ||
    fail "the program fails without a server"
await grep -q 'left out: ' err || fail_with "nothing is said of the others" err # the sidecar ends after the program
equal "messages" "$(grep -c '^jespan: pyroscope: .*; the program ends before all was pushed: ' err)" 10
equal "what is said of the others" "$(grep -v '^jespan: pyroscope: ' err)" "jespan: messages of services that were left out: 31"
finish
