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

# The server keeps up to 100 figures of spans that it has not stored yet, and forgets without a word what is more: few spans.
run() {
    local options=module_dir:$JESPAN_MODULES,pyroscope_interval_ms:300,pyroscope_inuse_interval_ms:0,pyroscope_url:$server,pyroscope_api:ingest
    JESPAN_CONF=$options,pyroscope_app:shop,'series_labels:route|span_id|trace_id',pyroscope_labels:region=eu "$program" 1 10 150 \
        > "$scratch/figures" 2> "$scratch/said" || fail_with "the program failed" "$scratch/said"
    [ ! -s "$scratch/said" ] || fail_with "the program has something to say" "$scratch/said"
}

# The same from the sidecar, under another name.
run_beside() {
    local options=pyroscope_interval_ms:300,pyroscope_api:ingest,series_labels:span_id
    "$JESPAN_CMD" run --quiet --pyroscope "$server" --app beside --conf "$options" -- "$program" 1 10 150 \
        > "$scratch/figures" 2> "$scratch/said" || fail_with "the program with a sidecar failed" "$scratch/said"
    [ ! -s "$scratch/said" ] || fail_with "the program with a sidecar, or the sidecar, has something to say" "$scratch/said"
}

# check_stored WHAT [FROM UNTIL]: what is expected, a line "QUERY FIGURE" each, is there, or soon will be
check_stored() {
    local i
    for ((i = 0; i < 6000; i++)); do
        sed 's/ [0-9]*$//' "$scratch/expected" | stored "${@:2}" > "$scratch/stored"
        cmp -s "$scratch/stored" "$scratch/expected" && return
        sleep 0.1
    done
    curl -fsS "$server/metrics" | grep ^pyroscope_ingestion_queue_discarded_total >&2
    equal "$*" "$(cat "$scratch/stored")" "$(cat "$scratch/expected")"
}

# check_figure COLUMN TYPE [LINES [FROM UNTIL]]: of each span, or those that are found
check_figure() {
    grep -e "${3-.}" "$scratch/figures" | cut -d' ' -f"1,$1" |
        sed "s/^\([^ ]*\)/$app.$2{span_id=\"\1\"}/" > "$scratch/expected"
    check_stored "$2 by span" "${@:4}"
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
    equal "labels" "$(curl -fsS "$server/labels" | python3 -c 'import json, sys; print(*sorted(json.load(sys.stdin)))')" \
        "__name__ __session_id__ hostname pid region route service_name span_id trace_id"
    equal "route" "$(values route)" $'/a\n/b?c=d\n/steady'
    equal "hostname" "$(values hostname)" "$(uname -n)"
    echo "shop.alloc_space{region=\"eu\",route=\"/steady\"} $(grep "$steady" "$scratch/figures" | cut -d' ' -f3)" \
        > "$scratch/expected"
    check_stored "by other labels"
    equal "stacks" "$(collapsed "shop.alloc_objects{route=\"/a\"}" | cut -d' ' -f1)" $'request\nrequest;parse'
}

steady=00000004abcdef03
app=shop
wait_for_step
run
check_figure 2 alloc_objects
check_figure 3 alloc_space
check_figure 6 cpu
check_figure 7 wall
check_in_use
check_labels
run_beside
app=beside
check_figure 2 alloc_objects
check_figure 3 alloc_space
finish
