#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A day of pushing in DAY_SECONDS (10; 288 has the 5,760 periods of a day): 100,000 spans pass, each with labels of its own, 500
# stay, and in each half the server is away for a while. No limit is passed, nothing is lost, own memory and RSS are the
# same after both halves. Beside it, with 100,000 spans that stay: what a period costs of CPU, of which 150 ms are 1 % of a
# core at the default interval; as other tests run meanwhile, only far more than that is a failure.
# shellcheck source=tests/support/faults.sh
. "$(dirname "$0")/../support/faults.sh"

seconds=${DAY_SECONDS:-10}
max_growth_percent=5
max_cpu_ms=${DAY_MAX_CPU_MS:-2000}

compile "$program" tests/stress/pyroscope_program.c

# sleep_until PERCENT: of the time
sleep_until() {
    local left_ms=$((began_ms + seconds * $1 * 10 - ${EPOCHREALTIME/[.,]/} / 1000))
    [ "$left_ms" -le 0 ] || sleep "$((left_ms / 1000)).$(printf %03d $((left_ms % 1000)))"
}

# away FROM TO MODE: that is how the server is between these percentages of the time
away() {
    sleep_until "$1"
    ask day "control?mode=$3" > /dev/null
    sleep_until "$2"
    ask day "control?mode=ok" > /dev/null
}

# flat FIELD NAME: what was there after the first half, after the second too, but for a little
flat() {
    local levels
    read -r -d '' -a levels < <(awk -v field="$1" '$1 == "level" {print $field}' "$scratch/day/out") || true
    echo "$2: ${levels[0]}, and later ${levels[1]}"
    [ "${levels[1]}" -le $((levels[0] * (100 + max_growth_percent) / 100)) ] ||
        fail "$2 grew from ${levels[0]} to ${levels[1]}"
}

# sum PATTERN TYPE: of what the server accepted
sum() {
    awk -v pattern="$1" -v kind="$2" '$0 ~ pattern && $(NF - 1) == kind {sum += $NF} END {printf "%.0f", sum}' \
        "$scratch/day/sums"
}

# Contexts of spans that are over are recycled, and then told as (retired).
check_day() {
    local total periods
    unharmed day
    total=$(sed -n 's/^total //p' "$scratch/day/out")
    equal "objects and bytes" \
        "$(sum '^(day_request|[(]retired[)])' alloc_objects) $(sum '^(day_request|[(]retired[)])' alloc_space)" "$total"
    equal "objects in use" "$(sum '^day_request' inuse_objects)" 500
    periods=$(awk 'NF > 4 {print substr($5, 1, 35)}' "$scratch/day/log" | sort -u | wc -l)
    echo "periods: $periods, largest profiles: $(tr '\n' ' ' < "$scratch/day/most")"
    [ "$periods" -ge $((seconds / 2)) ] || fail "only $periods periods"
    flat 2 "own memory"
    flat 3 "RSS"
}

check_cpu() {
    local ms
    unharmed cpu
    grep -q '^samples 1[0-9][0-9][0-9][0-9]$' "$scratch/cpu/most" || fail_with "cpu: not many samples" "$scratch/cpu/most"
    ms=$(awk '$1 == "cpu" && $2 >= 3 { if (!from) {from = $3; pushes = $2} last = $3; n = $2 - pushes}
        END {printf "%.0f", n ? (last - from) / 1000 / (n / 3) : 99999}' "$scratch/cpu/out")
    echo "CPU time of a period with 100,000 spans: $ms ms"
    [ "$ms" -le "$max_cpu_ms" ] || fail "a period costs $ms ms of CPU"
}

server_options=(--brief --seconds $((2 * seconds + 3600)))
case_seconds=$((2 * seconds + 600))
began_ms=$((${EPOCHREALTIME/[.,]/} / 1000))
# What is free goes back at once, so that RSS is what is kept.
MALLOC_CONF=dirty_decay_ms:0,muzzy_decay_ms:0 \
    begin day pyroscope_interval_ms:50,max_contexts:2048,pyroscope_queue_bytes:2000000 500 100000 "$seconds"
begin cpu pyroscope_interval_ms:1000 100000 0 8
away 15 25 refuse
away 65 75 'status&status=503'
finish_cases
check_day
check_cpu
finish
