#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The most that each stack had in use, and what it had at the peak of the process: of a process, of its dump, and in pprof's
# file; of one thread, and of several.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without jespan report"
program=$scratch/stacks_peaks_program
compile "$program" tests/integration/stacks_peaks_program.c
cd "$scratch"

# start NAME CONF [ARGUMENT]: the program, until it waits
start() {
    mkfifo "in.$1"
    mkdir "$1"
    JESPAN_CONF="peak_looks_percent:100,dump_dir:$1,dump_at_exit:true,$2" "$program" "${@:3}" < "in.$1" > "said.$1" &
    pid=$!
    exec 7> "in.$1"
    await_of "$pid" grep -q ready "said.$1" || fail "$1 did not come to its end"
}

# stop NAME
stop() {
    exec 7>&-
    wait "$pid" || fail "$1 failed"
}

# rows COLUMNS OPTIONS… INPUT: of functions of the program
rows() {
    "$JESPAN_CMD" report --csv --columns "$@" 2> report.err | grep -E '(kept|both|alone|deep)"$'
}

# sums INPUT: "PEAK AT-PEAK" of the process; the sum of what the rows had at the peak
sums() {
    "$JESPAN_CMD" report --json --stacks --columns peak,atpeak "$1" 2> report.err > json
    sed -n 's/.*"total": {"peak_bytes": \([0-9]*\), "at_peak_bytes": \([0-9]*\)}.*/\1 \2/p' json
    "$JESPAN_CMD" report --csv --stacks --columns atpeak --sort atpeak "$1" 2> report.err | awk -F, 'NR > 1 { n += $1 } END { print n }'
}

test_all() {
    start all stacks:all
    thread="thread:${program##*/}" && thread=${thread:0:22}
    expected="8388608,8388608,0,\"$thread > main > both\"
6291456,0,0,\"$thread > main > alone\"
3145728,3145728,3145728,\"$thread > main > kept\""
    equal "of the process" "$(rows peak,atpeak,inuse --stacks --sort peak "$pid")" "$expected"
    equal "--peak --stacks" "$(rows atpeak,peak,inuse --stacks --peak "$pid" | cut -d, -f1,2 | tr '\n' ' ')" \
        "8388608,8388608 3145728,3145728 0,6291456 "
    equal "--peak --stacks --tree" "$("$JESPAN_CMD" report --peak --stacks --tree --exact "$pid" 2> err | grep main | tr -s ' ' | cut -d' ' -f1,3-)" \
        "$((11 << 20)) $((3 << 20)) $thread > main" || fail_with "the tree" err
    equal "--by function" "$(rows atpeak --by function --peak "$pid")" '8388608,"both"
3145728,"kept"
0,"alone"'
    stop all
    equal "of the dump" "$(rows peak,atpeak,inuse --stacks --sort peak all)" "$(echo "$expected" | sed s/,3145728,\"/,0,\"/)"
    # Spans have the peaks that they have without stacks. Each byte at the peak is in one row
    equal "without --stacks" "$("$JESPAN_CMD" report --csv --columns atpeak --sort atpeak all | sed -n 2p | cut -d, -f2)" "\"$thread\""
    [ "$("$JESPAN_CMD" report --csv --columns peak --sort peak all | sed -n 2p | cut -d, -f1)" -ge $((11 << 20)) ] || fail "the context's peak"
    equal "the sums" "$(sums all | tr ' ' '\n' | uniq | wc -l)" 1
    status=0
    for options in "--by function --sort peak" "--stacks --tree --columns peak"; do
        # shellcheck disable=SC2086
        "$JESPAN_CMD" report $options all 2> err || status=$?
        equal "$options" "$status $(sed -n '$s/.*: peaks/peaks/p' err)" \
            "2 peaks of calls are known by whole stack, with --stacks alone; atpeak adds up, and goes with --tree and --by"
    done
}

# Threads that hold memory of one stack at once have it together, and those that take turns do not.
test_threads() {
    start threads stacks:all threads
    equal "of threads" "$(rows peak,atpeak,inuse --stacks --sort peak "$pid" | grep -v deep | sed 's/"[^>]* > /"/')" '8388608,8388608,0,"hold > both"
6291456,0,0,"hold > alone"
3145728,3145728,3145728,"main > kept"'
    equal "of threads: the sums" "$(sums "$pid" | tr ' ' '\n' | uniq | wc -l)" 1
    stop threads
    equal "of the dump of threads" "$(rows peak,atpeak --stacks --peak threads | grep -v deep | cut -d, -f1,2 | tr '\n' ' ')" \
        "8388608,8388608 3145728,3145728 6291456,0 "
}

# More stacks than there are numbers: those that are recycled leave what they had at the peak to their context.
test_recycled() {
    start recycled stacks:all,max_stacks:1024 200
    [ "$("$JESPAN_CMD" ctl "$pid" get spans.stats.recycled)" -ge 30 ] || fail "nothing was recycled"
    equal "the sums, recycled" "$(sums "$pid" | tr ' ' '\n' | uniq | wc -l)" 1
    stop recycled
}

# Estimates of samples stay within the context.
test_sampled() {
    start sampled stacks:sampled,stacks_sample_bytes:1000000
    equal "the sums, sampled" "$(sums "$pid" | tr ' ' '\n' | uniq | wc -l)" 1
    stop sampled
    most=$("$JESPAN_CMD" report --csv --columns peak --sort peak sampled | sed -n 2p | cut -d, -f1)
    [ "$(rows peak --stacks --sort peak sampled | head -1 | cut -d, -f1)" -le "$most" ] || fail "more than the context"
}

# Each byte makes the program allocate.
has_reset() {
    printf x >&7
    [ "$("$JESPAN_CMD" ctl "$pid" get spans.all.peak_bytes)" -lt $((10 << 20)) ]
}

test_reset() {
    start reset stacks:all
    "$JESPAN_CMD" ctl "$pid" call spans.reset_peaks > out 2>&1 || fail_with "call spans.reset_peaks" out
    await has_reset || fail "the peaks were not reset"
    equal "after a reset" "$(rows peak,inuse --stacks --sort peak "$pid")" "3145728,3145728,\"$thread > main > kept\"
1048576,0,\"$thread > main > alone\"
0,0,\"$thread > main > both\""
    stop reset
}

test_columns() {
    local sort
    for sort in peak atpeak; do
        equal "columns of --sort $sort" "$("$JESPAN_CMD" report --stacks --sort $sort sampled 2>&1 | sed -n 2p | tr -s ' ' | sed 's/^ //')" \
            "$(tr '[:lower:]' '[:upper:]' <<< "${sort/at/at }") SHARE IN USE OBJECTS ALLOCATED CONTEXT"
    done
}

test_all
test_threads
test_recycled
test_sampled
test_columns
test_reset
finish
