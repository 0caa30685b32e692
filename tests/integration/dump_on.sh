#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Dumps for events (dump_on): signals, peaks, and missing memory. The names of the files, and how often they come. Without
# dump_on nothing happens. tests/stress/oom.sh tests dumps before the OOM killer.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/dumps.sh
. "$(dirname "$0")/../support/dumps.sh"

compile_dumping dump_on_program

# ran WHAT OUTPUT FILES STDERR: how it ended; FILES are those of $dir without "heap.PID."
ran() {
    equal "$1: status" "$status" 0
    equal "$1: output" "$(grep -v '^pid ' "$scratch/out")" "$2"
    equal "$1: files" "$(find "$dir" -type f -printf '%f\n' | sort -V | sed "s/^heap\.$pid\.//" | paste -sd' ')" "$3"
    equal "$1: stderr" "$(cat "$scratch/err")" "$4"
}

all_whole() {
    local name
    for name in $(dumps_in "$dir"); do
        "$JESPAN_CMD" report "$dir/$name" > "$scratch/report" || fail_with "$1: no report of $name" "$scratch/report"
    done
}

# Without a word of it: no thread, no handler.
not_asked_for() {
    run "dump_dir:$dir" threads
    ran "not asked for" "dump_on_program" "" ""
    run "dump_dir:$dir,dump_signal:USR2" signal 12
    equal "no handler" "$status" $((128 + 12))
    run "dump_dir:$dir,dump_signal:USR2" threads
    ran "a signal alone" "dump_on_program" "" "jespan: dump_signal needs dump_on:signal, and is ignored"
    run "dump_dir:$dir,dump_signal:USR2,only_programs:other" threads
    ran "a signal alone, left out" "dump_on_program" "" ""
    run "dump_on:oom|signal,dump_signal:USR2" threads
    ran "no directory" "dump_on_program" "" "jespan: dump_on and on_limit:dump need dump_dir, and are ignored"
}

bad_values() {
    run "dump_dir:$dir,dump_on:om|peak|OOM" threads
    ran "bad words" $'dump_on_program\njespan:oom' "" \
        "jespan: dump_on: 'om' is none of oom|limit|peak|signal, and is ignored"$'\n'"jespan: dump_on: 'OOM' is none of oom|limit|peak|signal, and is ignored"
    run "dump_dir:$dir,dump_signal:FOO" threads
    ran "no signal, not asked for" "dump_on_program" "" "jespan: dump_signal: 'FOO' is not a signal that can request a dump, and is ignored"
    run "dump_dir:$dir,dump_on:signal,dump_signal:KILL" threads
    ran "bad signal" "dump_on_program" "" \
        "jespan: dump_signal: 'KILL' is not a signal that can request a dump, and is ignored"
    run "dump_dir:$dir,dump_on:signal" threads
    ran "no signal" "dump_on_program" "" "jespan: dump_on:signal needs dump_signal, such as dump_signal:USR2, and is ignored"
}

# One message says that the exporter is missing; none blames dump_reserve_bytes.
no_exporter() {
    run "dump_dir:$dir,module_dir:$scratch/none,dump_on:oom" sleep 0
    equal "no exporter: stderr" "$(cat "$scratch/err")" "jespan: exporter pprof: $scratch/none/pprof.so: cannot open shared \
object file: No such file or directory; see dump_format and module_dir"
}

signals() {
    local on="dump_dir:$dir,dump_on:signal,dump_signal:USR2"
    run "$on" sleep 100 signal 12 await signal_dumps 1
    ran "a signal" "signal_dumps 1" "1.signal.pb.gz" ""
    all_whole "a signal"
    run "$on" signal 12
    ran "a signal just before the end" "" "1.signal.pb.gz" ""
    run "$on,dump_on_interval_s:1000" signal 12 await signal_dumps 1 signal 12
    ran "a signal too soon before the end" "signal_dumps 1" "1.signal.pb.gz 2.signal.pb.gz" ""
    run "$on,dump_on_interval_s:1" signal 12 await signal_dumps 1 signal 12 signal 12 sleep 300 await signal_dumps 1 \
        await signal_dumps 2 sleep 1200 await signal_dumps 2
    ran "signals too soon" $'signal_dumps 1\nsignal_dumps 1\nsignal_dumps 2\nsignal_dumps 2' \
        "1.signal.pb.gz 2.signal.pb.gz" ""
    run "$on,dump_on_interval_s:0,dump_keep:2,dump_at_exit:true" signal 12 await signal_dumps 1 signal 12 \
        await signal_dumps 2
    ran "keeping" $'signal_dumps 1\nsignal_dumps 2' "2.signal.pb.gz 3.pb.gz" ""
    run "$on" handler 12 signal 12 sleep 200 await signal_dumps 0
    ran "a handler of the program's" $'handled\nsignal_dumps 0' "" ""
}

forks() {
    local on="dump_dir:$dir,dump_on:signal,dump_signal:USR2,dump_on_interval_s:0"
    run "$on" signal 12 await signal_dumps 1 fork threads signal 12
    equal "in a child: as without" "$status" $((128 + 12))
    equal "in a child: threads" "$(sed 1,3d "$scratch/out")" "dump_on_program"
    run "$on,follow_fork:true" signal 12 await signal_dumps 1 fork defaults signal 12 await signal_dumps 1
    equal "followed: the handler stays" "$(grep defaults "$scratch/out")" "defaults 0"
    equal "followed: status" "$status" 0
    equal "followed: files" "$(find "$dir" -name "heap.$pid.1.signal.pb.gz" -o -name 'heap.*.1.signal.pb.gz' | wc -l)" 2
    [ -e "$dir/heap.$pid.1.signal.pb.gz" ] || fail "followed: no dump of the child"
}

