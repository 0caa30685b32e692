#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# /threads and /rss of the service http have the figures of `jespan threads` and `jespan rss`, in the program and in a sidecar, also
# of a process that was chosen. /stacks adds calls to /spans. Names of any bytes are valid JSON, and answers are bounded.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/http.sh
. "$(dirname "$0")/../support/http.sh"
need python3 curl
[ -f "$JESPAN_MODULES/http.so" ] || skip "built without the service http"
compile "$scratch/program" tests/integration/threads_program.c
compile "$scratch/names" tests/integration/http_views_program.c
compile "$scratch/threads" tests/integration/http_views_threads.c

# compare PID QUERY: what both commands print of a process, and what the service answers
compare() {
    python3 -B "$top_srcdir/tests/integration/http_views.py" "$JESPAN_CMD" "$base" "$1" "$2" > "$scratch/compared" 2>&1 ||
        fail_with "process $1" "$scratch/compared"
}

# start COMMAND…: a program that says "ready", and says where it listens on stderr
start() {
    rm -f "$scratch/says" "$scratch/said"
    "$@" > "$scratch/says" 2> "$scratch/said" &
    pids+=($!)
    await_of $! grep -q ready "$scratch/says" || fail_with "the program does not begin" "$scratch/said"
    find_base 127.0.0.1:0
}

in_program=(env JESPAN_CONF="module_dir:$JESPAN_MODULES,http_listen:127.0.0.1:0")
start "${in_program[@]}" "$scratch/program" 300 5
"$JESPAN_CMD" threads "${pids[0]}" > /dev/null 2> "$scratch/err" || ! grep -q 'permission denied' "$scratch/err" ||
    skip "this system lets no process read another"
compare "${pids[0]}" ""
for path in /threads /rss /stacks; do
    status_is 200 "$path" -I
    equal "type of $path" "$(header Content-Type)" "application/json; charset=utf-8"
    refusal=405
    [ "$path" != /stacks ] || refusal=403
    status_is $refusal "$path" -X POST
    status_is 413 "$path" -X GET -d a=b
    status_is 404 "$path/"
    status_is 404 "$path?pid=1x"
    status_is 403 "$path" -H 'Host: evil.example'
    for query in limit=x limit=-1 limit=100001 limit= format=xml; do
        status_is 400 "$path?$query"
    done
done
kill "${pids[0]}"

# A sidecar, of two processes: one that the program starts, and itself
both_began() { [ "$(grep -c ready "$scratch/says")" = 2 ]; }
is_served() { grep -q ":$(< "$scratch/second")," < <(ask /processes); }
is_gone() { ask "/threads?pid=$(cat "$scratch/second")" > /dev/null; [ "$(cat "$scratch/status")" = 404 ]; }
export program=$scratch/program scratch
# shellcheck disable=SC2016
start "$JESPAN_CMD" run --quiet --http 127.0.0.1:0 --conf "module_dir:$JESPAN_MODULES" -- \
    bash -c '"$program" 200 7 & echo $! > "$scratch/second"; echo $$ > "$scratch/first"; exec "$program" 100 9'
await both_began || fail "the second program does not begin"
await is_served || fail_with "the second process is not served" "$scratch/said"
compare "$(cat "$scratch/first")" ""
compare "$(< "$scratch/second")" "pid=$(cat "$scratch/second")"
kill "$(< "$scratch/second")"
await is_gone || fail "a process that has ended has threads"
kill "$(cat "$scratch/first")"

