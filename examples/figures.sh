# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash
# For the check scripts of the examples: compares the figures that an example prints (figures.h). Sourced after
# tests/support/lib.sh.

# memory_of FILE: context, count, bytes allocated and in use, as jespan counts
memory_of() {
    awk '$2 == "jespan" {print $1, $3, $4, $5}' "$1"
}

# check_memory SEQUENTIAL ASYNC: both have the same bytes, and the bytes in use are those that the program keeps
check_memory() {
    equal "memory, counted in ${2##*/}" "$(memory_of "$2")" "$(memory_of "$1")"
    equal "memory kept by ${2##*/}" "$(awk '$2 == "jespan" {print $1, $3, $5}' "$2")" \
        "$(awk '$2 == "program" {print $1, $3, $5}' "$2")"
    [ "$(memory_of "$2" | awk '$2 > 0 && $3 > 0' | wc -l)" -ge 4 ] || fail_with "there are no figures" "$2"
}

# times_differ FILE: the times of jespan that differ from the program's own by more than 1 % and 0.05 ms, about one
# clock reading per request. Idle time is a difference of two times, so it may differ by 1 % of their sum.
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

# check_times FILE PROGRAM ARGUMENT: each figure must be right in one of five runs. A thread may lose the processor
# between its own clock reading and that of jespan, and then the two differ. The output of each run goes to FILE.
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