peaks() {
    run "dump_dir:$dir,dump_on:peak" grow 100 await peak_dumps 1
    ran "a peak" "peak_dumps 1" "1.peak.pb.gz" ""
    run "dump_dir:$dir,dump_on:peak" grow 5 sleep 300 await peak_dumps 0
    ran "no peak" "peak_dumps 0" "" ""
}

# A limit refuses: on_limit:dump says so and dumps, dump_on:limit only dumps. The dump has a line of its own.
limits() {
    local on="dump_dir:$dir,limit:thread:dump_on_program=1M"
    run "$on,on_limit:dump" fail 2000000 await limit_dumps 1
    ran "on_limit:dump" $'ENOMEM\nlimit_dumps 1' "1.limit.pb.gz" "$(cat "$scratch/err")"
    equal "on_limit:dump: stderr" "$(sed -E 's/;.*//; s/: [0-9]+ of 1048576 bytes/:/' "$scratch/err" | LC_ALL=C sort)" \
        'jespan: limit of thread:dump_on_program reached: in use, refusals: 1
jespan: limit: an allocation was refused by its limit'
    all_whole "on_limit:dump"
    run "$on,dump_on:limit" fail 2000000 await limit_dumps 1
    ran "dump_on:limit" $'ENOMEM\nlimit_dumps 1' "1.limit.pb.gz" "$(cat "$scratch/err")"
    equal "dump_on:limit: stderr" "$(sed -E 's/;.*//' "$scratch/err")" 'jespan: limit: an allocation was refused by its limit'
    run "$on" fail 2000000 sleep 200 await limit_dumps 0
    ran "on_limit:fail" $'ENOMEM\nlimit_dumps 0' "" ""
}

# An allocation fails: it waits for the dump, which another one that fails soon afterwards is part of.
failures() {
    local line='jespan: oom: an allocation failed for want of memory; '
    run "dump_dir:$dir,dump_on:oom" grow 30 fail 100000000000000 await oom_dumps 1 fail 100000000000000 sleep 200 \
        await oom_dumps 1
    equal "failure: status" "$status" 0
    equal "failure: output" "$(sed 1d "$scratch/out")" $'ENOMEM\noom_dumps 1\nENOMEM\noom_dumps 1'
    equal "failure: files" "$(dumps_in "$dir")" "heap.$pid.1.oom.pb.gz"
    grep -q "^${line}[0-9]* bytes in leak{tenant=t7}, " "$scratch/err" || fail_with "failure: stderr" "$scratch/err"
    equal "failure: lines" "$(wc -l < "$scratch/err")" 1
    all_whole "failure"
    run "dump_dir:$dir,dump_on:oom" grow 30 align 100000000000000 await oom_dumps 1
    equal "failure of an aligned one: output" "$(sed 1d "$scratch/out")" $'ENOMEM\noom_dumps 1'
    run "dump_dir:$dir,dump_on:oom" fail 18446744073709551615 sleep 200 await oom_dumps 0
    ran "no size at all" $'ENOMEM\noom_dumps 0' "" ""
}

# No page can be had any more: what was set aside is enough.
no_memory_left() {
    (
        ulimit -v 300000
        run "dump_dir:$dir,dump_on:oom,dump_oom_percent:99,dump_on_interval_s:0" exhaust sleep 200 fail 400000000 sleep 200 \
            await lost_dumps 0
        equal "no memory: output" "$(sed 1d "$scratch/out")" $'ENOMEM\nlost_dumps 0'
        # The watching thread may find the address space nearly full at the same time, which is said then.
        grep -qE '^jespan: oom: (an allocation failed for want of memory|[0-9]* of 307200000 bytes are used of the address space)' \
            < <(tail -n 1 "$scratch/err") || fail_with "no memory: no line about it" "$scratch/err"
        finish
    ) || fail "no memory"
    [ "$(dumps_in "$dir" | wc -l)" -gt 0 ] || fail "no memory: no dump"
    all_whole "no memory"
}

# The line that names the owner comes whatever becomes of the file.
nowhere_to_write() {
    run "dump_dir:$scratch/missing,dump_on:oom" grow 30 fail 100000000000000 sleep 100 await lost_dumps 1
    equal "no directory: status" "$status" 0
    sed 's/failed for want of memory; .*/failed/; s/[0-9]* bytes in //' "$scratch/err" > "$scratch/said"
    equal "no directory: stderr" "$(cat "$scratch/said")" \
        "jespan: dump_dir: '$scratch/missing' cannot be written to: No such file or directory; dumps will fail
jespan: oom: an allocation failed
jespan: heap dump $scratch/missing/heap.$pid.1.oom.pb.gz failed: No such file or directory; further failures are only counted"
}

full_disk() {
    local conf=module_dir:$JESPAN_MODULES,dump_dir:$dir,dump_on:oom
    rm -rf "$dir"
    mkdir "$dir"
    # What it says goes through pipes, which have no such limit.
    {
        (trap '' XFSZ && ulimit -f 0 &&
            JESPAN_CONF=$conf exec "$program" fail 100000000000000 await lost_dumps 1 2>&1 1>&4) | cat > "$scratch/err"
    } 4>&1 | cat > "$scratch/out"
    equal "full disk: output" "$(sed 1d "$scratch/out")" $'ENOMEM\nlost_dumps 1'
    grep -q '\.oom\.pb\.gz failed: File too large;' "$scratch/err" || fail_with "full disk: stderr" "$scratch/err"
    equal "full disk: files" "$(ls -A "$dir")" ""
}

not_asked_for
bad_values
no_exporter
signals
forks
peaks
limits
failures
no_memory_left
nowhere_to_write
full_disk
finish
