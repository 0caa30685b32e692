#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Peaks in dumps, in reports, in `jespan check`, in `jespan ctl`, in /metrics, and in the line at the end. The program has known
# peaks, which last for a moment only.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help check > /dev/null || skip "built without the pprof exporter"
program=$scratch/peaks_program
compile "$program" tests/integration/peaks_program.c
export XDG_RUNTIME_DIR=$scratch
cd "$scratch"

report() {
    "$JESPAN_CMD" report --csv --columns "$@" | grep -v jespan
}

# At the peak of the process, the cache has 3 MiB, the request 1 and its parse 8.
test_report() {
    "$JESPAN_CMD" run --lib "$JESPAN_LIB" --conf peak_looks_percent:100 --dump-dir dumps --interval 0 -- "$program" 2> err
    # The sidecar writes the line when the program has ended
    await grep -qF 'at its peak 12.0 MiB in use, most by request > parse {tenant=blue} (8.0 MiB); at last 3.0 MiB' err ||
        fail_with "the line at the end" err
    equal "by path" "$(report peak,atpeak,inuse --sort peak dumps)" 'peak_bytes,at_peak_bytes,inuse_bytes,context
8388608,8388608,0,"request > parse {tenant=blue}"
4194304,0,0,"request > parse {tenant=green}"
3145728,3145728,3145728,"cache"
1048576,1048576,0,"request {tenant=blue}"
1048576,0,0,"request {tenant=green}"'
    equal "inclusive" "$(report peak --inclusive --sort peak --filter request dumps)" 'peak_bytes,context
9437184,"request {tenant=blue}"
8388608,"request > parse {tenant=blue}"
5242880,"request {tenant=green}"
4194304,"request > parse {tenant=green}"'
    equal "by name" "$(report peak,atpeak --by name --sort atpeak dumps | head -4)" 'peak_bytes,at_peak_bytes,key
8388608,8388608,"parse"
3145728,3145728,"cache"
1048576,1048576,"request"'
    # At least that much at once: the most of one context, or what all had at the peak of the process
    equal "by label" "$(report peak,atpeak --by label:tenant --sort atpeak --filter 'request|cache' dumps)" 'peak_bytes,at_peak_bytes,key
9437184,9437184,"blue"
3145728,3145728,"(without)"
4194304,0,"green"'
    # --peak has these columns, for a file as for its directory
    "$JESPAN_CMD" report --peak --exact dumps/heap.*.pb.gz > file
    "$JESPAN_CMD" report --peak --exact dumps > directory
    equal "--peak of a file and of a directory" "$(cat file)" "$(cat directory)"
    equal "--peak" "$(tr -s ' ' < file | grep -v jespan | sed 's/[0-9.]*%/S/' | head -3)" ' AT PEAK SHARE PEAK IN USE CONTEXT
 8388608 S 8388608 0 request > parse {tenant=blue}
 3145728 S 3145728 3145728 cache'
    equal "--peak --tree" "$("$JESPAN_CMD" report --peak --tree --csv --columns atpeak,peak --filter request dumps | sed -n 2,3p)" \
        '9437184,9437184,"request {tenant=blue}"
8388608,8388608,"parse"'
    for words in "--diff dumps dumps" "--time dumps"; do
        status=0
        # shellcheck disable=SC2086
        "$JESPAN_CMD" report --peak $words > out 2> err || status=$?
        equal "--peak $words" "$status" 2
    done
    # The sum over all contexts at the peak is the peak
    "$JESPAN_CMD" report --json --columns peak,atpeak dumps > json
    total=$(sed -n 's/.*"total": {"peak_bytes": \([0-9]*\), "at_peak_bytes": \([0-9]*\)}.*/\1 \2/p' json)
    equal "the process" "${total% *}" "${total#* }"
    [ "${total% *}" -ge $((12 << 20)) ] || fail_with "the process" json
    # Without these columns, contexts that never allocated are no rows
    equal "inuse" "$(report inuse --sort alloc dumps | wc -l)" 6
    "$JESPAN_CMD" report --diff --columns peak dumps dumps 2> err && fail "a difference of peaks"
    "$JESPAN_CMD" report --columns nothing dumps 2> err && fail "a wrong column"
    grep -q 'size, peak, atpeak, temporary, lifetime$' err || fail_with "the columns" err
}

