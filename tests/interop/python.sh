#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# bindings/python: the memory of a Flask and of a FastAPI service by route, which OpenTelemetry instruments and nobody changed, also in each
# worker of gunicorn; spans of a program's own in threads and tasks; and both without jespan.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/fetched.sh
. "$top_srcdir/tests/support/fetched.sh"

fill_environment() {
    python3 -m venv "$1/venv"
    "$1/venv/bin/pip" install -q --disable-pip-version-check setuptools==80.9.0 wheel==0.45.1 flask==3.1.3 \
        fastapi==0.165.0 uvicorn==0.54.0 opentelemetry-distro==0.66b1 opentelemetry-instrumentation-flask==0.66b1 \
        opentelemetry-instrumentation-fastapi==0.66b1 numpy==2.1.3 uvloop==0.22.1 gunicorn==27.0.1
}

need python3
build_once python-flask-fastapi-otel-3 fill_environment

cp -r "$top_srcdir/bindings/python" "$scratch/source"
chmod -R u+w "$scratch/source"
"$built/venv/bin/python" -m pip install -q --disable-pip-version-check --no-build-isolation --no-deps --no-index \
    --target "$scratch/site" "$scratch/source" > "$scratch/build" 2>&1 || fail_with "the package cannot be installed" "$scratch/build"

# python DIRECTORY ARGUMENT…: a Python program on jespan, which writes a dump into DIRECTORY at its end
python() {
    mkdir "$scratch/$1"
    JESPAN_CONF=module_dir:$JESPAN_MODULES,dump_dir:$scratch/$1,dump_at_exit:true${stacks:-} LD_PRELOAD=$top_builddir/.libs/libjespan.so \
        PYTHONPATH=$scratch/site "$built/venv/bin/python" "${@:2}" > "$scratch/$1.said" 2>&1 ||
        fail_with "$1: status $?" "$scratch/$1.said"
    "$top_builddir/jespan" report --inclusive --exact --columns inuse "$scratch/$1"/heap.*.pb.gz > "$scratch/$1.report"
}

# holds NAME KIB CONTEXT: the context and those below hold so many KiB in NAME's report, and less than 256 KiB more
holds() {
    local bytes
    bytes=$(awk -v context="$3" '{
        figure = $1
        sub(/^ *[0-9]+ +/, "")
        if ($0 == context) print figure
    }' "$scratch/$1.report")
    if [ "${bytes:-0}" -lt $(($2 << 10)) ] || [ "${bytes:-0}" -ge $((($2 + 256) << 10)) ]; then
        fail_with "'$3' holds '$bytes', not $2 KiB" "$scratch/$1.report"
    fi
}

# A bytearray of 1, 2, 3 and 5 MiB takes 1.25, 2.5, 3.5 and 6 MiB: it is a byte longer, and these are the size classes.
check_spans() {
    grep -qx "available True" "$scratch/$1.said" || fail_with "jespan is not found" "$scratch/$1.said"
    holds "$1" $((17 << 10 | 512)) "outer > task {name=a}"
    holds "$1" $((49 << 10)) "outer > task {name=b}"
    holds "$1" $((7 << 10)) "outer > task > decorated async {name=b}"
    holds "$1" 2560 "outer > decorated {kind=7}"
    holds "$1" 1280 "outer > task > in pool {name=a}"
    holds "$1" 3584 "outer > task > in pool {name=b}"
    holds "$1" $((71 << 10 | 512)) "outer"
    holds "$1" $((6 << 10)) "thread > fails"
    holds "$1" 7424 "thread"
}

python spans "$top_srcdir/tests/interop/python_spans.py"
check_spans spans
for loop in uvloop uvloop-first; do
    python "spans-$loop" "$top_srcdir/tests/interop/python_spans.py" "$loop"
    check_spans "spans-$loop"
done

# Each block of a script holds the bytes that numpy says. What numpy's own allocator did not allocate are the shapes of arrays, 16 bytes
# and more each.
blocks_of_numpy() {
    "$top_builddir/jespan" report --json --stacks "$scratch"/numpy/heap.*.pb.gz | python3 -c '
import json, sys
data, others = {}, {}
for row in json.load(sys.stdin)["rows"]:
    of = data if row["path"][-1] in ("default_malloc", "default_calloc", "default_realloc", "PyDataMem_UserRENEW") else others
    spans = " > ".join(name for name in row["path"] if name in sys.argv[1:])
    labels = ", ".join(f"{key}={value}" for key, value in row["labels"].items())
    block = spans + (f" {{{labels}}}" if labels else "")
    of[block] = of.get(block, 0) + row["inuse_bytes"]
for block, bytes in data.items():
    print(bytes, block)
for block, bytes in others.items():
    assert bytes < 256 or not block, (block, bytes)
' load ids values clean mask model worker resized
}

stacks=,stacks:all python numpy "$top_srcdir/tests/interop/python_numpy.py"
grep '^[0-9]' "$scratch/numpy.said" | sort > "$scratch/numpy.wanted"
equal "blocks of numpy" "$(wc -l < "$scratch/numpy.wanted")" 7
blocks_of_numpy > "$scratch/numpy.blocks" || fail "blocks of numpy hold other memory"
sort "$scratch/numpy.blocks" | comm -23 "$scratch/numpy.wanted" - > "$scratch/numpy.missing"
[ ! -s "$scratch/numpy.missing" ] || fail_with "numpy's bytes are others" "$scratch/numpy.missing" "$scratch/numpy.blocks"

