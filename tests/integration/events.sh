#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Enters and exits as folded stacks and as trace events: each of them, in order, with times that are those of the books; and
# what is lost is counted.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null || skip "built without the pprof exporter"
program=$scratch/events_program
compile "$program" tests/integration/events_program.c
cd "$scratch"
line=$(grep -n 'JESPAN("parse")' "$top_srcdir/tests/integration/events_program.c" | cut -d: -f1)

# run OPTION… -- WORD…: both kinds of files of the program, and what it says
run() {
    rm -f E* T* F*
    "$JESPAN_CMD" run --quiet --flame-events E --trace T --flame F "$@" 2> err || fail_with "the program fails: $*" err
}

stacks() {
    sed 's/ [0-9]*$//' "$1"
}

request='ThreadId(1)-main
ThreadId(1)-main;shop::request
ThreadId(1)-main;shop::request;shop::parse
ThreadId(1)-main;shop::request
ThreadId(1)-main;shop::request;shop::render
ThreadId(1)-main;shop::request'
shop="$request
$request
$request
ThreadId(1)-main
ThreadId(1)-main;by%20handle"
one_thread='ThreadId(N)NAME
ThreadId(N)NAME;shop::job
ThreadId(N)NAME;shop::job;shop::step
ThreadId(N)NAME;shop::job
ThreadId(N)NAME
ThreadId(N)NAME;shop::job
ThreadId(N)NAME;shop::job;shop::step
ThreadId(N)NAME;shop::job'

# of_thread NUMBER NAME
of_thread() {
    sed "s/(N)NAME/($1)$2/" <<< "$one_thread"
}

# The clock is read once for the event and for the books. These have whole microseconds for each of two routes.
test_times() {
    local path us
    while read -r path us; do
        path=$(sed 's/{[^}]*}//g; s/^/shop::/; s/;/;shop::/g; s/shop::by/by/' <<< "$path")
        case $path in *thread:* | *jespan* | *root*) continue ;; esac
        awk -v path="$path" -v us="$us" '
            { stack = $1; sub(/^[^;]*;?/, "", stack) }
            stack == path { ns += $2; n++ }
            END { if (!n || ns < us * 1000 || ns >= (us + 2) * 1000) { print path ": " ns " ns of events, " us " us in the books"; exit 1 } }' E ||
            fail "times differ"
    done < <(awk '{ sub(/\{[^}]*\}/, "", $1); t[$1] += $2 } END { for (p in t) print p, t[p] }' F1)
}

test_every_event() {
    local mode
    for mode in --sidecar --in-process; do
        run "$mode" -- "$program" threads shop
        equal "$mode: the main thread" "$(grep '^ThreadId(1)' E | stacks -)" "$shop"
        equal "$mode: thread 2" "$(grep '^ThreadId(2)' E | stacks -)" "$(of_thread 2 -worker)"
        equal "$mode: thread 3" "$(grep '^ThreadId(3)' E | stacks -)" "$(of_thread 3 -worker)"
        equal "$mode: thread 4" "$(grep '^ThreadId(4)' E | stacks -)" "$(of_thread 4 '')"
        equal "$mode: stderr" "$(cat err)" ""
        check_trace
    done
}

# Spans end inside those around them, and have names, places and labels.
check_trace() {
    python3 - "$line" << 'END' || fail_with "the trace is wrong" T
import json, sys
events = json.load(open("T"))
main = [e for e in events if e["ph"] in "BE" and e["tid"] == e["pid"]]
stack, names, last = [], [], 0
for e in main:
    assert e["ts"] >= last, e
    last = e["ts"]
    if e["ph"] == "B":
        stack.append(e)
        names.append(";".join(s["name"] for s in stack))
    else:
        assert e["name"] == stack.pop()["name"], e  # speedscope ends no span of another name
one = ["request", "request;parse", "request;render"]
assert names == 3 * one + ["by handle"], names
assert not stack
assert [e["args"]["route"] for e in main if e["ph"] == "B" and e["name"] == "request"] == ["/a;1", '/b "2"', "/a;1"]
parse = next(e for e in main if e["name"] == "parse")
assert parse["cat"] == "shop" and parse["args"]["line"] == int(sys.argv[1]), parse
threads = {e["tid"]: e["args"]["name"] for e in events if e["name" if e["ph"] == "M" else "ph"] == "thread_name"}
assert sorted(threads.values())[0:2] == ["events_program", "main"], threads
held = [e["args"]["bytes"] for e in events if e["ph"] == "C" and e["name"].startswith("in use: request > parse")]
assert max(held) >= 100000, held
END
}

