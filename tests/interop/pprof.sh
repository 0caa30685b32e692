#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The real google/pprof reads each dump and shows the same figures as jespan at the same moment.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/pprof_tool.sh
. "$(dirname "$0")/../support/pprof_tool.sh"

types=(alloc_objects alloc_space inuse_objects inuse_space)
time_types=(opens wall busy cpu)

# Adds up the first four columns.
sum() {
    awk '{ for (i = 1; i <= 4; i++) s[i] += $i } END { printf "%d %d %d %d\n", s[1], s[2], s[3], s[4] }'
}

without_own() {
    grep -vF ' (jespan)' || true
}

# compare_totals WHAT DUMP FIGURES
compare_totals() {
    local name values
    raw "$2" | cut -d' ' -f4- > "$scratch/samples" # without the peaks, which come first
    [ "$(wc -l < "$scratch/samples")" -ge 3 ] || fail_with "$1: too few samples" "$scratch/raw"
    equal "$1: totals" "$(without_own < "$scratch/samples" | sum)" "$(sed -n 's/ total$//p' "$3")"
    for name in handle parse; do
        values=$(grep " $name\$" "$3" | sum)
        equal "$1: $name" "$(grep " $name\$" "$scratch/samples" | sum)" "$values"
    done
}

# -top for each sample type: its total is the samples', and so are the rows.
check_top() {
    local dump=$1 i total row
    for i in 0 1 2 3; do
        pprof -top -unit=B -nodefraction=0 -sample_index="${types[i]}" "$dump" > "$scratch/top"
        total=$(sum < "$scratch/samples" | cut -d' ' -f$((i + 1)))
        equal "-top ${types[i]}: total" "$(sed -n 's/^Showing nodes accounting for \([0-9]*\)B\{0,1\}, 100% of.*/\1/p' \
            "$scratch/top")" "$total"
        row=$(grep ' parse$' "$scratch/samples" | sum | cut -d' ' -f$((i + 1)))
        equal "-top ${types[i]}: parse" "$(awk '$NF == "parse" { sub(/B/, "", $1); print $1 }' "$scratch/top")" "$row"
        grep -q "^Type: ${types[i]}\$" "$scratch/top" || fail_with "-top ${types[i]}: another type" "$scratch/top"
    done
}

# Integers are found as such; pprof says then that it takes them for ranges.
check_ranges() {
    local range expected
    for range in request=4096 request=4000: retries=0 retries=-1:1 request=4095 request=4097:; do
        expected=handle
        case $range in *4095 | *4097:) expected=;; esac
        "$pprof_bin/pprof" -top -nodefraction=0 -tagfocus="$range" "$1" > "$scratch/range" 2> "$scratch/said" ||
            fail_with "-tagfocus=$range" "$scratch/said"
        grep -q "as range, not regexp" "$scratch/said" || fail_with "-tagfocus=$range is no range" "$scratch/said"
        equal "-tagfocus=$range" "$(awk '$NF == "handle" { print $NF }' "$scratch/range")" "$expected"
    done
}

check_views() {
    local dump=$1
    pprof -traces -sample_index=inuse_space "$dump" > "$scratch/traces"
    grep -q '^ *handle$' < <(grep -A1 ' parse$' "$scratch/traces") || fail_with "-traces: no parse below handle" "$scratch/traces"
    pprof -tags -sample_index=inuse_space "$dump" > "$scratch/tags"
    grep -q 'ümläut "quoted"' "$scratch/tags" || fail_with "-tags: the tenant is missing" "$scratch/tags"
    grep -q '/a/b?c=d' "$scratch/tags" || fail_with "-tags: the route is missing" "$scratch/tags"
    grep -q ' 4096$' < <(grep -A1 '^ *request: ' "$scratch/tags") ||
        fail_with "-tags: request is not 4096" "$scratch/tags"
    grep -q ' 0$' < <(grep -A1 '^ *retries: ' "$scratch/tags") ||
        fail_with "-tags: retries is not 0" "$scratch/tags"
    check_ranges "$dump"
    pprof -top -lines -unit=B -nodefraction=0 -tagfocus='route=/a/b' "$dump" > "$scratch/lines"
    grep -q "parse .*dump_program.c:[0-9]" "$scratch/lines" || fail_with "-lines: no line" "$scratch/lines"
    ! grep -q '(jespan)' "$scratch/lines" || fail_with "-tagfocus: shows what has no such label" "$scratch/lines"
    grep -q '^1: 0x.*/dump_program [0-9a-f]\{16,\}' "$scratch/raw" || fail_with "-raw: no mapping with a build id" "$scratch/raw"
    grep -q '^max_space/bytes max_total_space/bytes peak_space/bytes alloc_objects/count alloc_space/bytes inuse_objects/count inuse_space/bytes' "$scratch/raw" ||
        fail_with "-raw: other sample types" "$scratch/raw"
    grep -q '^PeriodType: space bytes' "$scratch/raw" || fail_with "-raw: another period type" "$scratch/raw"
}