export OTEL_PYTHON_CONTEXT=jespan OTEL_TRACES_EXPORTER=none OTEL_METRICS_EXPORTER=none OTEL_LOGS_EXPORTER=none
python service "$built/venv/bin/opentelemetry-instrument" "$built/venv/bin/python" "$top_srcdir/tests/interop/python_service.py"
holds service $((10 << 10)) "GET /keep/<int:number> {http.method=GET, http.route=/keep/<int:number>}"
holds service 0 "GET /look {http.method=GET, http.route=/look}"
[ "$(grep -c ' GET /' "$scratch/service.report")" = 2 ] || fail_with "there are other spans" "$scratch/service.report"

for loop in asyncio uvloop; do
    python "fastapi-$loop" "$built/venv/bin/opentelemetry-instrument" "$built/venv/bin/python" "$top_srcdir/tests/interop/python_fastapi.py" "$loop"
    holds "fastapi-$loop" $((10 << 10)) "GET /task/{number} {http.method=GET, http.route=/task/{number}}"
    holds "fastapi-$loop" $((10 << 10)) "GET /thread/{number} {http.method=GET, http.route=/thread/{number}}"
done

# gunicorn forks its workers: each has a report while it runs.
listens_or_ended() { grep -q 'Listening at: ' "$scratch/gunicorn.said" || ! kill -0 "${pids[-1]}"; }
test_gunicorn() {
    local pid count address
    PYTHONPATH=$scratch/site:$top_srcdir/tests/interop PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 "$JESPAN_CMD" run --quiet --follow-fork \
        --dump-dir "$scratch/gunicorn" --interval 0 --conf "module_dir:$JESPAN_MODULES" -- "$built/venv/bin/python" \
        "$built/venv/bin/opentelemetry-instrument" "$built/venv/bin/python" -m gunicorn -w 2 --bind 127.0.0.1:0 python_gunicorn:app > "$scratch/gunicorn.said" 2>&1 &
    pids+=($!)
    await listens_or_ended || true
    grep -q 'Listening at: ' "$scratch/gunicorn.said" || { fail_with "gunicorn does not begin" "$scratch/gunicorn.said"; return; }
    address=$(sed -n 's/.*Listening at: \(http:[^ ]*\).*/\1/p' "$scratch/gunicorn.said")
    "$built/venv/bin/python" "$top_srcdir/tests/interop/python_gunicorn.py" "$address" > "$scratch/workers" 2> "$scratch/err" ||
        fail_with "gunicorn does not answer" "$scratch/err" "$scratch/gunicorn.said"
    equal "workers of gunicorn" "$(wc -l < "$scratch/workers")" 2
    while read -r pid count; do
        "$JESPAN_CMD" report --inclusive --exact --columns inuse "$pid" > "$scratch/worker.report" 2> "$scratch/err" ||
            fail_with "a worker has no report" "$scratch/err" "$scratch/gunicorn.said"
        holds worker $((count * 1280)) "GET /keep/<int:number> {http.method=GET, http.route=/keep/<int:number>}"
        holds worker 0 "GET /look {http.method=GET, http.route=/look}"
    done < "$scratch/workers"
    kill "${pids[-1]}"
    wait "${pids[-1]}" || fail_with "gunicorn ends with $?" "$scratch/gunicorn.said"
}
test_gunicorn

# Each request is a trace.
JESPAN_OTEL_LABELS=http.route,trace_id python traces "$built/venv/bin/opentelemetry-instrument" "$built/venv/bin/python" \
    "$top_srcdir/tests/interop/python_service.py"
equal "requests with their traces" "$(grep -Eo 'GET /keep/<int:number> \{http.route=/keep/<int:number>, trace_id=[0-9a-f]{32}\}$' "$scratch/traces.report" |
    sort -u | wc -l)" 8

# Profilers of other processes learn the trace of each thread and task.
if [ "$(uname -m)" = x86_64 ] && have readelf; then
    status=0
    JESPAN_CONF=otel_context:true PYTHONPATH=$scratch/site python3 -B "$top_srcdir/tests/support/otel_context.py" \
        "$top_builddir/.libs/libjespan.so" env LD_PRELOAD="$top_builddir/.libs/libjespan.so" "$built/venv/bin/python" \
        "$top_srcdir/tests/interop/python_traces.py" > "$scratch/said" 2>&1 || status=$?
    [ "$status" = 77 ] || grep -qx "compared 16" "$scratch/said" || fail_with "traces are not published: status $status" "$scratch/said"
fi

# without_jespan ARGUMENT…: the same without jespan
without_jespan() {
    PYTHONPATH=$scratch/site "$built/venv/bin/python" "$@" > "$scratch/said" 2>&1 || fail_with "without jespan: status $?" "$scratch/said"
}

without_jespan "$top_srcdir/tests/interop/python_spans.py"
grep -qx "available False" "$scratch/said" || fail_with "jespan is found where there is none" "$scratch/said"
without_jespan "$built/venv/bin/opentelemetry-instrument" "$built/venv/bin/python" "$top_srcdir/tests/interop/python_service.py"
finish
