#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# libjespan.a in a static program, and beside a shared libc. Without dlopen, the exporter comes from its archive, and dumps
# are the same.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

[ "${JESPAN_BINDING:-static}" = static ] || skip "libjespan.a is only built with a private copy of jemalloc"
[ -f "$top_builddir/libjespan-exporters.a" ] || skip "built without the pprof exporter"

exporter=('-Wl,-u,jespan_exporter_pprof' -ljespan-exporters)
libraries=(-lprotobuf-c -lz -lm -lpthread -ldl)
dir=$scratch/dumps

# link OUTPUT SOURCE FLAGS... : with the archives, not the shared library
link() {
    local output=$1 source=$2
    shift 2
    $CC -std=gnu11 -O1 -g -Wall -Wextra -fno-builtin -I"$top_srcdir/include" -o "$output" "$top_srcdir/$source" \
        -L"$top_builddir" "$@" > "$scratch/link" 2>&1 || fail_with "linking $* failed" "$scratch/link"
}

# try WHAT PROGRAM: it counts, and dumps on its own
try() {
    local status=0
    rm -rf "$dir"
    mkdir "$dir"
    JESPAN_CONF=dump_dir:$dir,dump_interval_s:1,dump_at_exit:true "$2" dumps 1 check stats dump "$dir/asked.pb.gz" \
        > "$scratch/out" 2> "$scratch/err" || status=$?
    equal "$1: status" "$status" 0
    equal "$1: stderr" "$(cat "$scratch/err")" ""
    equal "$1: counted" "$(cut -d' ' -f3- "$scratch/out")" "dumps 1 lost 0"
    equal "$1: dumps" "$(find "$dir" -name '*.pb.gz' | wc -l)" 3
    for dump in "$dir"/*.pb.gz; do
        is_whole "$dump" || fail "$1: $dump is not whole"
        grep -aq parse < <(gzip -dc "$dump") || fail "$1: $dump has no span in it"
    done
}

# try_run WHAT PROGRAM OPTION: the command reports for it once, and has no complaint, although it cannot preload the library
try_run() {
    local status=0
    rm -rf "$dir"
    "$JESPAN_CMD" run --quiet --dump-dir "$dir" --interval 0 "$3" -- "$2" check > "$scratch/out" 2> "$scratch/err" || status=$?
    equal "$1: jespan run $3: status" "$status" 0
    equal "$1: jespan run $3: stderr" "$(cat "$scratch/err")" ""
    equal "$1: jespan run $3: dumps" "$(find "$dir" -type f | wc -l)" 1
    "$JESPAN_CMD" report "$dir" > "$scratch/report" 2>&1 || fail_with "$1: the report of jespan run $3" "$scratch/report"
    grep -q ' handle > parse {' "$scratch/report" || fail_with "$1: jespan run $3: no parse" "$scratch/report"
}

# The archive has all exporters.
check_folded() {
    rm -rf "$dir"
    mkdir "$dir"
    JESPAN_CONF=dump_dir:$dir,dump_format:folded,dump_at_exit:true "$scratch/static" check > "$scratch/out" 2> "$scratch/err" ||
        fail "folded: status $?"
    equal "folded: stderr" "$(cat "$scratch/err")" ""
    grep -q '^handle.*;parse{.*} [1-9]' "$dir"/heap.*.1.folded || fail "folded: no parse"
}

check_static() {
    link "$scratch/static" tests/integration/dump_program.c -static "${exporter[@]}" -l:libjespan.a "${libraries[@]}"
    if have file; then
        grep -q 'statically linked' < <(file "$scratch/static") || fail "the static program is not static"
    fi
    ! grep -q NEEDED < <(readelf -d "$scratch/static") || fail "the static program needs a library"
    try "static" "$scratch/static"
    try_run "static" "$scratch/static" --sidecar
    try_run "static" "$scratch/static" --in-process
    check_folded
}

check_beside_shared_libc() {
    link "$scratch/archive" tests/integration/dump_program.c "${exporter[@]}" -l:libjespan.a "${libraries[@]}"
    ! grep -q jespan < <(readelf -d "$scratch/archive") || fail "the program with the archive needs libjespan.so"
    try "archive" "$scratch/archive"
    try_run "archive" "$scratch/archive" --sidecar
    try_run "archive" "$scratch/archive" --in-process
}

# Without the exporter's archive there are no dumps, and that is said once; all else works.
check_without_exporter() {
    link "$scratch/bare" tests/integration/dump_program.c -static -l:libjespan.a -lm -lpthread
    rm -rf "$dir"
    mkdir "$dir"
    JESPAN_CONF=dump_dir:$dir,dump_at_exit:true "$scratch/bare" check > "$scratch/out" 2> "$scratch/err" ||
        fail "without the exporter: status $?"
    equal "without the exporter: dumps" "$(ls -A "$dir")" ""
    grep -q '^jespan: ' "$scratch/err" || fail "without the exporter: nothing is said"
}

# The tests of the family itself, in a static program.
check_conformance() {
    link "$scratch/conformance" tests/integration/conformance.c -static -l:libjespan.a -lm -lpthread
    "$scratch/conformance" > "$scratch/out" 2>&1 || fail_with "conformance, static: status $?" "$scratch/out"
    link "$scratch/spans" tests/integration/spans.c -static -l:libjespan.a -lm -lpthread
    "$scratch/spans" > "$scratch/out" 2>&1 || fail_with "spans, static: status $?" "$scratch/out"
}

# libc allocates before it can say where code is.
check_stacks() {
    for conf in stacks:all stacks:sampled,stacks_sample_bytes:1; do
        JESPAN_CONF=$conf "$scratch/conformance" > "$scratch/out" 2>&1 || fail_with "conformance, static, $conf: status $?" "$scratch/out"
    done
}

check_static
check_beside_shared_libc
check_without_exporter
check_conformance
check_stacks
finish
