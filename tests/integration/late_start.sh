#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Without a sidecar, jespan's threads start at the first allocation after main() has begun: no constructor of the program
# sees one, and a program that allocates no more still has its dumps.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

program=$scratch/program
$CC -std=gnu11 -O1 -Wall -o "$program" "$top_srcdir/tests/integration/late_start_program.c"

# run NAME CONF [FILE]: the program waits for FILE
run() {
    JESPAN_CONF="module_dir:$JESPAN_MODULES,$2" LD_PRELOAD=$JESPAN_LIB timeout 600 "$program" ${3:+"$3"} \
        > "$scratch/$1" 2> "$scratch/$1.err" || fail_with "$1: status $?" "$scratch/$1.err"
}

mkdir "$scratch/dumps"
run off "" /
equal "nothing configured" "$(cat "$scratch/off")" "constructor 1, main 1, allocation 1, unshare 0"

waits='constructor 1, main 1, allocation 2, unshare 0'
# starts NAME CONF
starts() {
    run "$1" "$2" /
    [ "$(cat "$scratch/$1")" = "$waits" ] || fail_with "$1: $(cat "$scratch/$1")" "$scratch/$1.err"
}
starts interval "dump_dir:$scratch/dumps,dump_interval_s:3600,dump_at_exit:false"
starts events "dump_dir:$scratch/dumps,dump_on:oom"
starts alert 'alert:growth(work)>1G/min'
starts limit 'limit:work=1G,on_limit:event'
[ ! -e "$JESPAN_MODULES/http.so" ] || starts http "http_listen:unix:$scratch/socket"
[ ! -e "$JESPAN_MODULES/pyroscope.so" ] || starts pyroscope "pyroscope_url:http://127.0.0.1:1,shutdown_timeout_ms:1"

# The program makes one allocation, then none until it has a dump.
if [ -e "$JESPAN_MODULES/pprof.so" ]; then
    mkdir "$scratch/in_periods"
    run periods "dump_dir:$scratch/in_periods,dump_interval_s:1,dump_at_exit:false,dump_format:pprof" "$scratch/in_periods/seen" &
    has_dump() {
        compgen -G "$scratch/in_periods/heap.*.1.pb.gz" > /dev/null
    }
    await has_dump || fail "a program that allocates no more has no dump"
    touch "$scratch/in_periods/seen"
    wait
fi

# A program that allocates nothing in main() is reported at its end.
if [ -e "$JESPAN_MODULES/pyroscope.so" ]; then
    run none "pyroscope_url:http://127.0.0.1:1"
    equal "no allocation" "$(cat "$scratch/none")" "constructor 1, main 1, allocation 1, unshare 0"
    grep -q '^jespan: pyroscope: ' "$scratch/none.err" || fail_with "no allocation: nothing was pushed at the end" "$scratch/none.err"
fi
finish
