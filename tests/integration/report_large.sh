#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan report` of a dump whose samples are too many for memory: they are read again from the file. From a pipe they all are in memory, and
# the output is the same. --top shows the first of all rows, in little memory.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null || skip "built without the pprof exporter"
make_profile=$top_builddir/tests/support/make_profile
cd "$scratch"
"$make_profile" rows 1000000 > large # 78 MB unpacked
"$make_profile" rows 30000 > small

report() {
    "$JESPAN_CMD" report "$@"
}

# same OPTION… : the file and a pipe
same() {
    report "$@" large > from_file 2> err || fail_with "report $*: status $?" err
    # shellcheck disable=SC2002
    cat large | report "$@" - > from_pipe 2> err || fail_with "report $* of a pipe: status $?" err
    cmp from_file from_pipe > err || fail_with "report $*: a file and a pipe differ" err
    [ -s from_file ] || fail "report $*: prints nothing"
}

same --top 30 --sort objects --filter 'span1 > **'
if at_full_length; then
    same --top 5 --by name
    same --by label:id --csv
    same --top 20 --tree
    same --top 20 --sort peak
fi

report --diff --top 20 small large > from_file
report --diff --top 20 small <(cat large) > from_pipe
cmp from_file from_pipe > err || fail_with "report --diff: a file and a pipe differ" err

# The first of all rows, and the sum of the others
report --csv large > all
report --csv --top 1000 large > top
head -n 1001 all | cmp - top > err || fail_with "--top 1000 are not the first rows" err
report --exact --top 1000 large > top
hidden=$(tail -n +1002 all | cut -d, -f1 | awk '{sum += $1} END {printf "%.0f", sum}')
equal "the sum of the rows that are not shown" "$(awk '/ more\)$/ {print $1}' top)" "$hidden"

# KiB of address space: the samples alone take 94 MB, and rows for all of them 120 MB
limited() {
    ulimit -v 160000
    report --top 30 "$@" > limited 2> err
}
if (limited small); then
    (limited large) || fail_with "report --top does not fit into little memory" err
    report --top 30 large > from_file
    cmp from_file limited > err || fail_with "report --top prints something else with little memory" err
    # shellcheck disable=SC2002
    (cat large | limited -) && fail "a pipe fits too, so the bound is too high to tell anything"
fi

# Damage behind the samples that would fit
size=$(stat -c %s large)
head -c $((size - 100000)) large > truncated
report --top 3 truncated > out 2> err && fail "a truncated file is taken"
equal "what is said of a truncated file" "$(cat err)" "jespan: truncated: the file is truncated"
{ head -c $((size / 2)) large && printf 'garbage' && tail -c +$((size / 2 + 8)) large; } > damaged
report --top 3 damaged > out 2> err && fail "a damaged file is taken"
equal "what is said of a damaged file" "$(cat err)" "jespan: damaged: the gzip data is damaged"
finish
