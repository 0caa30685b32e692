#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Callers who mean no good: the service http answers or closes, and the program goes on at its own rate.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/http.sh
. "$(dirname "$0")/../support/http.sh"

have curl || skip "curl is not installed"
have python3 || skip "Python is not installed"
[ -f "$JESPAN_MODULES/http.so" ] || skip "built without the service http"
program=$scratch/http_program
compile "$program" tests/integration/http_program.c

attack() {
    python3 "$top_srcdir/tests/integration/http_hostile.py" "${base##*:}" "$1" > "$scratch/$1" 2>&1 ||
        fail_with "$1" "$scratch/$1"
}

# After each there is an answer again, soon. Who is slow has 10 s, where there is room for others.
check_attacks() {
    local name slow
    attack slow &
    slow=$!
    for name in pipelined paths garbage half_closed arguments leave huge deaf many; do
        [ $name != many ] || wait "$slow"
        attack $name
        ask /healthz --retry 10 --retry-connrefused --max-time 600 > /dev/null
        equal "health after $name" "$(cat "$scratch/body")" ok
    done
    [ "$failures" = 0 ] && [ ! -s "$scratch/slow" ]
}

resident_kb() {
    awk '/^VmRSS/ { print $2 }' "/proc/$program_pid/status"
}

count_sockets() {
    find "/proc/$program_pid/fd" -lname 'socket:*' -printf x | wc -c
}

few_sockets() {
    [ "$(count_sockets)" -le "$1" ]
}

start_program http_max_series:100
tell turns 2
quiet=$word
before=$(resident_kb)
sockets_before=$(count_sockets)
check_attacks &
attacks=$!
# It shares the processors with its attackers, and others: a standstill is what would be wrong.
tell turns 4
[ "$word" -gt $((quiet / 50)) ] || fail "under attack the program made $word turns in 4 s, before $quiet in 2 s"
wait "$attacks" || fail "attacks"
after=$(resident_kb)
[ $((after - before)) -lt 65536 ] || fail "the program took $before kB before, $after kB after"
equal "lines on stderr" "$(wc -l < "$scratch/said")" 1
# Who asked and went is answered even so, and a half request has 10 s; of those that wait the kernel knows after a minute
# that they are gone: 8 may be left.
await few_sockets $((sockets_before + 8)) || fail "$(count_sockets) sockets are open, before $sockets_before"
end_program
finish
