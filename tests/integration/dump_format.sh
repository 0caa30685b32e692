#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# dump_format: the exporter that it names writes the dumps, their names have its suffix, and all formats count for what is
# kept. Folded stacks have the program's own figures, and flame graph tools read them.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/dumps.sh
. "$(dirname "$0")/../support/dumps.sh"

compile_dumping dump_program

# sum_of NAME FILE: of the values of paths that end in a span of this name
sum_of() {
    awk -v name="$1" '{ n = split($1, frames, ";"); sub(/{.*/, "", frames[n]); if (frames[n] == name) sum += $2 }
        END { printf "%d\n", sum }' "$2"
}

# check_lines FILE: each is a path of frames without blanks, and a value
check_lines() {
    [ -s "$1" ] || fail "${1##*/} is empty"
    ! grep -vE '^[^ ;]+(;[^ ;]+)* [1-9][0-9]*$' "$1" > "$scratch/odd" || fail_with "${1##*/}: other lines" "$scratch/odd"
    ! have inferno-flamegraph || inferno-flamegraph < "$1" > "$scratch/svg" 2> "$scratch/said" ||
        fail_with "inferno-flamegraph does not read ${1##*/}" "$scratch/said"
}

folded() {
    local name
    run "dump_dir:$dir,dump_format:folded,dump_time:true,dump_at_exit:true" sleep 20 figures dump "$dir/asked" stats
    equal "folded: status" "$status" 0
    equal "folded: stderr" "$(cat "$scratch/err")" ""
    equal "folded: files" "$(ls "$dir")" "$(printf '%s\n' asked "heap.$pid.1.folded" "time.$pid.1.folded")"
    check_lines "$dir/asked"
    check_lines "$dir/heap.$pid.1.folded"
    check_lines "$dir/time.$pid.1.folded"
    for name in handle parse; do
        equal "folded: bytes in use of $name" "$(sum_of "$name" "$dir/asked")" \
            "$(awk -v name="$name" '$5 == name { sum += $4 } END { printf "%d\n", sum }' "$scratch/out")"
    done
    grep -q '^handle{.*};parse{tenant=ümläut%20"quoted",route=/a/b?c=d} ' "$dir/asked" || fail_with "folded: no parse" "$dir/asked"
}

# A format that does not exist is named at the start. The program runs on, and its dumps are lost.
missing() {
    run "dump_dir:$dir,dump_format:nonesuch,dump_at_exit:true" check stats
    equal "missing: status" "$status" 0
    equal "missing: files" "$(ls "$dir")" ""
    equal "missing: stderr" "$(sed 's|: /.*/|: |' "$scratch/err")" \
        "jespan: exporter nonesuch: nonesuch.so: cannot open shared object file: No such file or directory; see dump_format and module_dir
jespan: heap dump $(sed -n 's|.*heap dump \(/.*\) failed.*|\1|p' "$scratch/err") failed: there is no exporter nonesuch; further failures are only counted"
}

# Each exporter that comes with jespan is in the table from which processes know the dumps of others.
all_formats_count() {
    local exporter n=0 names=()
    for exporter in "$JESPAN_MODULES"/*.so; do
        ! grep -q jespan_exporter_ < <(nm -D --defined-only "$exporter") || names+=("$(basename "$exporter" .so)")
    done
    rm -rf "$dir"
    mkdir "$dir"
    for exporter in "${names[@]}"; do
        JESPAN_CONF=module_dir:$JESPAN_MODULES,dump_dir:$dir,dump_format:$exporter,dump_at_exit:true "$program" stats > "$scratch/out"
        n=$((n + 1))
        equal "$exporter: files" "$(find "$dir" -type f | wc -l)" "$n"
    done
    [ "$n" -ge 2 ] || fail "only $n exporters"
    for exporter in "${names[@]}"; do
        JESPAN_CONF=module_dir:$JESPAN_MODULES,dump_dir:$dir,dump_format:$exporter,dump_at_exit:true,dump_dir_files:1 \
            "$program" stats > "$scratch/out"
        equal "$exporter, one file: files" "$(find "$dir" -type f | wc -l)" 1
    done
}

folded
missing
all_formats_count
finish