test_options() {
    run --conf events_module_path:false,events_labels:true,events_empty_samples:false,events_threads_collapsed:true -- "$program" shop
    equal "options" "$(stacks E | sort -u)" 'all-threads;by%20handle
all-threads;request{route=/a%3B1}
all-threads;request{route=/a%3B1};parse
all-threads;request{route=/a%3B1};render
all-threads;request{route=/b%20"2"}
all-threads;request{route=/b%20"2"};parse
all-threads;request{route=/b%20"2"};render'
    run --conf events_file_and_line:true -- "$program" shop
    grep -q ";shop::parse:$top_srcdir/tests/integration/events_program.c:$line " E || fail_with "no place in the source" E
}

# Events in the file, and events that are said to be lost, are all that there were.
test_lost() {
    local lost
    run --conf events_buffer_bytes:4096 -- "$program" burst 200000
    lost=$(sed -n 's|^jespan: .*/E: of 400000 events, \([0-9]*\) were overwritten before they were read (events_buffer_bytes)$|\1|p' err)
    [ -n "$lost" ] || fail_with "what was lost is not said" err
    equal "events in the file and lost" "$((lost + $(wc -l < E)))" 400000
    grep -q ';(lost%20events) ' E || fail "no gap in the file"
    grep -q '"lost events"' T || fail "no gap in the trace"
    run --conf events_buffer_bytes:67108864 -- "$program" crowd 1000 # two buffers fit
    grep -q '/E: of 6000 events, 2000 were of more threads than have a buffer (events_buffer_bytes)$' err ||
        fail_with "events of a thread without a buffer" err
    equal "events of the threads with a buffer" "$(wc -l < E)" 4000
    run --conf events_max_bytes:65536,events_buffer_bytes:67108864 -- "$program" burst 20000
    [ "$(stat -c %s E)" -le 65536 ] && [ "$(stat -c %s T)" -le 65536 ] || fail "files are larger than their bound: $(ls -l E T)"
    grep -q "/E: of 40000 events, $((40000 - $(wc -l < E))) are beyond events_max_bytes$" err || fail_with "the bound is not said" err
    python3 -c 'import json; json.load(open("T"))' || fail "the bounded trace cannot be read"
    run --conf events_max_bytes:65536 -- "$program" deep 300
    [ "$(stat -c %s F)" -gt 65536 ] || fail "the bound of events is one of --flame too: $(ls -l F)"
}

# A full disk and closed descriptors are said, and the program goes on.
test_wrong_files() {
    local line='/dev/full: No space left on device; nothing more is written to it' key
    run --trace /dev/full -- "$program" shop
    equal "a full disk" "$(grep -F /dev/full err)" "jespan: $line"
    mkfifo unread
    run --trace unread -- "$program" shop
    equal "a FIFO without a reader" "$(cat err)" "jespan: $scratch/unread: nobody reads it; it is not written"
    run --in-process --flame-events E -- "$program" burst 10 closes shop
    for key in trace_file events_file flame_file flame_svg_file; do
        run --conf $key:none/X -- "$program" shop
        equal "$key in no directory" "$(sed 's| /.*/none| none|' err)" "jespan: none/X: No such file or directory; it is not written"
    done
}

# fifo MODE OPTION… -- WORD…: the trace into a FIFO whose reader begins when the FIFO is full
fifo() {
    rm -f P reading over && mkfifo P
    python3 - 2> reader.err > T << 'END' &
import os, select, shutil, sys
p, w = os.open("P", os.O_RDONLY | os.O_NONBLOCK), os.open("P", os.O_WRONLY)
os.set_blocking(p, True)
open("reading", "w").close()
while select.select([], [w], [], 0)[1] and not os.path.exists("over"):
    pass
os.close(w)
shutil.copyfileobj(os.fdopen(p, "rb", buffering=0), sys.stdout.buffer, 4096)
END
    local reader=$!
    await_of "$reader" test -e reading || fail_with "no reader" reader.err
    "$JESPAN_CMD" run --quiet --trace P "$@" 2> err || fail_with "the program fails: $*" err
    touch over
    wait "$reader" || fail_with "the reader fails" reader.err
}

