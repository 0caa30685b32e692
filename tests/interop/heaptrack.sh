#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# jespan with stacks:all and heaptrack find the same stacks in the same program, with the same number of allocations and
# the same bytes in use at its end.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

need heaptrack heaptrack_print

program=$scratch/program
${CC:-cc} -O2 -g -o "$program" "$top_srcdir/tests/interop/heaptrack_program.c"

# folded COST: sorted rows "main;left;take NUMBER" in $scratch/COST. heaptrack's are "main (file.c);left (file.c); NUMBER".
folded() {
    heaptrack_print -f "$scratch/heaptrack.zst" --flamegraph-cost-type "$1" -F "$scratch/$1.raw" > "$scratch/said" 2>&1 ||
        fail_with "heaptrack_print" "$scratch/said"
    sed -n 's/ ([^;]*);/;/g; s/^\(main;.*\); \([0-9]*\)$/\1 \2/p' "$scratch/$1.raw" | sort > "$scratch/$1"
}

heaptrack -o "$scratch/heaptrack" "$program" > "$scratch/said" 2>&1 || fail_with "heaptrack" "$scratch/said"
folded allocations
folded leaked
join "$scratch/allocations" "$scratch/leaked" > "$scratch/expected"

"$JESPAN_CMD" run --stacks --dump-dir "$scratch/dumps" -- "$program" 2> "$scratch/said" || fail_with "jespan run" "$scratch/said"
"$JESPAN_CMD" report --stacks --csv --columns allocs,inuse "$scratch/dumps" > "$scratch/csv"
sed -n 's/^\([0-9]*\),\([0-9]*\),"thread:program > \(.*\)"$/\3 \1 \2/; s/ > /;/gp' "$scratch/csv" | sort > "$scratch/found"

stacks=$(wc -l < "$scratch/expected")
[ "$stacks" -gt 200 ] || fail_with "heaptrack finds only $stacks stacks" "$scratch/expected"
diff "$scratch/expected" "$scratch/found" > "$scratch/diff" || fail_with "other stacks or figures" "$scratch/diff"
finish
