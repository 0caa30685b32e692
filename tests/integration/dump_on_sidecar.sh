#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Dumps for events under `jespan run`: the sidecar writes them, with the names, lines and pauses of dump_on.sh, and the program
# has no thread but its own.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/dumps.sh
. "$(dirname "$0")/../support/dumps.sh"

"$JESPAN_CMD" help report > /dev/null || skip "built without the pprof exporter"
compile_dumping dump_on_program

# beside EVENTS CONF ACTION…: as run() of dumps.sh, with a sidecar that writes dumps for events only
beside() {
    local events=$1 conf=dump_at_exit:false$2
    shift 2
    rm -rf "$dir"
    mkdir "$dir"
    status=0
    DUMPS=$dir "$JESPAN_CMD" run --quiet --dump-dir "$dir" --interval 0 --dump-on "$events" --conf "$conf" -- \
        "$program" "$@" > "$scratch/out" 2> "$scratch/err" || status=$?
    pid=$(sed -n 's/^pid \([0-9]*\).*/\1/p' "$scratch/out" | tail -n 1)
}

# ran WHAT OUTPUT FILES STDERR: how it ended; FILES are those of $dir without "heap.PID."
ran() {
    equal "$1: status" "$status" 0
    equal "$1: output" "$(grep -v '^pid ' "$scratch/out")" "$2"
    equal "$1: files" "$(find "$dir" -type f -printf '%f\n' | sort -V | sed "s/^heap\.$pid\.//" | paste -sd' ')" "$3"
    equal "$1: stderr" "$(cat "$scratch/err")" "$4"
}

# begin ACTION…: as beside, in the background, with all events, a limit and an input; sets pid and sidecar
begin() {
    rm -rf "$dir" "$scratch/in"
    mkdir "$dir"
    mkfifo "$scratch/in"
    : > "$scratch/out"
    DUMPS=$dir "$JESPAN_CMD" run --quiet --dump-dir "$dir" --interval 0 --dump-on 'oom|limit|signal|peak' \
        --conf dump_at_exit:false,dump_signal:USR2,limit:small=1M -- \
        "$program" "$@" < "$scratch/in" > "$scratch/out" 2> "$scratch/err" &
    pid=$!
    exec {input}> "$scratch/in"
    await [ -s "$scratch/out" ] || fail_with "the program does not start" "$scratch/err"
    sidecar=$(sidecar_of "$pid")
}

tell() {
    echo >&"$input"
}

# ended WHAT OUTPUT: it must end by itself
ended() {
    local status=0
    exec {input}>&-
    wait "$pid" || status=$?
    equal "$1: status" "$status" 0
    equal "$1: output" "$(sed 1d "$scratch/out")" "$2"
}

is_stopped() {
    grep -q '^State:.T' "/proc/$1/status"
}

is_dead() {
    ! kill -0 "$1" 2> /dev/null || grep -q '^State:.Z' "/proc/$1/status"
}

all_whole() {
    local name
    for name in $(dumps_in "$dir"); do
        "$JESPAN_CMD" report "$dir/$name" > "$scratch/report" || fail_with "$1: no report of $name" "$scratch/report"
    done
}

# Before and after a dump.
threads() {
    beside 'limit|peak|signal' ,dump_signal:USR2 threads signal 12 files signal 1 threads
    ran "threads" $'dump_on_program\nsignal 1\ndump_on_program' "1.signal.pb.gz" ""
    all_whole "threads"
    beside oom "" fail 100000000000000 files oom 1 threads
    equal "threads, oom" "$(sed 1d "$scratch/out")" $'ENOMEM\noom 1\ndump_on_program'
}

signals() {
    local on=,dump_signal:USR2
    beside signal $on signal 12
    ran "a signal just before the end" "" "1.signal.pb.gz" ""
    beside signal $on,dump_on_interval_s:1000 signal 12 files signal 1 signal 12
    ran "a signal too soon before the end" "signal 1" "1.signal.pb.gz 2.signal.pb.gz" ""
    beside signal $on,dump_on_interval_s:1 signal 12 files signal 1 signal 12 signal 12 sleep 300 files signal 1 files signal 2 \
        sleep 1200 files signal 2
    ran "signals too soon" $'signal 1\nsignal 1\nsignal 2\nsignal 2' "1.signal.pb.gz 2.signal.pb.gz" ""
    beside signal $on handler 12 signal 12 sleep 200 files signal 0
    ran "a handler of the program's" $'handled\nsignal 0' "" ""
}

forks() {
    local on=,dump_signal:USR2,dump_on_interval_s:0
    beside signal $on signal 12 files signal 1 fork threads signal 12
    equal "in a child: as without" "$status" $((128 + 12))
    equal "in a child: threads" "$(sed 1,3d "$scratch/out")" "dump_on_program"
    beside signal "$on,follow_fork:true" signal 12 files signal 1 fork defaults await signal_dumps 0 signal 12 files signal 1 await signal_dumps 1 threads
    equal "followed: the handler stays" "$(grep defaults "$scratch/out")" "defaults 0"
    equal "followed: status" "$status" 0
    equal "followed: files" "$(find "$dir" -name 'heap.*.1.signal.pb.gz' | wc -l)" 2
    [ -e "$dir/heap.$pid.1.signal.pb.gz" ] || fail "followed: no dump of the child"
    equal "followed: threads" "$(tail -n 1 "$scratch/out")" "dump_on_program"
}

