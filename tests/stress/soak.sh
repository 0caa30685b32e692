#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# docstore under load for SOAK_SECONDS (20; 300 before a release): RSS stays flat, every dump is whole, no thread is left
# behind, jespan is silent, the service ends well; and when it is quiet, jespan counts what its cache holds to the byte.
#
# From 60 s on, RSS is compared between the second sixth of the time and the last. Before that, the documents are stored and the
# cache is filled for a while, since RSS settles only then. It may still settle late, so that the load goes on for the same time where
# it grew, and is compared again: what leaks grows on.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=examples/docstore/service.sh
. "$top_srcdir/examples/docstore/service.sh"

seconds=${SOAK_SECONDS:-20}
DOCSTORE=$top_builddir/examples/docstore/docstore
warm_up_seconds=$((seconds < 60 ? 2 : 20))
max_growth_percent=10
load_pid=
rss=$scratch/rss threads=$scratch/threads checked=$scratch/checked

[ "$seconds" -ge 12 ] || { echo "SOAK_SECONDS must be 12 or more" >&2 && exit 2; }
[ -x "$DOCSTORE" ] || make -s -C "$top_builddir" examples || skip "the example cannot be built"
for tool in wrk jq curl; do have $tool || skip "$tool is missing"; done

stop_all() {
    [ -z "$load_pid" ] || kill "$load_pid" 2> /dev/null || true
    service_stop
}
cleanup_hook=stop_all

# status FIELD: a number from the service's /proc status
status() {
    awk -v field="$1:" '$1 == field {print $2}' "/proc/$service_pid/status"
}

# Each dump once, soon after it came: dump_keep removes the old ones.
check_dumps() {
    local dump
    for dump in $(service_dumps "$scratch"); do
        ! grep -qxF "$dump" "$checked" || continue
        echo "$dump" >> "$checked"
        is_whole "$dump" || fail "not whole: $dump"
        "$JESPAN_CMD" report "$dump" > "$scratch/report" 2>&1 || fail_with "jespan report $dump" "$scratch/report"
    done
}

# They are numbered from 1, so that a missing one shows.
check_count() {
    local n last
    n=$(wc -l < "$checked")
    last=$(tail -n 1 "$checked")
    last=${last%.pb.gz}
    echo "dumps: $n checked"
    equal "the last dump's number" "${last##*.}" "$n"
    [ "$n" -ge $((seconds / 2)) ] || fail "too few dumps"
}

# median FILE FIRST LAST: of its lines FIRST to LAST
median() {
    sed -n "$2,$3p" "$1" | sort -n | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'
}

# under_load: for the time asked for, watched once a second
under_load() {
    "$load" --no-seed --seconds "$seconds" "$service_url" > "$scratch/load" 2>&1 &
    load_pid=$!
    check_dumps
    while kill -0 "$load_pid" 2> /dev/null; do
        sleep 1
        kill -0 "$service_pid" 2> /dev/null || break
        status VmRSS >> "$rss"
        status Threads >> "$threads"
        check_dumps
    done
    wait "$load_pid" || fail_with "the load" "$scratch/load" "$scratch/err"
    load_pid=
    tail -n 2 "$scratch/load"
}

# has_grown WHAT EARLY LATE: the RSS, by more than it may
has_grown() {
    local growth
    growth=$(awk -v a="$2" -v b="$3" 'BEGIN {printf "%.1f", (b - a) * 100 / a}')
    echo "RSS: $(($2 / 1024)) MiB in $1, $(($3 / 1024)) MiB in the last: $growth %"
    awk -v g="$growth" -v m=$max_growth_percent 'BEGIN {exit !(g > m)}'
}

check_rss() {
    local n sixth late later
    n=$(wc -l < "$rss")
    sixth=$((n / 6))
    late=$(median "$rss" $((n - sixth + 1)) "$n")
    has_grown "the second sixth" "$(median "$rss" $((sixth + 1)) $((2 * sixth)))" "$late" || return 0
    [ "$seconds" -ge 60 ] || { echo "(too short to judge RSS by)" && return; }
    under_load
    n=$(wc -l < "$rss")
    later=$(median "$rss" $((n - sixth + 1)) "$n")
    ! has_grown "the last sixth before" "$late" "$later" || fail "RSS grows and grows"
}

check_threads() {
    local counts
    counts=$(sort -n "$threads" | uniq -c | awk '{printf "%s%s (%s times)", sep, $2, $1; sep = ", "}')
    echo "threads: $counts"
    [ "$(sort -u "$threads" | wc -l)" = 1 ] || fail "the number of threads changed: $counts"
}

# last_number: of the dumps that are there
last_number() {
    local last
    last=$(service_dumps "$scratch" | tail -n 1)
    last=${last%.pb.gz}
    echo "${last##*.}"
}

# With all requests answered and their connections gone, the next but one dump is all of a quiet time.
check_cache() {
    local own credited quiet tries
    quiet=$(($(last_number) + 2))
    for ((tries = 0; tries < 6000; tries++)); do
        [ "$(last_number)" -lt $quiet ] || break
        sleep 0.1
    done
    own=$(service_cache_bytes)
    credited=$(spans_cache_bytes "$(service_dumps "$scratch" | tail -n 1)")
    echo "cache: $own bytes by its own count, $credited credited to its spans"
    equal "bytes of the cache" "$credited" "$own"
}

: > "$checked"
service_start "$scratch" --interval 1 --keep 100 || fail "docstore did not start"
[ "$failures" = 0 ] || finish
load=$top_srcdir/examples/docstore/load
"$load" --seconds $warm_up_seconds "$service_url" > "$scratch/load" 2>&1 || fail_with "the load" "$scratch/load"
under_load
check_rss
check_cache
service_stop || fail_with "docstore ended with status $?" "$scratch/err"
check_dumps
check_threads
check_count
[ ! -s "$scratch/err" ] || fail_with "something was said on stderr" "$scratch/err"
finish
