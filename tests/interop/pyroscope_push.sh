#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Pyroscope's published code accepts the pushes by push.v1, and they add up to jespan's own figures, span by span.
# judge/main.go and judge/check.go say what the judge is and what it refuses.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/pyroscope.sh
. "$(dirname "$0")/../support/pyroscope.sh"

start_judge
program=$scratch/push_program
compile "$program" tests/interop/push_program.c
conf=module_dir:$JESPAN_MODULES,pyroscope_interval_ms:200,pyroscope_inuse_interval_ms:0

# run CONF [PHASES MS]: what it says of itself, and no word on stderr
run() {
    curl -fsS -X POST "$judge/reset"
    JESPAN_CONF=$1 "$program" 4 "${2:-1}" "${3:-0}" > "$scratch/figures" 2> "$scratch/said" ||
        fail_with "the program failed" "$scratch/said"
    [ ! -s "$scratch/said" ] || fail_with "the program has something to say" "$scratch/said"
    equal "refused" "$(report 'r["refused"]')" ""
}

# spans_of NAME TYPE…: a line a span, from all series of that name
spans_of() {
    local types
    types=$(printf '"%s",' "${@:2}")
    report "[' '.join([i] + [str(v.get(t, 0)) for t in [$types]]) for s in of('$1') for i, v in sorted(s['spans'].items())]"
}

check_spans() {
    run "$conf,pyroscope_url:$judge,series_labels:route|tenant" 8 150
    equal "pushes" "$(report '[s["profiles"] >= 5 for s in series]')" $'True\nTrue\nTrue'
    equal "memory by span" "$(spans_of memory alloc_objects alloc_space inuse_objects inuse_space)" \
        "$(cut -d' ' -f1-5 "$scratch/figures")"
    equal "CPU by span" "$(spans_of process_cpu cpu)" "$(cut -d' ' -f1,6 "$scratch/figures")"
    equal "wall by span" "$(spans_of wall wall)" "$(cut -d' ' -f1,7 "$scratch/figures")"
}

# Of the same run.
check_samples() {
    local labels='{k for s in series for t in s["stacks"].values() for k in t["labels"]}'
    equal "labels of samples" "$(report "sorted($labels)")" $'route\nspan_id\ntenant\ntrace_id'
    equal "labels of the second" "$(report '[" ".join(t["frames"] + sorted(t["labels"].values())) for t in
        of("memory")[0]["stacks"].values() if t["labels"].get("span_id") == "00000002abcdef01"]' | sort)" \
        "$(printf '%s /b?c=d 00000000000000020000000000000002 00000002abcdef01 tenant 1\n' "request" "request parse")"
    equal "every sample has a frame" "$(report 'all(t["frames"] for s in series for t in s["stacks"].values())')" True
    equal "time covered" "$(report '[abs(s["last_ns"] - s["first_ns"] - s["duration_ns"]) < 1e9 for s in series]')" \
        $'True\nTrue\nTrue'
    equal "encoding" "$(report 'r["headers"]["Content-Encoding"]')" gzip
}

# labels_of NAME: of its series, but for those that differ from run to run
labels_of() {
    report "[k + '=' + v for k, v in sorted(of('$1')[0]['labels'].items()) if k not in ('__session_id__', 'pid')]"
}

check_labels() {
    local own
    own=$(printf '%s\n' __delta__=false __name__=memory "hostname=$(uname -n)" pyroscope_spy=jespan)
    equal "labels" "$(labels_of memory)" "$own"$'\n'service_name=push_program
    equal "sessions" "$(report 'len({s["labels"]["__session_id__"] + s["labels"]["pid"] for s in series})')" 1
    equal "names" "$(report 'sorted(s["labels"]["__name__"] for s in series)')" $'memory\nprocess_cpu\nwall'
    run "$conf,pyroscope_url:$judge,pyroscope_app:shop front,pyroscope_labels:region=eu|zone.id=1a|hostname=other"
    equal "given labels" "$(labels_of memory)" "$(printf '%s\n' "${own/$(uname -n)/other}" region=eu \
        'service_name=shop front' zone_id=1a)"
    equal "no label of samples" \
        "$(report 'sorted({k for s in series for t in s["stacks"].values() for k in t["labels"]})')" $'span_id\ntrace_id'
}