# A difference that begins in a program, and would end in another one, which the process executes meanwhile. The two begin at least 0.2 s
# apart, since the service takes those that begin within 0.1 s for one (SAME_BEGIN_NS). A busy machine may take longer than the
# difference: then once more, with twice the time.
mkfifo "$scratch/go"
is_first_served() { grep -q '"pid":' < <(ask /processes); }
for seconds in 3 6 12 24 48 96; do
    # shellcheck disable=SC2016
    start "$JESPAN_CMD" run --quiet --http 127.0.0.1:0 --conf "module_dir:$JESPAN_MODULES" -- \
        bash -c 'echo ready; sleep 0.2; read -r < "$scratch/go"; exec "$program" 100 9'
    await is_first_served || fail_with "the first program is not served" "$scratch/said"
    began=$SECONDS
    begin_waiting "/debug/pprof/heap?seconds=$seconds" -w '%{http_code}' > "$scratch/waited"
    echo > "$scratch/go"
    await both_began || fail "the other program does not begin"
    took=$((SECONDS - began))
    wait "$waiting" || true
    kill "${pids[-1]}"
    [ $((2 * took)) -ge "$seconds" ] || break
done
equal "a difference of two programs" "$(< "$scratch/waited")" 503

# The switch of stacks, in the program itself, and in a process that a sidecar serves
post() {
    ask "/stacks?$1" -X POST -H 'Authorization: Bearer sesame' -H 'X-Jespan: 1'
}
has_mode() {
    ask '/spans?limit=1' -H 'Authorization: Bearer sesame' > "$scratch/mode"
    grep -q "\"stacks\":\"$1\",\"may_switch\":true" "$scratch/mode"
}
start env JESPAN_CONF="module_dir:$JESPAN_MODULES,http_listen:127.0.0.1:0,http_token:sesame" "$scratch/program" 10 1
status_is 401 '/stacks?mode=all' -X POST -H 'X-Jespan: 1'
status_is 403 '/stacks?mode=all' -X POST -H 'Authorization: Bearer sesame'
equal "a switch in the program" "$(post mode=all@request) $(< "$scratch/status")" "done 200"
has_mode all@request || fail_with "a switch in the program" "$scratch/mode"
post mode=on > /dev/null
equal "a wrong mode" "$(< "$scratch/status")" 400
status_is 405 /stacks -X PUT -H 'Authorization: Bearer sesame'
equal "what may be done" "$(header Allow)" "GET, HEAD, POST"
kill "${pids[-1]}"
start "$JESPAN_CMD" run --quiet --http 127.0.0.1:0 --conf "module_dir:$JESPAN_MODULES,http_token:sesame" -- \
    bash -c 'echo ready; while read -r -t 0.05 < <(sleep 1) || :; do :; done'
await has_mode off || fail_with "the program is not served" "$scratch/mode"
post mode=sampled > "$scratch/answer"
grep -qE '^20[02]$' "$scratch/status" || fail_with "a switch by a sidecar" "$scratch/answer"
await has_mode sampled || fail_with "a switch by a sidecar" "$scratch/mode"
post "mode=all&pid=1" > /dev/null
equal "a process that is not served" "$(< "$scratch/status")" 404
kill "${pids[-1]}"

# Names of any bytes, and more threads and contexts than an answer has
in_program[1]+=,stacks:all
start "${in_program[@]}" "$scratch/names" 2000 10000
python3 -B "$top_srcdir/tests/integration/http_views.py" "$base" names > "$scratch/compared" 2>&1 || fail_with "names" "$scratch/compared"
kill "${pids[-1]}"

# A million pairs of a thread and a context, and more
in_program[1]=${in_program[1]%,stacks:all}
start "${in_program[@]}" "$scratch/threads" 300 4000
python3 -B "$top_srcdir/tests/integration/http_views.py" "$base" threads 300 $((4000 * 64)) > "$scratch/compared" 2>&1 ||
    fail_with "pairs" "$scratch/compared"

# A difference that was asked for changes no figure of later answers, where snapshots are made out of earlier ones
held() {
    ask '/spans?limit=100000' | grep '"kind":"span"' | grep -oE '"(id|inuse_bytes|alloc_bytes)":[0-9]+' | md5sum
}
before=$(held)
ask '/debug/pprof/heap?seconds=1' > /dev/null
equal "figures after a difference" "$(held)" "$before"
finish
