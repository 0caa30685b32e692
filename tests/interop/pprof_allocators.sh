#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# In the real google/pprof, stacks begin with the function that asked for the memory, as in `jespan report`.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/pprof_tool.sh
. "$(dirname "$0")/../support/pprof_tool.sh"

need addr2line
cd "$scratch"

# own_in_pprof NAME, own_in_report NAME: bytes in use that the function itself asked for
own_in_pprof() {
    awk -v name="$1" '{ sub(/ \(inline\)$/, "") } $6 == name { sub(/B$/, "", $1); print $1 }' top
}

own_in_report() {
    awk -F, -v name="$1" '{ key = $6; gsub(/"/, "", key); sub(/\(.*/, "", key) } key == name { print $3 }' functions.csv
}

check() {
    local name
    rm -rf dumps
    mkdir dumps
    JESPAN_CONF=stacks:all,dump_dir:dumps,dump_at_exit:true preloaded ./program || fail "$1: the program fails"
    "$JESPAN_CMD" report --by function --csv dumps > functions.csv 2> said || fail_with "$1: report" said
    pprof -top -nodefraction=0 -unit=B dumps/*.pb.gz > top
    for name in Part::Part xmallow get; do
        equal "$1: $name" "$(own_in_pprof $name)" "$(own_in_report $name)" || fail_with "$1" top
    done
    equal "$1: of the constructor" "$(own_in_pprof Part::Part)" 32768
    equal "$1: of two functions below get()" "$(own_in_pprof xmallow) $(own_in_pprof get)" "10240 7168"
    for name in zmalloc xmalloc malloc 'operator new' allocate; do
        ! grep -qE "(  |::)$name( |\$)" top || fail_with "$1: $name is shown" top
    done
    equal "$1: total" "$(sed -n 's/.*for \([0-9]*\)B, 100% of.*/\1/p' top)" "$(awk -F, 'NR > 1 { n += $3 } END { print n }' functions.csv)"
}

for optimise in -O0 -O2; do
    # shellcheck disable=SC2086
    $CXX -std=c++17 -g $optimise -o program "$top_srcdir/tests/interop/pprof_allocators_program.cc"
    check "$optimise"
done
finish
