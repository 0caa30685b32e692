#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# What is pushed by /ingest is stored by a real Pyroscope server, and what it says when it is asked for a span is what
# jespan says itself.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/pyroscope.sh
. "$(dirname "$0")/../support/pyroscope.sh"

start_server
program=$scratch/push_program
compile "$program" tests/interop/push_program.c

# The server's time goes in steps of 10 s, and what was long under way counts in parts for each: some period is to begin
# before a step and to end after it.
wait_for_step() {
    sleep "$(date +%s.%N | awk '{ printf "%.3f", (19.3 - $1 % 10) % 10 }')"
    step=$(($(date +%s) / 10 * 10 + 10))
}

run() {
    local options=module_dir:$JESPAN_MODULES,pyroscope_interval_ms:200,pyroscope_url:$server,pyroscope_api:ingest
    JESPAN_CONF=$options,pyroscope_app:shop,series_labels:route,pyroscope_labels:region=eu "$program" 8 150 \
        > "$scratch/figures" 2> "$scratch/said" || fail_with "the program failed" "$scratch/said"
    [ ! -s "$scratch/said" ] || fail_with "the program has something to say" "$scratch/said"
}

# check_figure COLUMN TYPE [LINES [FROM UNTIL]]: of each span, or those that are found
check_figure() {
    grep -e "${3-.}" "$scratch/figures" | cut -d' ' -f"1,$1" |
        sed "s/^\([^ ]*\)/shop.$2{span_id=\"\1\"}/" > "$scratch/expected"
    equal "$2 by span, ${*:4}" "$(sed 's/ .*//' "$scratch/expected" | stored "${@:4}")" "$(cat "$scratch/expected")"
}

# In use is an average: right of what does not change.
check_in_use() {
    local column=4 type
    for type in inuse_objects inuse_space; do
        check_figure "$column" "$type" "$steady"
        check_figure "$column" "$type" "$steady" $((step - 10)) "$step"
        check_figure "$column" "$type" "$steady" "$step" $((step + 10))
        column=$((column + 1))
    done
}

# values LABEL: that the server knows of it, but for those that differ from run to run
values() {
    curl -fsS "$server/label-values?label=$1" | python3 -c 'import json, sys; print(*sorted(json.load(sys.stdin)), sep="\n")'
}

check_labels() {
    local steady_total
    steady_total=$(grep "$steady" "$scratch/figures" | cut -d' ' -f3)
    equal "labels" "$(curl -fsS "$server/labels" | python3 -c 'import json, sys; print(*sorted(json.load(sys.stdin)))')" \
        "__name__ __session_id__ hostname pid region route service_name span_id trace_id"
    equal "route" "$(values route)" $'/a\n/b?c=d\n/steady'
    equal "hostname" "$(values hostname)" "$(uname -n)"
    equal "region, route" "$(echo 'shop.alloc_space{region="eu",route="/steady"}' | stored)" \
        "shop.alloc_space{region=\"eu\",route=\"/steady\"} $steady_total"
    equal "stacks" "$(collapsed "shop.alloc_objects{route=\"/a\"}" | cut -d' ' -f1)" $'request\nrequest;parse'
}

steady=0000000dabcdef0c
wait_for_step
run
check_figure 2 alloc_objects
check_figure 3 alloc_space
check_figure 6 cpu
check_figure 7 wall
check_in_use
check_labels
finish