# Variables that others defined.
check_variables() {
    OTEL_RESOURCE_ATTRIBUTES='service.name=by%20attribute,deployment.environment=test,vcs.ref.head.revision=abc' \
        run "$conf,pyroscope_url:$judge"
    equal "attributes" "$(labels_of wall | grep -vE '^[_h]|^pyroscope_spy=jespan$')" \
        "$(printf '%s\n' deployment_environment=test service_git_ref=abc 'service_name=by attribute')"
    OTEL_SERVICE_NAME=by-otel OTEL_RESOURCE_ATTRIBUTES=service.name=other run "$conf,pyroscope_url:$judge"
    equal "OTEL_SERVICE_NAME" "$(labels_of wall | grep service)" service_name=by-otel
    PYROSCOPE_SERVER_ADDRESS=$judge PYROSCOPE_APPLICATION_NAME=by-pyroscope OTEL_SERVICE_NAME=by-otel \
        PYROSCOPE_LABELS=region=eu,zone=b PYROSCOPE_TENANT_ID=team-1 PYROSCOPE_BASIC_AUTH_USER=me \
        PYROSCOPE_BASIC_AUTH_PASSWORD=secret PYROSCOPE_HTTP_HEADERS='{"X-Mine": "a b"}' run "$conf"
    equal "PYROSCOPE_…" "$(labels_of wall | grep -vE '^[_h]|^pyroscope_spy=jespan$')" \
        "$(printf '%s\n' region=eu service_name=by-pyroscope zone=b)"
    equal "headers" "$(report 'r["headers"]["X-Scope-Orgid"] + r["headers"]["Authorization"] + r["headers"]["X-Mine"]')" \
        "$(printf '%s\n' team-1 "Basic $(printf me:secret | base64)" 'a b')"
    PYROSCOPE_AUTH_TOKEN=abc run "$conf,pyroscope_url:$judge"
    equal "token" "$(report 'r["headers"]["Authorization"]')" "Bearer abc"
}

# frames_of SPAN_ID: a line for each place where memory was allocated
frames_of() {
    report "[' '.join(t['frames']) for t in of('memory')[0]['stacks'].values() if t['labels'].get('span_id') == '$1']" | sort
}

# The sidecar pushes the functions that allocated, below the spans: once, at exit, when there is time to wait for their names. A program that
# pushes by itself has places in binaries.
check_calls() {
    local at_exit="pyroscope_interval_ms:3600000,pyroscope_exit_timeout_ms:60000,series_labels:route|tenant"
    curl -fsS -X POST "$judge/reset"
    "$JESPAN_CMD" run --quiet --stacks --pyroscope "$judge" --conf "$at_exit" -- "$program" 4 6 0 \
        > "$scratch/figures" 2> "$scratch/said" || fail_with "the program failed" "$scratch/said"
    equal "calls: refused" "$(report 'r["refused"]')" ""
    equal "calls: memory by span" "$(spans_of memory alloc_objects alloc_space inuse_objects inuse_space)" \
        "$(cut -d' ' -f1-5 "$scratch/figures")"
    equal "calls of a request" "$(frames_of 00000002abcdef01)" $'request parse run serve parse\nrequest run serve'
    equal "calls of the steady one" "$(frames_of 0000000dabcdef0c)" 'request main hold_steadily'
    equal "time has no calls" "$(report 'sorted({t["frames"][-1] for s in of("wall") for t in s["stacks"].values() if t["labels"]})')" \
        $'parse\nrequest'
    run "$conf,pyroscope_url:$judge,series_labels:route|tenant,stacks:all" 8 150
    equal "places: memory by span" "$(spans_of memory alloc_objects alloc_space inuse_objects inuse_space)" \
        "$(cut -d' ' -f1-5 "$scratch/figures")"
    equal "places of the steady one" \
        "$(frames_of 0000000dabcdef0c | sed -E 's/ libc[^ ]*//g; s/( push_program\+0x[0-9a-f]+)+/ places/')" 'request places'
}

check_spans
check_samples
check_calls
check_labels
check_variables
finish
