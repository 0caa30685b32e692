#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# What each stack allocated and has in use is what the program itself knows, for random paths of calls.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without jespan report"

program=$scratch/stacks_random_program
compile "$program" tests/integration/stacks_random_program.c
cd "$scratch"

# innermost DEPTH: "PATH N" with so many calls at most of each path, and the sums of those that are then the same
innermost() {
    sed -E "s/^.*;(([^; ]*;){$(($1 - 1))}[^; ]*) /\\1 /" | awk '{ n[$1] += $2 } END { for (path in n) if (n[path]) print path, n[path] }' | sort
}

# found FIGURE DEPTH: "PATH N"
found() {
    "$JESPAN_CMD" report --stacks --folded --top 0 --sort "$1" "$pid" 2> report.err |
        grep ';leaf_. ' | sed 's/^.*;begin;/begin;/; s/^thread:[^;]*;//' | innermost "$2"
}

# run DEPTH PATHS SEED [near]
run() {
    local depth=$1
    shift
    rm -f in
    : > said
    mkfifo in
    JESPAN_CONF=stacks:all,stacks_depth:$depth "$program" "$@" < in > said &
    pid=$!
    exec 7> in
    await_of "$pid" grep -q end said || fail "the program did not come to its end"
    [ "$(grep -c begin said)" = "$1" ] || fail_with "the paths" said
    equal "stacks that were missed, of $1 paths" "$("$JESPAN_CMD" ctl "$pid" get spans.stats.stacks.missed)" 0
    equal "stacks that had no number, of $1 paths" "$("$JESPAN_CMD" ctl "$pid" get spans.stats.stacks.overflow)" 0
    grep begin said | cut -d ' ' -f 1,2 | innermost "$depth" > expected
    found allocs "$depth" > got
    cmp -s expected got || fail_with "objects that $1 paths allocated, at most $depth calls" <(diff expected got | head -20)
    grep begin said | cut -d ' ' -f 1,3 | innermost "$depth" > expected
    found objects "$depth" > got
    cmp -s expected got || fail_with "objects in use of $1 paths, at most $depth calls" <(diff expected got | head -20)
    exec 7>&-
    wait "$pid" || fail "the program failed"
}

run 64 20 1
run 64 400 2
run 64 8000 3
run 64 6000 4 near # a multiple of the orders that such paths have
# Stacks of different paths have the same innermost calls, at other places.
run 5 1200 6 near
for depth in 3 5 7 20; do
    run "$depth" 4800 9 near
done
finish