# figure_of TYPE COLUMN NAME: from -top, whose columns are flat, flat %, sum %, cum, cum %; in ns and counts
figure_of() {
    pprof -top -unit=ns -nodefraction=0 -sample_index="$1" "$scratch/times.pb.gz" > "$scratch/top"
    awk -v column="$2" -v name="$3" '$NF == name { sub(/ns$/, "", $column); print $column + 0 }' "$scratch/top"
}

# inclusive NAME COLUMN: of the context that ends in it, from our own report
inclusive() {
    COLUMNS=500 "$JESPAN_CMD" report --inclusive --exact "$scratch/times.pb.gz" |
        awk -v column="$2" -v name="$1" '{ path = $0; sub(/ [{].*/, "", path) } path ~ " " name "$" { print $column }'
}

# Of spans that are closed the times stand still, and are what jespan says itself; their cum is our inclusive. After a
# second, as the clock's rate is measured again until then.
check_times() {
    local i name
    "$program" sleep 1200 times dump_time "$scratch/times.pb.gz" > "$scratch/figures"
    raw "$scratch/times.pb.gz" > "$scratch/samples"
    for name in handle parse; do
        equal "times: $name" "$(grep " $name\$" "$scratch/samples" | sum)" "$(grep " $name\$" "$scratch/figures" | sum)"
        for i in 0 1 2 3; do
            equal "times: -top ${time_types[i]}, $name" "$(figure_of "${time_types[i]}" 1 "$name")" \
                "$(grep " $name\$" "$scratch/figures" | sum | cut -d' ' -f$((i + 1)))"
        done
    done
    equal "times: opens" "$(grep ' handle$' "$scratch/samples" | cut -d' ' -f1)" 2
    [ "$(figure_of wall 1 parse)" -gt 0 ] || fail_with "times: parse took no time" "$scratch/top"
    equal "times: cum wall of handle" "$(figure_of wall 4 handle)" "$(inclusive handle 4)"
    equal "times: cum busy of handle" "$(figure_of busy 4 handle)" "$(inclusive handle 3)"
    equal "times: cum CPU of handle" "$(figure_of cpu 4 handle)" "$(inclusive handle 1)"
    pprof -top "$scratch/times.pb.gz" > "$scratch/top"
    grep -q '^Type: cpu$' "$scratch/top" || fail_with "times: another default" "$scratch/top"
    pprof -raw "$scratch/times.pb.gz" > "$scratch/raw"
    grep -q '^opens/count wall/nanoseconds busy/nanoseconds cpu/nanoseconds' "$scratch/raw" ||
        fail_with "times: other sample types" "$scratch/raw"
    grep -q '^PeriodType: cpu nanoseconds' "$scratch/raw" || fail_with "times: another period type" "$scratch/raw"
}

# What a program holds more in the second dump is the difference, to the byte.
check_difference() {
    "$program" dump "$scratch/before.pb.gz" passing 100 dump "$scratch/after.pb.gz"
    pprof -top -nodefraction=0 -sample_index=inuse_objects -base "$scratch/before.pb.gz" "$scratch/after.pb.gz" \
        > "$scratch/top"
    equal "-base: passing" "$(awk '$NF == "passing" { print $1 }' "$scratch/top")" 5
    equal "-base: parse" "$(awk '$NF == "parse" { print $1 }' "$scratch/top")" ""
}

# Every dump of a program that runs under the reporter.
check_reporter_dumps() {
    local dumps=$scratch/dumps name
    mkdir "$dumps"
    JESPAN_CONF=module_dir:$JESPAN_MODULES,dump_dir:$dumps,dump_interval_s:1,dump_at_exit:true "$program" dumps 2 passing 1000
    [ "$(dumps_in "$dumps" | wc -l)" -ge 3 ] || fail "the reporter wrote only: $(dumps_in "$dumps" | tr '\n' ' ')"
    for name in $(dumps_in "$dumps"); do
        raw "$dumps/$name" > "$scratch/samples"
        grep -q ' parse$' "$scratch/samples" || fail_with "$name: parse is missing" "$scratch/raw"
    done
}

# The check can fail: half a dump is no dump.
check_truncated() {
    head -c 200 "$scratch/one.pb.gz" > "$scratch/half.pb.gz"
    ! "$pprof_bin/pprof" -raw "$scratch/half.pb.gz" > "$scratch/shown" 2>&1 || fail "pprof reads half a dump"
}

program=$scratch/dump_program
compile "$program" tests/integration/dump_program.c
export JESPAN_CONF=module_dir:$JESPAN_MODULES
"$program" figures dump "$scratch/one.pb.gz" > "$scratch/figures"
compare_totals "one dump" "$scratch/one.pb.gz" "$scratch/figures"
check_top "$scratch/one.pb.gz"
check_views "$scratch/one.pb.gz"
check_times
JESPAN_CONF=$JESPAN_CONF,max_contexts:64 "$program" passing 10000 figures dump "$scratch/two.pb.gz" > "$scratch/figures"
compare_totals "a dump with recycled contexts" "$scratch/two.pb.gz" "$scratch/figures"
check_difference
check_reporter_dumps
check_truncated
finish
