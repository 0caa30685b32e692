#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# usage: bounded.sh COMMAND…
# Becomes COMMAND, a test. After TEST_SECONDS (900) the test is taken to hang: where each thread of each of its processes
# is goes to stderr, and they are killed. A line with the seconds that COMMAND took is added to the file $TEST_TIMES, if set.
seconds=${TEST_SECONDS:-900}

# The process and all that it began, one number on a line.
family_of() {
    local child children
    echo "$1"
    read -r -d '' -a children < <(cat /proc/"$1"/task/*/children 2> /dev/null)
    for child in "${children[@]}"; do
        family_of "$child"
    done
}

show() {
    echo "--- process $1: $(tr '\0' ' ' < /proc/"$1"/cmdline)"
    timeout -k 5 60 gdb -q -nx -batch -p "$1" -ex 'thread apply all backtrace 24' 2> /dev/null | grep -E '^(Thread|#)'
}

# Not a child of the test, which may wait for its children.
watch() {
    local process family
    timeout "$seconds" tail --pid="$1" -f /dev/null
    [ $? = 124 ] || {
        [ -z "${TEST_TIMES-}" ] || echo "$SECONDS ${*: -1}" >> "$TEST_TIMES"
        return
    }
    family=$(family_of "$1")
    echo "hangs: not over after $seconds seconds"
    for process in $family; do
        show "$process"
    done
    # shellcheck disable=SC2086
    kill -KILL $family
}

(watch $$ "$@" < /dev/null >&2 &)
exec "$@"
