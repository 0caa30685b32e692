#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The current Pyroscope server (version 2), of which tests/support/pushed.py has a mock after its sources: it takes half a second
# for a request, takes the series of one each by itself, says 400 to what is too large, and knows no IDs. Nothing is lost, nothing
# is counted twice but by a push whose answer is lost, and stderr stays quiet.
# shellcheck source=tests/support/faults.sh
. "$(dirname "$0")/../support/faults.sh"

compile "$program" tests/integration/pyroscope_program.c -Wno-missing-field-initializers

slow='mode=v2&delay=0.5'

# requests NAME: how many there were
requests() {
    grep -c '^POST ' "$scratch/$1/heads"
}

# All profiles of a period go in one request, so a server that is slow is not slower for there being three.
try_slow_server() {
    begin one_request pyroscope_interval_ms:1000 control "$slow" run 1500 figures stats status 7 end
    begin short pyroscope_interval_ms:60000 control "$slow" status 7 end
    begin behind "" control "$slow" run 5000 stats figures status 7 end
    finish_cases
    for name in one_request behind; do
        unharmed $name 7
        same_figures $name
        said $name 0 .
        equal "$name: lines that ended with the program" "$(stat_of $name failures)" 0
    done
    equal "one_request: profiles in each" "$(awk '{print NF - 4}' "$scratch/one_request/log" | sort -u)" 3
    equal "short: requests" "$(requests short)" 1
    least behind merged 3
    most behind queue_length 9 # as many as there are in a push that takes half a second, and three
}

# What was taken of a request is not sent again.
try_parts() {
    local labels=series_labels:span_id,pyroscope_interval_ms:60000,pyroscope_exit_timeout_ms:600000,shutdown_timeout_ms:600000
    begin cpu_429 "" run 200 control 'mode=v2&refuse=process_cpu&status=429' run 100 meet control mode=v2 run 200 settle figures stats
    begin memory_500 "" run 200 control 'mode=v2&refuse=memory&status=500' run 100 meet control mode=v2 run 200 settle figures stats
    begin wall_400 "" run 200 control 'mode=v2&refuse=wall' run 100 meet control mode=v2 run 200 settle figures stats
    begin samples "$labels" control 'mode=v2&samples=300' distinct 1000 status 7 end
    begin samples_413 "$labels" control 'mode=status&status=413&times=2' distinct 1000 status 7 end
    begin samples_any "$labels" control 'mode=status&status=400&times=1' distinct 1000 status 7 end
    begin unread "$labels" control 'mode=v2&bytes=20000' distinct 1000 status 7 end
    finish_cases
    for name in cpu_429 memory_500 wall_400; do
        unharmed $name
        same_figures $name
        said $name 1 "^jespan: pyroscope: HTTP [0-9]+: \{\"code\".*push series with index .* only counted for 10 minutes$"
    done
    for name in samples samples_413 samples_any unread; do
        unharmed $name 7
        equal "$name: what was allocated" \
            "$(awk '/^fault_distinct\{.*alloc_objects/ {sum += $NF} END {print sum}' "$scratch/$name/sums")" 1000
        said $name 0 .
        awk '$3 ~ /^4/ {refused++} END {exit !refused}' "$scratch/$name/log" || fail_with "$name: nothing was refused" "$scratch/$name/log"
    done
}

