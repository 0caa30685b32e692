#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# What each stack allocated and has in use is what the program itself knows, for random paths of calls.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without jespan report"

program=$scratch/stacks_random_program
compile "$program" tests/integration/stacks_random_program.c
cd "$scratch"

# found FIGURE: "PATH N"
found() {
    "$JESPAN_CMD" report --stacks --folded --top 0 --sort "$1" "$pid" 2> report.err |
        sed -n 's/.*;\(begin;go_a;.*leaf_.\) /\1 /p' | awk '{ n[$1] += $2 } END { for (path in n) print path, n[path] }' | sort
}

# run PATHS SEED [near]
run() {
    mkfifo "in.$1"
    JESPAN_CONF=stacks:all "$program" "$@" < "in.$1" > "said.$1" &
    pid=$!
    exec 7> "in.$1"
    await_of "$pid" grep -q end "said.$1" || fail "the program did not come to its end"
    [ "$(grep -c begin "said.$1")" = "$1" ] || fail_with "the paths" "said.$1"
    equal "stacks that were missed, of $1 paths" "$("$JESPAN_CMD" ctl "$pid" get spans.stats.stacks.missed)" 0
    equal "stacks that had no number, of $1 paths" "$("$JESPAN_CMD" ctl "$pid" get spans.stats.stacks.overflow)" 0
    awk '$2 { print $1, $2 }' "said.$1" | sort > expected
    found allocs > got
    cmp -s expected got || fail_with "objects that $1 paths allocated" <(diff expected got | head -20)
    awk '$3 > 0 { print $1, $3 }' "said.$1" | sort > expected
    found objects > got
    cmp -s expected got || fail_with "objects in use of $1 paths" <(diff expected got | head -20)
    exec 7>&-
    wait "$pid" || fail "the program failed"
}

run 20 1
run 400 2
run 8000 3
run 6000 4 near # a multiple of the orders that such paths have
finish
