#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A program that closes all descriptors finds its own files as it left them, and services go on with new ones.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

cleanup_hook=end_server
server_pid=''

end_server() {
    [ -z "$server_pid" ] || kill "$server_pid" 2> /dev/null || true
}

# closes WHEN-MS SERVER: whether its files are its own, and what it says otherwise
closes() {
    local name=$scratch/$1-$2
    mkdir -p "$name"
    JESPAN_CONF=module_dir:$JESPAN_MODULES,pyroscope_url:$url,pyroscope_interval_ms:100,http_listen:127.0.0.1:0 \
        "$program" "$name" "$1" > "$name.out" 2> "$name.err" || fail_with "closed after $1 ms: status $?" "$name.err"
    equal "closed after $1 ms" "$(cat "$name.out")" own
    grep -v "http_listen: '127.0.0.1:0': listens on port " "$name.err" > "$name.rest" || true
}

start_server() {
    end_server
    rm -f "$scratch/ports"
    python3 -B "$top_srcdir/tests/support/fault_server.py" "$scratch/ports" > "$scratch/server" 2>&1 &
    server_pid=$!
    await [ -s "$scratch/ports" ] || fail_with "the server does not start" "$scratch/server"
    read -r port control < "$scratch/ports"
    url=http://127.0.0.1:$port
}

try() {
    local when
    failures=0
    start_server
    for when in 0 50 150; do
        closes "$when" ok
        [ ! -s "$scratch/$when-ok.rest" ] || fail_with "closed after $when ms: says" "$scratch/$when-ok.rest"
    done
    # All that the three did is there, though a cut may have come at any moment.
    curl -sS "http://127.0.0.1:$control/sums" > "$scratch/sums"
    equal "what the server got" "$(awk '$1 == "work{}" && $2 == "alloc_objects" { print $3 }' "$scratch/sums")" 60
    curl -sS "http://127.0.0.1:$control/control?mode=hang" > /dev/null
    for when in 150 300; do
        closes "$when" hang
    done
    [ "$failures" = 0 ]
}

# A thread may lose its processor between its look at its descriptors and their use: then one of some tries is right.
program=$scratch/program
compile "$program" tests/integration/closes_all_program.c
for _ in 1 2 3 4 5; do
    ! try || break
done
finish
