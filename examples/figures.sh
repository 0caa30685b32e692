# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For the examples' check scripts: compares the figures that an example prints (see figures.h). After tests/support/lib.sh.

# memory_of FILE: context, count, bytes allocated and in use, by jespan
memory_of() {
    awk '$2 == "jespan" {print $1, $3, $4, $5}' "$1"
}

# check_memory SEQUENTIAL ASYNC: the same to the byte, and what is in use is what the program says that it keeps
check_memory() {
    equal "memory, counted in ${2##*/}" "$(memory_of "$2")" "$(memory_of "$1")"
    equal "memory kept by ${2##*/}" "$(awk '$2 == "jespan" {print $1, $3, $5}' "$2")" \
        "$(awk '$2 == "program" {print $1, $3, $5}' "$2")"
    [ "$(memory_of "$2" | awk '$2 > 0 && $3 > 0' | wc -l)" -ge 4 ] || fail_with "there are no figures" "$2"
}

# times_differ FILE: the times of jespan's that are not within 1 % (and 0.05 ms, which is the order of a clock read a
# request) of the program's own. Idle time is a difference of two, so that 1 % of their sum is what it may be off.
times_differ() {
    awk '
        function judge(what, is, should, of, off) {
            off = is > should ? is - should : should - is
            if (is < 0 || off > of / 100 + 0.05)
                print $1, what, is, "ms by jespan,", should, "ms by the program"
        }
        $2 == "jespan" {for (i = 6; i <= 9; i++) figure[$1, i] = $i}
        $2 == "program" {
            judge("wall", figure[$1, 6], $6, $6)
            judge("busy", figure[$1, 7], $7, $7)
            judge("idle", figure[$1, 8], $8, $6 + $7)
            judge("cpu", figure[$1, 9], $9, $9)
        }' "$1"
}

# check_times FILE PROGRAM ARGUMENT: a thread that loses the processor between its own clock read and jespan's makes the two
# differ, so that each figure is to be right in one of five runs. What each prints goes to FILE.
check_times() {
    local file=$1 run always_wrong
    shift
    : > "$file.wrong"
    for run in 1 2 3 4 5; do
        "$@" > "$file" || fail "$*: status $?"
        times_differ "$file" >> "$file.wrong"
        always_wrong=$(awk -v runs="$run" '++times[$1, $2] == runs' "$file.wrong")
        [ -n "$always_wrong" ] || return 0
    done
    fail "in each of five runs, the last: $*"$'\n'"$always_wrong"
}
