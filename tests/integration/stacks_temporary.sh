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
    await_of "$pid" grep -q total "said.$1" || fail "the program did not come to its end"
    grep site "said.$1" | sort > expected
    total=$(awk '{ n += $2 } END { print n }' expected)
    [ "$total" -gt 1000 ] || fail_with "too few to compare, within $1" expected
    equal "mallctl, within $1" "$(sed -n 's/^total //p' "said.$1")" "$total"
    equal "a snapshot, within $1" "$(sed -n 's/^snapshot //p' "said.$1")" "$total $total"
    equal "from outside, within $1" "$(found "$pid")" "$(cat expected)"
    equal "jespan ctl, within $1" "$("$JESPAN_CMD" ctl "$pid" get spans.all.temporary_objects)" "$total"
    exec 7>&-
    wait "$pid" || fail "the program failed"
    equal "a dump, within $1" "$(found "dumps.$1")" "$(cat expected)"
}

# While stacks are off, or samples, nothing is counted, and the command says so.
test_none() {
    for mode in off sampled; do
        mkdir "$mode"
        JESPAN_CONF="stacks:$mode,stacks_sample_bytes:1000,dump_dir:$mode,dump_at_exit:true" "$program" 0 < /dev/null > said
        equal "mallctl, $mode" "$(sed -n 's/^total //p' said)" 0
        status=0
        "$JESPAN_CMD" report --stacks --sort temporary "$mode" > out 2> err || status=$?
        equal "the report, $mode" "$status $(sed -n '$s/.*: it/it/p' err)" \
            "2 it has no temporary allocations: there were none, or it ran without 'jespan run --stacks', which counts them"
    done
    status=0
    "$JESPAN_CMD" report --diff --sort temporary dumps.0 off 2> err || status=$?
    equal "a difference, off" "$status $(sed -n '$s/.*: it/it/p' err)" \
        "2 it has no temporary allocations: there were none, or it ran without 'jespan run --stacks', which counts them"
}

# From a dump before stacks were taken, all is growth. A dump has not grown since itself.
test_diff() {
    "$JESPAN_CMD" report --diff --by function --sort temporary --csv --columns temporary off dumps.0 > changes 2> err ||
        fail_with "a difference" err
    equal "a difference" "$(sed -n 's/^\([0-9]*\),.*"\(site_[a-z]*\)".*/\2 \1/p' changes | sort)" "$(grep site said.0 | sort)"
    equal "no difference" "$("$JESPAN_CMD" report --diff --stacks --sort temporary --csv --columns temporary dumps.0 dumps.0 2> err)" \
        "temporary_objects_change,context"
    equal "columns of a difference" "$("$JESPAN_CMD" report --diff --sort temporary off dumps.0 2>&1 | grep -o 'TEMPORARY.*' | tr -s ' ' | uniq)" \
        "TEMPORARY ALLOCS ALLOCATED CONTEXT"
}

# A line has a path of functions and a count.
test_folded() {
    "$JESPAN_CMD" report --stacks --folded --sort temporary dumps.0 > folded 2> err || fail_with "folded" err
    ! grep -vE '^thread:[^; ]*(;main)?;work;make;site_[a-z]* [1-9][0-9]*$' folded || fail_with "not folded" folded
    equal "folded" "$(sed 's/.*;//' folded | awk '{ n[$1] += $2 } END { for (site in n) print site, n[site] }' | sort)" \
        "$(grep site said.0 | sort)"
    equal "folded, in use" "$("$JESPAN_CMD" report --stacks --folded dumps.0 2> err | awk '{ n += $2 } END { print n }')" \
        "$("$JESPAN_CMD" report --exact dumps.0 | awk '/total of/ { print $1 }')"
    for word in --tree --inclusive '--by name'; do
        status=0
        # shellcheck disable=SC2086
        "$JESPAN_CMD" report --folded $word dumps.0 2> err || status=$?
        equal "--folded $word" "$status $(cat err)" \
            "2 jespan: --folded is for each path alone: it cannot go with --by, --tree, --inclusive or --diff"
    done
    status=0
    "$JESPAN_CMD" report --folded --sort peak dumps.0 2> err || status=$?
    equal "--folded --sort peak" "$status $(cat err)" \
        "2 jespan: --svg and --folded are for figures that add up: they cannot go with --sort peak or lifetime; atpeak does"
}

# html FIGURE: its sum over the page of the dumps
html() {
    "$JESPAN_CMD" html --calls -o - dumps.0/*.pb.gz | python3 -c "
import base64, json, re, sys, zlib
text = re.search('<template id=.dumps.>([^<]*)', sys.stdin.read())[1]
data = json.loads(zlib.decompress(base64.b64decode(text), 31))
n = len(data['figures']) + 1
print(sum(data['moments'][0]['changes'][1 + data['figures'].index('$1')::n]))"
}

test_html() {
    "$JESPAN_CMD" help html > /dev/null 2>&1 && have python3 || return 0
    equal "jespan html" "$(html temporary_objects)" "$(sed -n 's/^total //p' said.0)"
}

# /spans, of the sidecar
test_http() {
    [ -f "$JESPAN_MODULES/http.so" ] && have curl && have jq || return 0
    mkfifo in.http
    JESPAN_CONF="stacks:all,module_dir:$JESPAN_MODULES,http_listen:unix:$scratch/socket" "$program" 0 < in.http > said.http &
    pid=$!
    exec 7> in.http
    await_of "$pid" grep -q total said.http || fail "the program did not come to its end"
    await test -S "$scratch/socket" || fail "nobody listens"
    curl -s --unix-socket "$scratch/socket" 'http://localhost/spans?format=json' > spans
    equal "/spans" "$(jq '.all.temporary_objects, ([.spans[].temporary_objects] | add)' spans | tr '\n' ' ')" \
        "$(sed -n 's/^total //p' said.http | sed 's/.*/& & /')"
    exec 7>&-
    wait "$pid" || fail "the program failed"
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
test_diff
test_folded
test_html
test_http
finish