test_check() {
    for rule in 'request<9437185' 'request > parse<8388609' 'request{tenant=green}<5242881' 'cache<3145729'; do
        "$JESPAN_CMD" check --lib "$JESPAN_LIB" --max "$rule" -- "$program" > out || fail_with "$rule" out
    done
    for rule in 'request<9437184' 'request > parse<8388608' 'request{tenant=green}<5242880' '*<12582912'; do
        status=0
        "$JESPAN_CMD" check --lib "$JESPAN_LIB" --max "$rule" -- "$program" > out || status=$?
        equal "$rule" "$status" 3
    done
    grep -qF 'FAIL  *<12582912: 12.0 MiB in process ' out || fail_with "the line" out
}

# get NAME: from outside
get() {
    timeout 60 "$JESPAN_CMD" ctl "$pid" get "$1"
}

# The last span of the start has had its memory.
has_started() {
    [ "$("$JESPAN_CMD" ctl "$pid" list 'spans.*.name' | grep -c ': parse$')" -eq 2 ] &&
        [ "$(get spans.all.inuse_bytes)" -lt $((4 << 20)) ]
}

# Each byte makes the program allocate 3 MiB beside the cache, and take requests.
has_reset() {
    printf x >&7
    [ "$(get spans.all.peak_bytes)" -lt $((12 << 20)) ]
}

test_ctl() {
    mkfifo in
    JESPAN_CONF=peak_looks_percent:100 "$program" wait < in &
    pid=$!
    exec 7> in
    await has_started || fail "the program did not start"
    id=$("$JESPAN_CMD" ctl "$pid" list 'spans.*.name' | sed -n 's/^spans\.\([0-9]*\)\.name: parse$/\1/p' | head -1)
    equal "of a context" "$(get "spans.$id.peak_bytes")" 8388608
    equal "of a context and all below it" "$(get "spans.$id.total.peak_bytes")" 8388608
    equal "by path" "$(get 'total.peak_bytes:request{tenant=blue} > parse') $(get 'peak_bytes:cache')" "8388608 3145728"
    status=0
    get 'peak_bytes:parse' 2> err || status=$?
    equal "by a path that fits several" "$status $(sed 's/.*Name/Name/' err)" \
        "1 Name the spans above or labels, as in 'peak_bytes:request > cache{tenant=blue}'"
    local path
    for path in 'parse{' 'parse{a' 'request >' 'parse{a}' 'parse}' 'parse{a=b}{c=d}'; do
        status=0
        get "peak_bytes:$path" 2> err || status=$?
        equal "by $path" "$status $(sed 's/ spans: .*/ spans/' err)" "2 jespan: '$path' is no path of spans"
        "$JESPAN_CMD" ctl "$pid" set "limit:$path" 1G 2> err2 && fail "set limit:$path succeeds"
        equal "set by $path" "$(cat err2)" "$(cat err)"
    done
    equal "in top" "$("$JESPAN_CMD" top --once --flat --filter cache --interval 0.05 "$pid" | sed 1,2d | tr -s ' ')" \
        " 3.0 MiB 3.0 MiB 0 0 1 cache"
    equal "at the peak" "$(get "spans.$id.at_peak_bytes")" 8388608
    [ "$(get spans.all.peak_bytes)" -ge $((12 << 20)) ] || fail "the peak of the process: $(get spans.all.peak_bytes)"
    "$JESPAN_CMD" ctl "$pid" call spans.reset_peaks > out 2>&1 || fail_with "call spans.reset_peaks" out
    await has_reset || fail "the peaks were not reset"
    equal "of a context after it" "$(get "spans.$id.peak_bytes")" 0
    exec 7>&-
    wait "$pid" || fail "the program failed"
}

test_report
test_check
test_ctl
finish