# After an answer that was lost the figures are there twice, or not sent again, as the user likes.
try_lost_answers() {
    local lost=(run 300 control 'mode=v2&lost=1&times=1' run 100 wait uncertain 1 control mode=v2 run 300 settle figures stats)
    begin retry "" "${lost[@]}"
    begin drop pyroscope_uncertain:drop "${lost[@]}"
    begin drop_unsent pyroscope_uncertain:drop,pyroscope_interval_ms:1000 control mode=refuse run 100 meet control mode=v2 settle figures stats
    begin drop_503 pyroscope_uncertain:drop run 300 control 'mode=status&status=503' run 100 meet control mode=v2 settle figures stats
    finish_cases
    for name in retry drop drop_unsent drop_503; do
        unharmed $name
    done
    for name in drop drop_unsent drop_503; do
        same_figures $name
    done
    equal "retry: uncertain" "$(stat_of retry uncertain) $(stat_of retry dropped)" "1 0"
    equal "drop: uncertain" "$(stat_of drop uncertain) $(stat_of drop dropped)" "1 1"
    equal "drop_unsent: uncertain" "$(stat_of drop_unsent uncertain) $(stat_of drop_unsent dropped)" "0 0"
    equal "drop_503: uncertain" "$(stat_of drop_503 uncertain) $(stat_of drop_503 dropped)" "0 0"
    said retry 1 "^jespan: pyroscope: .*; it is tried again, more"
    said drop 1 "^jespan: pyroscope: .*; the server may have it, so it is not tried again \(pyroscope_uncertain:drop\), more"
    own=$(own_figures retry | awk '/alloc_objects/ {sum += $NF} END {print sum}')
    there=$(awk '/^fault_.* alloc_objects/ {sum += $NF} END {print sum}' "$scratch/retry/sums")
    [ "$there" -gt "$own" ] || fail "retry: the server has $there objects, and the program $own: is the mock one?"
}

# Errors between successes are said once; a loss is said whatever was said before.
try_messages() {
    local turns=(run 200) i
    for ((i = 0; i < 6; i++)); do
        turns+=(control 'mode=status&status=429&times=1' wait failures $((i + 1)) settle)
    done
    begin turns "" "${turns[@]}" stats
    begin loss "" "${turns[@]}" control 'mode=status&status=429&retry_after=60' run 200 status 7 end
    begin bounded pyroscope_exit_timeout_ms:300,pyroscope_timeout_ms:600000,shutdown_timeout_ms:600000 run 200 control mode=hang run 200 status 7 end
    begin rate_limit pyroscope_interval_ms:60000,pyroscope_exit_timeout_ms:600000,shutdown_timeout_ms:600000 run 200 figures control 'mode=status&status=429&times=2' status 7 end
    finish_cases
    unharmed turns
    least turns failures 6
    said turns 1 "^jespan: pyroscope: HTTP 429: this is a test; it is tried again, more errors"
    equal "loss: lines" "$(sed 's/[0-9]* s are/N s are/' "$scratch/loss/err")" \
"jespan: pyroscope: HTTP 429: this is a test; it is tried again, more errors like this are only counted for 10 minutes
jespan: pyroscope: HTTP 429: this is a test; the program ends before all was pushed: the figures of its last N s are lost"
    [ "$(took_to_end bounded)" -ge 200 ] || fail "bounded: it took $(took_to_end bounded) ms to end"
    said bounded 1 "s may be lost$"
    unharmed rate_limit 7
    same_figures rate_limit " cpu | wall " # those go on
    said rate_limit 0 .
}

# Memory in use is in one push in so many.
try_inuse() {
    begin every pyroscope_inuse_interval_ms:0 run 1000 settle stats
    begin each_second pyroscope_inuse_interval_ms:1000 run 3500 settle stats
    begin at_end_only pyroscope_inuse_interval_ms:60000 run 500 figures
    finish_cases
    equal "every: profiles without" "$(grep -c '^without' "$scratch/every/most" || true)" 0
    told=$(sed -n 's/^with_inuse //p' "$scratch/each_second/most")
    [ "$told" -ge 2 ] && [ "$(grep -c '^without' "$scratch/each_second/most")" -gt 0 ] ||
        fail_with "each_second: told $told times" "$scratch/each_second/most"
    equal "at_end_only: told" "$(sed -n 's/^with_inuse //p' "$scratch/at_end_only/most")" 1
    same_figures at_end_only " cpu | wall "
}

try_slow_server
try_parts
try_lost_answers
try_messages
try_inuse
finish