# A slow reader gets everything. A reader that takes nothing is given up at the end, which is said.
test_fifo() {
    local mode
    for mode in --sidecar --in-process; do
        fifo "$mode" --conf events_buffer_bytes:67108864 -- "$program" burst 20000
        equal "$mode: stderr" "$(cat err)" ""
        equal "$mode: spans of the trace" "$(python3 -c 'import json; print(sum(e["ph"] == "B" for e in json.load(open("T"))))')" 20000
        exec 9<> P
        "$JESPAN_CMD" run --quiet "$mode" --trace P --conf events_buffer_bytes:67108864,shutdown_timeout_ms:500 -- \
            "$program" burst 20000 2> err || fail_with "the program fails" err
        exec 9<&-
        equal "$mode: a reader that takes nothing" "$(cat err)" "jespan: $scratch/P: its reader is too slow; nothing more is written to it"
    done
}

# A killed program's events of the last moment are lost; all others are there.
test_killed() {
    rm -f E T
    "$JESPAN_CMD" run --quiet --flame-events E --trace T -- "$program" die > out 2> err &
    local pid=$!
    await_of "$pid" grep -q ready out || fail "the program does not start"
    await test -s E || fail "nothing is written while the program runs"
    kill -9 "$pid"
    wait "$pid" 2> /dev/null || true
    await grep -q '^]' T || fail_with "the trace has no end" T
    equal "events" "$(grep -c 'endless;shop::burst ' E)" 10
    python3 -c 'import json; json.load(open("T"))' || fail "the trace cannot be read"
}

# Each process has a file of its own.
test_fork() {
    local mode
    for mode in --sidecar --in-process; do
        run "$mode" --follow-fork -- "$program" shop fork threads
        equal "$mode: files" "$(find . -name 'E*' | wc -l)" 2
        equal "$mode: the parent" "$(stacks E)" "$shop"
        equal "$mode: the child" "$(grep '^ThreadId(2)' E.* | stacks -)" "$(of_thread 2 -worker)"
    done
}

# nested MODE OPTION…: the child of the program is another `jespan run`
nested() {
    local mode=$1
    shift
    run "$mode" --flame-svg F.svg -- "$program" shop fork execute "$JESPAN_CMD" run "$mode" --quiet "$@" -- "$program" threads shop
    equal "$mode $*: the outer program" "$(stacks E)" "$shop"
    python3 -c 'import json; json.load(open("T"))' || fail_with "$mode $*: the outer trace cannot be read" T
}

# A run in another one writes FILE.PID, or the FILE that it names. Programs without spans write none.
test_nested() {
    local mode file
    for mode in --sidecar --in-process; do
        nested "$mode"
        equal "$mode: files" "$(find . -name '[ETF].*' | sed 's/[0-9]*$//' | sort | tr '\n' ' ')" "./E. ./F. ./F.svg ./F.svg. ./T. "
        equal "$mode: the inner program" "$(grep '^ThreadId(2)' E.* | stacks -)" "$(of_thread 2 -worker)"
        python3 -c 'import json, sys; json.load(open(sys.argv[1]))' T.* || fail_with "$mode: the inner trace cannot be read" T.*
        grep -q '^job;step ' F.[0-9]* || fail_with "$mode: the inner times" F.[0-9]*
        nested "$mode" --flame-events E_inner
        equal "$mode: a file of its own" "$(grep '^ThreadId(2)' E_inner | stacks -)" "$(of_thread 2 -worker)"
        equal "$mode: files of events" "$(find . -name 'E*' | sort | tr '\n' ' ')" "./E ./E_inner "
    done
    run --flame-svg F.svg -- bash -c 'sleep 0; exit 0' # dash ends by _exit(), so it may end before it was read
    [ -s F.svg ] || fail "no file of the shell"
    equal "files of a helper" "$(find . -name 'F.*[0-9]')" ""
}

# A program without spans has no events. What the program before it wrote stays.
test_no_spans() {
    local mode
    for mode in --sidecar --in-process; do
        run "$mode" -- "$program"
        equal "$mode: the file" "$(stat -c %s E)" 0
        equal "$mode: stderr" "$(cat err)" "jespan: $scratch/E: no span of events_program was seen, so the file is empty"
    done
    run -- "$program" shop written E execute true
    [ "$(stacks E | grep -c 'shop::request')" -gt 1 ] || fail_with "the events of a program that executes another" E
    equal "a program that was executed" "$(cat err)" "jespan: $scratch/E: no span of true was seen, so the file stays as it was"
}

test_every_event
test_no_spans
run -- "$program" shop
cp F F1
test_times
test_options
test_lost
test_wrong_files
test_fifo
test_killed
test_fork
test_nested
finish
