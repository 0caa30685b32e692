#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# More stacks than there are numbers: stacks are cut, and no memory is lost.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without jespan report"

program=$scratch/program
compile "$program" tests/integration/stacks_cut_program.c
cd "$scratch"

# held FILE FUNCTION: objects in use below the function
held() {
    "$JESPAN_CMD" report --by function --csv --columns objects "$1" 2> /dev/null | sed -n "s/^\([0-9]*\),\"$2\"\$/\1/p"
}

# run ARGUMENT…: there are numbers for 2,048 stacks, and an eighth of these are for stacks that are cut
run() {
    JESPAN_CONF=stacks:all,max_stacks:32768 "$program" "$@" || fail "the program ends with $? for: $*"
}

# All numbers are taken by memory in use.
test_full() {
    run paths 0 2500 dump full
    equal "all objects" "$(held full main)" 2500
    equal "whole stacks" "$(held full hold)" 1792
    equal "stacks that were cut" "$(held full '(cut)')" 708
    equal "no stack lost paths()" "$(held full paths)" 2500
    "$JESPAN_CMD" report --stacks --csv --columns objects full > rows 2> err
    equal "the note" "$(grep 'too many' err)" "jespan: note: too many stacks: 708 were cut, and 0 allocations have none; see max_stacks"
    equal "without stacks" "$("$JESPAN_CMD" report full 2>&1 | grep -c 'too many')" 0
    [ "$(grep -c '> (cut)"' rows)" -gt 32 ] || fail_with "too few different stacks that were cut" rows
    equal "the comment" "$(gzip -dc full | grep -ac 'too many stacks: 708 were cut, and 0 allocations have none;')" 1
}

# When memory is free again, stacks are whole, also those that were cut before.
test_whole_again() {
    run paths 0 2500 free others 0 300 dump before paths 2300 2400 dump after
    equal "others" "$(($(held before hold) + $(held before '(cut)')))" 300
    [ "$(held before '(cut)')" -le 128 ] || fail "others() is not whole: $(held before '(cut)')"
    equal "more that were cut" "$(held after '(cut)')" "$(held before '(cut)')"
    equal "paths that were cut before" "$(held after paths)" 100
    equal "whole and cut" "$(($(held after hold) + $(held after '(cut)')))" 400
}

# One function calls very many others: these are cut, and the stacks of all other code stay whole.
test_many_functions() {
    run many paths 0 50 dump many
    equal "all objects" "$(held many main)" 2098
    equal "many" "$(held many many)" 2048
    equal "whole and cut" "$(($(held many hold) + $(held many '(cut)')))" 2098
    [ "$(held many '(cut)')" -gt 1000 ] || fail "too few were cut: $(held many '(cut)')"
    equal "what comes after" "$(held many paths)" 50
    "$JESPAN_CMD" report --stacks --csv --columns objects many > rows 2> /dev/null
    equal "where stacks are cut" "$(sed -n 's/.*"\(.* > \)*\(many > (cut)\)"$/\2/p; s/.*[^y] > (cut)"$/elsewhere/p' rows)" "many > (cut)"
}

test_full
test_whole_again
test_many_functions
finish
