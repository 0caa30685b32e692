#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Little memory from the start, by any limit on address space, or by any failing call of mmap(2). Allocations return NULL
# with ENOMEM, and nothing crashes.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

# A shared jemalloc starts by itself, and crashes where it has no memory.
[ "${JESPAN_BINDING:-static}" = static ] || skip "the private jemalloc is tested"
program=$scratch/little_memory
compile "$program" tests/integration/little_memory_program.c
$CC -O1 -shared -fPIC -o "$scratch/mmap.so" "$top_srcdir/tests/integration/little_memory_mmap.c"
ulimit -c 0

# What ld.so says, where it cannot even load the program; status 127.
is_loaded() {
    [ "$1" != 127 ]
}

# run WHAT COMMAND…: it ends well, and says nothing but that there is no memory
run() {
    local what=$1 status=0
    shift
    { ("$@") > "$scratch/out" 2> "$scratch/err" || status=$?; } 2> /dev/null
    is_loaded "$status" || return 0
    equal "$what: status" "$status" 0
    equal "$what: stderr" "$(grep -v '^jespan: no memory to start: .*; allocations fail$' "$scratch/err")" ""
}

# limited WHAT KIB COMMAND…, where WHAT is v (address space) or d (data)
limited() {
    ulimit "-$1" "$2"
    shift 2
    exec "$@"
}

for ((kib = 4000; kib < 200000; kib += 1200 + kib / 40)); do
    run "ulimit -v $kib" limited v "$kib" "$program"
done
for ((kib = 1000; kib < 100000; kib += 9000)); do
    run "ulimit -d $kib" limited d "$kib" "$program"
done
for kib in 0 500 2000 5000 8000 9000 11000 15000 30000; do
    run "limit lowered to $kib KiB more" "$program" lowered "$kib"
done
for count in 1 1000000; do
    for ((from = 0; from < 14; from++)); do
        run "mmap fails $count times from call $from on" \
            env FAIL_FROM="$from" FAIL_COUNT="$count" LD_PRELOAD="$scratch/mmap.so" "$program"
    done
done

# Not more than that is needed: fewer contexts are better than no memory.
(limited v 60000 "$program" works) || fail "allocations fail with 60,000 KiB of address space"

# Programs of others say what they say without memory, but are not killed by a signal.
for ((kib = 4000; kib < 200000; kib += 1700 + kib / 20)); do
    for other in "true" "bash -c :" "python3 -S -c 1" "sort /dev/null"; do
        status=0
        # shellcheck disable=SC2086
        (LD_PRELOAD=$JESPAN_LIB limited v "$kib" $other) > "$scratch/out" 2> "$scratch/err" || status=$?
        [ "$status" -lt 128 ] || fail_with "$other with $kib KiB: status $status" "$scratch/err"
    done
done

# The dump at exit is lost, the program is not.
mkdir "$scratch/dumps"
for ((kib = 14000; kib < 30000; kib += 1000)); do
    status=0
    (JESPAN_CONF=dump_dir:$scratch/dumps,dump_at_exit:true LD_PRELOAD=$JESPAN_LIB limited v "$kib" true) \
        > "$scratch/out" 2> "$scratch/err" || status=$?
    [ "$status" -lt 128 ] || fail_with "a dump at exit with $kib KiB: status $status" "$scratch/err"
done
finish