peaks() {
    beside peak "" grow 100 files peak 1
    ran "a peak" "peak 1" "1.peak.pb.gz" ""
    beside peak "" grow 5 sleep 300 files peak 0
    ran "no peak" "peak 0" "" ""
}

limits() {
    beside limit ,limit:thread:dump_on_program=1M fail 2000000 files limit 1 await limit_dumps 1 await oom_dumps 0
    ran "limit" $'ENOMEM\nlimit 1\nlimit_dumps 1\noom_dumps 0' "1.limit.pb.gz" "$(cat "$scratch/err")"
    equal "limit: stderr" "$(sed -E 's/;.*//' "$scratch/err")" 'jespan: limit: an allocation was refused by its limit'
}

# The allocation waits for the dump, which another one that fails soon afterwards is part of.
failures() {
    beside oom "" grow 30 fail 100000000000000 files oom 1 fail 100000000000000 sleep 200 files oom 1 await oom_dumps 1
    equal "failure: status" "$status" 0
    equal "failure: output" "$(sed 1d "$scratch/out")" $'ENOMEM\noom 1\nENOMEM\noom 1\noom_dumps 1'
    equal "failure: files" "$(dumps_in "$dir")" "heap.$pid.1.oom.pb.gz"
    grep -q '^jespan: oom: an allocation failed for want of memory; [0-9]* bytes in leak{tenant=t7}, ' "$scratch/err" ||
        fail_with "failure: stderr" "$scratch/err"
    equal "failure: lines" "$(wc -l < "$scratch/err")" 1
    all_whole "failure"
    beside oom "" fail 18446744073709551615 sleep 200 files oom 0
    ran "no size at all" $'ENOMEM\noom 0' "" ""
}

# A program that gets no answer goes on. Of many allocations that fail it waits in few, whatever they ask for.
killed() {
    begin line waits 30 refuse signal 12 waits 30
    kill -KILL "$sidecar"
    await is_dead "$sidecar" || fail "killed: it lives"
    tell
    ended "killed" $'waited in few\nENOMEM\nwaited in few'
}

has_lines() {
    [ "$(wc -l < "$scratch/out")" = "$1" ]
}

# count_is NAME N: as another process reads it
count_is() {
    [ "$("$JESPAN_CMD" ctl "$pid" get "spans.stats.$1_dumps")" = "$2" ]
}

# What the program has reported is dumped when the sidecar goes on.
stopped() {
    begin line waits 1 waits 30 refuse signal 12 waits 30 line files oom 1 files limit 1 files signal 1
    kill -STOP "$sidecar"
    await is_stopped "$sidecar" || fail "stopped: it runs"
    tell
    await has_lines 5 || fail_with "stopped: the program hangs" "$scratch/out" "$scratch/err"
    kill -CONT "$sidecar"
    await count_is signal 1
    tell
    ended "stopped" $'waited in most\nwaited in few\nENOMEM\nwaited in few\noom 1\nlimit 1\nsignal 1'
    all_whole "stopped"
}

# It never goes on.
stays_stopped() {
    begin line waits 1 refuse signal 12 waits 30
    kill -STOP "$sidecar"
    await is_stopped "$sidecar" || fail "stays stopped: it runs"
    tell
    ended "stays stopped" $'waited in most\nENOMEM\nwaited in few'
    kill -KILL "$sidecar"
}

# What an event's reading has is the peak, and what the line at the end says, though it is gone before any other reading.
figures() {
    rm -rf "$dir"
    mkdir "$dir"
    DUMPS=$dir "$JESPAN_CMD" run --dump-dir "$dir" --interval 0 --dump-on oom --peak --conf reading_interval_ms:86400000 -- \
        "$program" sleep 300 grow 30 fail 100000000000000 files oom 1 drop > "$scratch/out" 2> "$scratch/err" ||
        fail "figures: status $?"
    equal "figures: output" "$(sed 1d "$scratch/out")" $'ENOMEM\noom 1'
    await grep -q ' at its peak ' "$scratch/err" || fail "figures: no line at the end"
    grep -qE '; at its peak 3[0-9]\.[0-9] MiB in use, most by leak \{tenant=t7\} \(30\.0 MiB\); at last [0-9.]* .?i?B in use, ' \
        "$scratch/err" || fail_with "figures: the line at the end" "$scratch/err"
    "$JESPAN_CMD" report --peak "$dir" > "$scratch/report" || fail "figures: no peak"
    grep -q '30\.0 MiB .* leak {tenant=t7}' "$scratch/report" || fail_with "figures: the peak" "$scratch/report"
}

# The bound is the program's, and not the sidecar's.
bounds() {
    beside oom ,dump_oom_percent:50 space 600 grow 320 files oom 1
    equal "a bound: status" "$status" 0
    grep -qE '^jespan: oom: [0-9]+ of 629145600 bytes are used of the address space \(RLIMIT_AS\); [0-9]+ bytes in leak\{tenant=t7\}' \
        "$scratch/err" || fail_with "a bound: stderr" "$scratch/err"
    all_whole "a bound"
    beside oom ,dump_oom_percent:99,dump_on_interval_s:0 space 300 exhaust files oom 1 fail 400000000
    equal "no memory: output" "$(sed -E '1d; s/oom [0-9]+/oom/' "$scratch/out")" $'oom\nENOMEM'
    all_whole "no memory"
}

threads
signals
forks
peaks
limits
failures
killed
stopped
stays_stopped
figures
bounds
finish
