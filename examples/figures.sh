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
        "$(awk '$2 == "within" {print $1, $3, $5}' "$2")"
    [ "$(memory_of "$2" | awk '$2 > 0 && $3 > 0' | wc -l)" -ge 4 ] || fail_with "there are no figures" "$2"
}

# check_times FILE: jespan's times lie between those that the program measured within jespan's calls and around them.
# Ticks are converted with a rate that is exact to 1 ‰. Run the program with cpu_clock:thread: by rseq, what a hypervisor
# takes counts as CPU time until the next reading.
check_times() {
    local wrong
    [ "$(grep -c ' around ' "$1")" -ge 4 ] || fail_with "there are no times" "$1"
    wrong=$(awk '
        BEGIN {split("wall busy idle cpu", names)}
        $2 == "jespan" {for (i = 1; i <= 4; i++) is[i] = $(i + 5)}
        $2 == "within" {for (i = 1; i <= 4; i++) least[i] = $(i + 5)}
        $2 == "around" {
            for (i = 1; i <= 4; i++) {
                most = $(i + 5)
                # Idle time is wall time without busy time, and has the inaccuracy of both.
                off = 0.005 + (i == 3 ? $6 + $7 : most) / 1000
                if (is[i] < least[i] - off || is[i] > most + off)
                    print $1, names[i], is[i], "ms by jespan; by the program from", least[i], "to", most
            }
        }' "$1")
    [ -z "$wrong" ] || fail "${1##*/}: $wrong"
}
