#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Mistakes with free and realloc, as docs/heap-bugs.md lists them: which ones end the program, with a line that names the
# pointer. `heap_bugs.sh --table` prints the table, with the behaviour of glibc and plain jemalloc on this machine.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

SIGABRT_STATUS=134
program=$scratch/heap_bugs
message="free of a pointer that is not allocated (freed before, or never)"
plain_jemalloc=$(ldconfig -p | awk '/libjemalloc\.so\.2/ && !n++ { print $NF }')
$CC -std=gnu11 -O1 -fno-builtin -w -o "$program" "$top_srcdir/tests/integration/heap_bugs_program.c" -lpthread
ulimit -c 0

# meet LIBRARY BUG [CONFIGURATION]: sets status; what the program printed is in $scratch/out and $scratch/err
meet() {
    status=0
    { (JESPAN_CONF=${3-} LD_PRELOAD=$1 exec "$program" "$2") > "$scratch/out" 2> "$scratch/err" || status=$?; } 2> /dev/null
}

outcome() {
    case $status in
        0) echo "goes on" ;;
        139) if grep -q '^jespan:   object of' "$scratch/err"; then echo "**ends**"; else echo "SIGSEGV"; fi ;;
        "$SIGABRT_STATUS") if [ -s "$scratch/err" ]; then echo "**ends**"; else echo "SIGABRT"; fi ;;
        *) echo "status $status" ;;
    esac
}

print_table() {
    local bug what row library
    echo "| mistake | jespan | guarded | glibc | jemalloc |"
    echo "|---|---|---|---|---|"
    while IFS=$'\t' read -r bug what; do
        row="| $what |"
        meet "$JESPAN_LIB" "$bug"
        row+=" $(outcome) |"
        meet "$JESPAN_LIB" "$bug" guard_sample:1,guard_slots:4096
        row+=" $(outcome) |"
        for library in "" "$plain_jemalloc"; do
            meet "$library" "$bug"
            row+=" $(outcome) |"
        done
        echo "$row"
    done < <("$program")
}

check() {
    local bug=$1 what=$2 row
    row=$(grep -F -- "| $what |" "$top_srcdir/docs/heap-bugs.md") || fail "docs/heap-bugs.md has no row: $what"
    meet "$JESPAN_LIB" "$bug"
    equal "$bug: as documented" "$(awk -F ' *[|] *' '{ print $3 }' <<< "$row")" "$(outcome)"
    if [ "$status" != 0 ]; then
        equal "$bug: status" "$status" "$SIGABRT_STATUS"
        equal "$bug: stderr" "$(cat "$scratch/err")" "jespan: $message: $(cat "$scratch/out")"
    else
        equal "$bug: stderr" "$(cat "$scratch/err")" ""
    fi
    meet "$JESPAN_LIB" "$bug" guard_sample:1,guard_slots:4096
    equal "$bug: as documented, guarded" "$(awk -F ' *[|] *' '{ print $4 }' <<< "$row")" "$(outcome)"
}

if [ "${1-}" = --table ]; then
    print_table
    exit 0
fi
n=0
while IFS=$'\t' read -r bug what; do
    check "$bug" "$what"
    n=$((n + 1))
done < <("$program")
[ "$n" -ge 33 ] || fail "the program lists $n bugs only"
finish
