#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Mean lifetimes by stack and by span are those that the program itself measures.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without jespan report"

program=$scratch/lifetimes_program
compile "$program" tests/integration/lifetimes_program.c
cd "$scratch"

# lifetimes OPTIONS... INPUT: "NAME ALLOCS MEAN_NS" of each row
lifetimes() {
    "$JESPAN_CMD" report "$@" --csv --columns allocs,lifetime 2> report.err |
        sed -n 's/^\([0-9]*\),\([0-9]*\),.*"\(site_[a-z]*\|model\)".*/\3 \1 \2/p'
}

# fits WHAT EXPECTED FOUND: a stack may be missing while the machine is busy, so counts may differ by a hundredth. All
# others have to be within the bounds, and most rows must be there.
fits() {
    awk -v what="$1" '
        NR == FNR { n[$1] = $2; least[$1] = $3; most[$1] = $4; next }
        $1 in n {
            seen++
            sum = $2 * $3
            few = $2 < n[$1] * 0.99 || $2 > n[$1]
            if (few || sum < least[$1] * 0.98 - $2 || sum > most[$1] + $2)
                print what ": " $1 ": " $2 " objects, together " sum " ns; should be " n[$1] ", " least[$1] " to " most[$1]
        }
        END {
            for (name in n)
                all++
            if (seen != all)
                print what ": " seen + 0 " of " all " rows"
        }' "$2" "$3" > wrong
    [ ! -s wrong ] || fail_with "$1" wrong "$3" report.err
}

# model NAME CONF WORDS...: runs the program, and compares its dump and what can be read from outside
model() {
    local name=$1 conf=$2
    shift 2
    mkfifo "in.$name"
    JESPAN_CONF="lifetimes:true,$conf" "$program" "dump.$name" "$@" < "in.$name" > "said.$name" &
    pid=$!
    exec 7> "in.$name"
    await_of "$pid" grep -q pid "said.$name" || fail "the program did not come to its end"
    grep ^site "said.$name" > dumped
    sed -n 's/^freed //p' "said.$name" > freed
    child=$(sed -n 's/^pid //p' "said.$name")
    for when in dumped freed; do
        awk '{ n += $2; least += $3; most += $4 } END { print "model", n, least, most }' $when > $when.sum
    done
    lifetimes "dump.$name" > found
    fits "the span in the dump, $name" dumped.sum found
    lifetimes "$child" > found
    fits "the span from outside, $name" freed.sum found
    case $conf,$* in
    stacks:all, | stacks:all,fork)
        lifetimes --by function "dump.$name" > found
        fits "functions in the dump, $name" dumped found
        lifetimes --by function "$child" > found
        fits "functions from outside, $name" freed found
        ;;
    esac
    [ "$name" != served ] || over_http
    exec 7>&-
    wait "$pid" || fail "the program failed"
}

all_lifetimes() {
    "$JESPAN_CMD" ctl "$child" get spans.all.lifetimes_us
}

# Objects in use grow older, so the sum grows.
over_http() {
    local before after value
    before=$(all_lifetimes)
    value=$(curl -sS --max-time 600 --unix-socket "$scratch/socket" http://localhost/spans | sed -n 's/.*"all":{.*"lifetimes_us":\([0-9]*\).*/\1/p')
    after=$(all_lifetimes)
    [ "${value:-0}" -gt 0 ] && [ "$before" -le "$value" ] && [ "$value" -le "$after" ] ||
        fail "over HTTP: lifetimes_us is '$value', should be from $before to $after"
}

# The order, what does not add up, and what other outputs have
test_report() {
    "$JESPAN_CMD" report --stacks --sort lifetime dump.all > out
    equal "the columns" "$(sed -n 2p out | tr -s ' ')" 'LIFETIME ALLOCS IN USE OBJECTS ALLOCATED CONTEXT'
    "$JESPAN_CMD" report --by function --sort lifetime --csv --columns lifetime dump.all | sed -n 's/^\([0-9]*\),.*/\1/p' > order
    sort -rnc order 2> /dev/null || fail_with "the order" order
    grep -q '[1-9]' order || fail_with "no lifetimes" order
    "$JESPAN_CMD" report --json --columns lifetime dump.all > json
    grep -q '"mean_lifetime_ns": [1-9]' json || fail_with "no lifetimes in JSON" json
    status=0
    "$JESPAN_CMD" report --stacks --folded --sort lifetime dump.all > out 2> err || status=$?
    equal "folded" "$status $(cat err)" \
        "2 jespan: --svg and --folded are for figures that add up: they cannot go with --sort peak or lifetime; atpeak does"
}

test_html() {
    "$JESPAN_CMD" html -o page.html dump.all > out 2> err || fail_with "a page of a dump with lifetimes: $?" err
}

test_none() {
    status=0
    JESPAN_CONF=stacks:all "$program" dump.none < /dev/null > out
    "$JESPAN_CMD" report --sort lifetime dump.none > out 2> err || status=$?
    equal "without lifetimes" "$status $(sed -n '$s/.*: it/it/p' err)" \
        "2 it has no lifetimes: they are known with 'jespan run --conf lifetimes:true'"
}

model all stacks:all
model off stacks:off
model sampled stacks:sampled,stacks_sample_bytes:10000
model switched stacks:off switch
model forked stacks:all fork
if have curl && [ -f "$JESPAN_MODULES/http.so" ]; then
    model served "stacks:all,module_dir:$JESPAN_MODULES,http_listen:unix:$scratch/socket"
fi
test_report
test_html
test_none
finish
