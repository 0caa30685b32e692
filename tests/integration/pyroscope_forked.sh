#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A forked child that is reported for ends though the server does not answer. What it allocated is pushed nevertheless. The first process
# waits for its own push. With stacks the child waits too, since its calls are named with the help of the process.
# What is pushed begins at the fork, and is exact.
# shellcheck source=tests/support/faults.sh
. "$(dirname "$0")/../support/faults.sh"
[ -e "$JESPAN_MODULES/pyroscope.so" ] || skip "without the module pyroscope"

cd "$scratch"
# begin NAME OPTION…: a server that stores and does not answer, and a shell that forks, and says when that child has ended
begin() {
    local name=$1
    shift
    start_server "$name"
    ask "$name" 'control?mode=held' > /dev/null
    # shellcheck disable=SC2016
    "$JESPAN_CMD" run --quiet --follow-fork --pyroscope "http://127.0.0.1:$port" --conf \
        "shutdown_timeout_ms:3600000,pyroscope_exit_timeout_ms:3600000,pyroscope_timeout_ms:600000,pyroscope_interval_ms:3600000" "$@" -- \
        bash -c '(echo $BASHPID > "$0/child"; : "$(< /dev/null)"); : > "$0/ended"; exit 0' "$scratch/$name" 2> err &
    pid=$!
    pids+=("$pid")
    await [ -s "$name/child" ]
    child=$(cat "$name/child")
}

# answer NAME
answer() {
    ask "$1" 'control?mode=ok' > /dev/null
}

# pushes NAME PROCESS: how often it pushed its memory
pushes() {
    ask "$1" series | sed -n "s/^\([0-9]*\) .*__name__=memory,.*\bpid=$2\b.*/\1/p"
}

# has_pushed NAME PROCESS
has_pushed() {
    [ -n "$(pushes "$1" "$2")" ]
}

begin silent
await [ -e silent/ended ] || fail_with "a forked child waits for the server" err
await has_pushed silent "$child" || fail_with "the child's figures are not pushed" err silent/server
await has_pushed silent "$pid" || fail_with "the first process's figures are not pushed" err silent/server
kill -0 "$pid" || fail "the first process does not wait for its push"
answer silent
wait "$pid" || fail "the program fails"
equal "pushes of the child" "$(pushes silent "$child")" 1
equal "pushes of the first process" "$(pushes silent "$pid")" 1

begin stacks --stacks
await has_pushed stacks "$child" || fail_with "with stacks: the child's figures are not pushed" err stacks/server
[ ! -e stacks/ended ] || fail "with stacks: the child does not wait"
answer stacks
wait "$pid" || fail "with stacks: the program fails"
equal "with stacks: pushes of the child" "$(pushes stacks "$child")" 1
equal "what is said before the sidecar ends" "$(cat err)" ""
equal "what the servers refuse" "$(ask silent wrong; ask stacks wrong)" ""

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
