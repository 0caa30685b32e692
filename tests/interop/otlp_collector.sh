#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A real OpenTelemetry Collector accepts the pushes, and what it writes is what the program did, and what is in the heap
# dump, to the byte. collector/main.go is the collector, otlp_profiles.py reads its file.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/peers.sh
. "$top_srcdir/tests/support/peers.sh"

sources=$top_srcdir/tests/interop/collector
program=$scratch/push_program

fill_collector() {
    cd "$sources" && GOWORK=off go build -trimpath -ldflags='-s -w' -o "$1/collector" .
}

# A collector of its own for each case. It writes its file to the end when it ends.
start_collector() {
    collector=http://127.0.0.1:$(free_port)
    rm -f "$scratch/pushes" "$scratch/collector.log" # else the words of the one before would do
    cat > "$scratch/collector.yml" << END
receivers: {otlp: {protocols: {http: {endpoint: "${collector#http://}"}}}}
exporters: {file: {path: "$scratch/pushes"}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {profiles: {receivers: [otlp], exporters: [file]}}
END
    "$built/collector" --config "$scratch/collector.yml" --feature-gates=service.profilesSupport > "$scratch/collector.log" 2>&1 &
    collector_pid=$!
    pids+=($!)
    wait_for "the collector" "$scratch/collector.log" grep -q "Everything is ready" "$scratch/collector.log"
}

end_collector() {
    kill "$collector_pid"
    wait "$collector_pid" || fail_with "the collector failed" "$scratch/collector.log"
    pids=()
}

# run COMMAND…: the program prints its figures, and nobody says anything
run() {
    "$@" > "$scratch/figures" 2> "$scratch/said" || fail_with "the program failed" "$scratch/said"
    [ ! -s "$scratch/said" ] || fail_with "the program has something to say" "$scratch/said"
    end_collector
}

collected() {
    python3 -B "$top_srcdir/tests/interop/otlp_profiles.py" "$scratch/pushes" "$1" 2> "$scratch/wrong" ||
        fail_with "the pushes are wrong" "$scratch/wrong"
}

# check_figures NAME: of each span the memory, and the times within a microsecond and a hundredth: the rate of the clock is known
# better at each reading. A push may have read the CPU time of a thread while it was preempted, and counted the wait. What was pushed
# stays, so CPU time may be larger than the program's last figure, up to the wall time.
check_figures() {
    equal "$1: memory by span" "$(collected figures | cut -d' ' -f-5)" "$(cut -d' ' -f-5 "$scratch/figures")"
    paste -d' ' <(collected figures | cut -d' ' -f6-) <(cut -d' ' -f6- "$scratch/figures") > "$scratch/times"
    awk 'function differ(a, b) { return (a > b ? a - b : b - a) > 1000 + b / 100 }
        NF != 4 || (differ($1, $3) && ($1 < $3 || ($1 > $4 && differ($1, $4)))) || differ($2, $4) { wrong = 1 } END { exit wrong || !NR }' "$scratch/times" ||
        fail_with "$1: times by span" "$scratch/times"
}

# check_dump NAME DIRECTORY: the only push has what the dump at exit has
check_dump() {
    local dump
    dump=$(ls "$2"/heap.*.pb.gz)
    equal "$1: pushes" "$(wc -l < "$scratch/pushes")" 1
    equal "$1: samples" "$(collected stacks)" \
        "$(python3 -B "$top_srcdir/tests/interop/otlp_profiles.py" "$dump" dump)"
}

check_in_process() {
    local conf=module_dir:$JESPAN_MODULES,track_time:cpu
    start_collector
    mkdir "$scratch/dumps"
    run env JESPAN_CONF="$conf,otlp_url:$collector,otlp_interval_ms:3600000,dump_at_exit:true,dump_dir:$scratch/dumps" "$program" 8 1 0
    check_figures "one push"
    check_dump "one push" "$scratch/dumps"
    start_collector
    run env JESPAN_CONF="$conf,otlp_url:$collector,otlp_interval_ms:200" "$program" 8 8 150
    check_figures "many pushes"
    [ "$(wc -l < "$scratch/pushes")" -ge 3 ] || fail "many pushes: only $(wc -l < "$scratch/pushes")"
}

# The sidecar pushes for the program.
check_sidecar() {
    start_collector
    run "$JESPAN_CMD" run --quiet --otlp "$collector" --time --dump-dir "$scratch/beside" --interval 0 --conf otlp_interval_ms:3600000 -- \
        "$program" 8 1 0
    check_figures "sidecar"
    check_dump "sidecar" "$scratch/beside"
    start_collector
    run "$JESPAN_CMD" run --quiet --otlp "$collector" --stacks --time --conf otlp_interval_ms:3600000,otlp_exit_timeout_ms:60000 -- "$program" 8 8 0
    check_figures "calls"
    collected stacks > "$scratch/calls"
    grep -q 'request.*parse.*run.*serve.*parse' "$scratch/calls" || fail_with "calls: no functions below the spans" "$scratch/calls"
}

check_resource() {
    start_collector
    run env OTEL_SERVICE_NAME=by-otel OTEL_RESOURCE_ATTRIBUTES='service.name=other,deployment.environment.name=a%20b' \
        OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT="$collector/v1development/profiles" \
        JESPAN_CONF="module_dir:$JESPAN_MODULES" "$program" 1 1 0
    equal "resource" "$(collected resource | sed 's/^\(process.pid=\)[1-9][0-9]*$/\1PID/')" "$(printf '%s\n' \
        'deployment.environment.name=a b' "host.name=$(uname -n)" process.executable.name=push_program process.pid=PID \
        service.name=by-otel)"
}

require_go 26 "$sources"
build_once "collector-$(cat "$sources"/* | sha256sum | cut -c1-16)" fill_collector
compile "$program" tests/interop/push_program.c
check_in_process
check_sidecar
check_resource
finish
