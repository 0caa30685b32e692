#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Temporary allocations are counted by stack as the program itself counts them.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without jespan report"

program=$scratch/stacks_temporary_program
compile "$program" tests/integration/stacks_temporary_program.c
cd "$scratch"

# found INPUT: "SITE N" from the table of functions of a dump or process
found() {
    "$JESPAN_CMD" report --by function --csv --columns temporary "$1" 2> report.err |
        sed -n 's/^\([0-9]*\),.*"\(site_[a-z]*\)".*/\2 \1/p' | sort
}

# model N: within N other allocations
model() {
    mkfifo "in.$1"
    mkdir "dumps.$1"
    JESPAN_CONF="stacks:all,stacks_temporary:$1,dump_dir:dumps.$1,dump_at_exit:true" "$program" "$1" < "in.$1" > "said.$1" &
    pid=$!
    exec 7> "in.$1"
    await grep -q total "said.$1" || fail "the program did not come to its end"
    grep site "said.$1" | sort > expected
    total=$(awk '{ n += $2 } END { print n }' expected)
    [ "$total" -gt 1000 ] || fail_with "too few to compare, within $1" expected
    equal "mallctl, within $1" "$(sed -n 's/^total //p' "said.$1")" "$total"
    equal "from outside, within $1" "$(found "$pid")" "$(cat expected)"
    equal "jespan ctl, within $1" "$("$JESPAN_CMD" ctl "$pid" get spans.all.temporary_objects)" "$total"
    exec 7>&-
    wait "$pid" || fail "the program failed"
    equal "a dump, within $1" "$(found "dumps.$1")" "$(cat expected)"
}

# While stacks are off, or samples, nothing is counted. The command says so, and differences have no such figure.
test_none() {
    for mode in off sampled; do
        mkdir "$mode"
        JESPAN_CONF="stacks:$mode,stacks_sample_bytes:1000,dump_dir:$mode,dump_at_exit:true" "$program" 0 < /dev/null > said
        equal "mallctl, $mode" "$(sed -n 's/^total //p' said)" 0
        status=0
        "$JESPAN_CMD" report --stacks --sort temporary "$mode" > out 2> err || status=$?
        equal "the report, $mode" "$status $(sed -n '$s/.*: it/it/p' err)" \
            "2 it has no temporary allocations: they are counted with 'jespan run --stacks'"
    done
    status=0
    "$JESPAN_CMD" report --diff --sort temporary dumps.0 dumps.0 2> err || status=$?
    equal "a difference" "$status $(sed 's/.*: --/--/' err)" "2 --diff cannot be sorted by temporary allocations"
}

# The order, the shares, the tree and the sum
test_report() {
    "$JESPAN_CMD" report --stacks --sort temporary --exact dumps.0 > out
    equal "the columns" "$(sed -n 2p out | tr -s ' ')" 'TEMPORARY SHARE ALLOCS ALLOCATED CONTEXT'
    awk 'NR > 2 && !/total/ { print $1 }' out > order
    sort -rn order | cmp -s - order || fail_with "the order" out
    equal "the sum" "$(awk '/total of/ { print $1 }' out)" "$(sed -n 's/^total //p' said.0)"
    "$JESPAN_CMD" report --stacks --tree --sort temporary --csv dumps.0 > tree
    grep -q "^$(sed -n 's/^total //p' said.0),1.000000," tree || fail_with "the tree" tree
    "$JESPAN_CMD" report --json --columns temporary dumps.0 > json
    grep -q "\"total\": {\"temporary_objects\": $(sed -n 's/^total //p' said.0)}" json || fail_with "JSON" json
}

for n in 0 1 3 15; do
    model $n
done
test_none
test_report
finish
