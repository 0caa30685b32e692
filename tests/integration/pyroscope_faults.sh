#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A Pyroscope server that refuses, hangs, resets, complains, crawls, lies, sends elsewhere or is gone for a while: the program
# is not slower for it, ends as it would and in time; and when the server is back, it has what the program did, nothing lost or
# doubled, to the byte. Figures and messages say what happened. TLS and credentials: pyroscope_security.sh.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/faults.sh
. "$top_srcdir/tests/support/faults.sh"

compile "$program" tests/integration/pyroscope_program.c -Wno-missing-field-initializers

# through NAME CONF MODE…: quiet work, then under each mode for a while, then quiet work again
through() {
    local name=$1 conf=$2 actions=()
    shift 2
    for mode in "$@"; do
        actions+=(control "mode=$mode" run 700)
    done
    begin "$name" "$conf" run 500 "${actions[@]}" control mode=ok run 200 settle figures stats status 7 end
}

# passed NAME FAILURES PATTERN: what must be true of all of these
passed() {
    unharmed "$1" 7
    same_figures "$1"
    least "$1" failures "$2"
    equal "$1: rejected" "$(stat_of "$1" rejected)" "${4-0}"
    equal "$1: last_status" "$(stat_of "$1" last_status)" 200
    equal "$1: last_error" "$(stat_of "$1" last_error)" ""
    equal "$1: pushes, but for those of the end" \
        "$(awk '$3 == 200' "$scratch/$1/log" | wc -l)" "$(($(stat_of "$1" pushes) + 3 + ${5-0}))"
    said "$1" "$6" "$3"
    [ "$(took_to_end "$1")" -lt 1500 ] || fail "$1: it took $(took_to_end "$1") ms to end"
}

try_connections() {
    through refuse "" refuse
    through refuse_ingest pyroscope_api:ingest refuse
    through hang "" hang
    through hang_after "" hang_after
    through hang_stored "" 'hang_after&stored=1'
    through reset "" reset
    through reset_in_body "" reset_in_body
    through reset_after "" reset_after
    through reset_stored "" 'reset_after&stored=1'
    finish_cases
    for name in refuse refuse_ingest hang hang_after hang_stored reset reset_in_body reset_after reset_stored; do
        passed $name 1 .
        cat $scratch/$name/err
        grep ^stat "$scratch/$name/out" | tr '\n' ' '
    done
}
try_connections
finish
