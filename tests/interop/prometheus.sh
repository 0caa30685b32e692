#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A real Prometheus scrapes a program whose spans, arenas and threads have equal names and labels: it keeps every sample of
# the page, and sums that it is asked for are the program's own.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/http.sh
. "$(dirname "$0")/../support/http.sh"
# shellcheck source=tests/support/fetched.sh
. "$top_srcdir/tests/support/fetched.sh"

PARSER_VERSION=0.26.0

fill_parser() {
    python3 -m venv "$1" && "$1/bin/pip" install -q --only-binary :all: "prometheus_client==$PARSER_VERSION"
}

need curl python3 prometheus promtool
python3 -c 'import ensurepip, venv' 2> /dev/null || skip "Python's venv is missing, so Prometheus's parser cannot be had"
[ -f "$JESPAN_MODULES/http.so" ] || skip "built without the service http"
build_once "prometheus-client-$PARSER_VERSION" fill_parser
program=$scratch/prometheus_program
compile "$program" tests/interop/prometheus_program.c
prometheus_pid=

# shellcheck disable=SC2317
end_all() {
    kill_program
    [ -z "$prometheus_pid" ] || kill "$prometheus_pid" 2> /dev/null || true
}
cleanup_hook=end_all

start() {
    local line
    : > "$scratch/said"
    coproc PROGRAM { JESPAN_CONF=module_dir:$JESPAN_MODULES,http_listen:127.0.0.1:0,$1 exec "$program" 2>> "$scratch/said"; }
    program_pid=$PROGRAM_PID
    program_in=${PROGRAM[1]} program_out=${PROGRAM[0]}
    : > "$scratch/expected"
    while read -r -t 600 line <&"$program_out" && [ "$line" != ready ]; do echo "$line" >> "$scratch/expected"; done
    equal "the program's last word" "$line" ready
    find_base 127.0.0.1:0
}

start_prometheus() {
    local port
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    server=http://127.0.0.1:$port
    cat > "$scratch/prometheus.yml" << END
global: {scrape_interval: 1s}
scrape_configs: [{job_name: app, static_configs: [{targets: ["${base#http://}"]}]}]
END
    prometheus --config.file="$scratch/prometheus.yml" --storage.tsdb.path="$scratch/tsdb" \
        --web.listen-address="${server#http://}" > "$scratch/log" 2>&1 &
    prometheus_pid=$!
    await curl -fsS "$server/-/ready" || fail_with "Prometheus does not start" "$scratch/log"
}

start 'series_labels:tenant|route|a-b|a.b|a_b|span|job,arena:tenant=by:tenant,limit:limited=1M'
ask /metrics > "$scratch/metrics"
promtool check metrics < "$scratch/metrics" > "$scratch/promtool" 2>&1 || fail_with "promtool" "$scratch/promtool"
start_prometheus
"$built/bin/python" -B "$top_srcdir/tests/interop/prometheus.py" "${base#http://}" "$server" "$scratch/log" "$scratch/expected" \
    > "$scratch/wrong" 2>&1 || fail_with "Prometheus" "$scratch/wrong"
equal "lines on stderr" "$(wc -l < "$scratch/said")" 1
end_program
finish
