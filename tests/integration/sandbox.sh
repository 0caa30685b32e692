#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Sandboxes kill a program for a system call that they do not know. jespan makes none that a usual sandbox does not allow,
# whatever it does there.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

sandbox=$scratch/sandbox
mkdir "$scratch/in"
$CC -std=gnu11 -Wall -o "$sandbox" "$top_srcdir/tests/integration/sandbox_program.c"
everything="dump_dir:$scratch/in,dump_at_exit:true,dump_interval_s:1,dump_on:oom|peak,http_listen:unix:$scratch/socket"
everything+=",stacks:all,guard_sample:10,age_period_s:1,trace_file:$scratch/trace,arena:*,limit:*=1G"

# survives WHAT COMMAND… : its status is 7, which means that the program came to its end
survives() {
    local what=$1 status=0
    shift
    "$sandbox" "$@" > "$scratch/out" 2>&1 || status=$?
    [ "$status" = 7 ] || fail_with "$what: status $status" "$scratch/out"
}

program=(bash -c 'for i in {1..2000}; do x+=$i; done; (true); /bin/true; exit 7')

the_library() {
    survives "the library alone" env LD_PRELOAD="$JESPAN_LIB" "${program[@]}"
    survives "everything" env LD_PRELOAD="$JESPAN_LIB" JESPAN_CONF="module_dir:$JESPAN_MODULES,$everything" "${program[@]}"
    ls "$scratch"/in/heap.* > /dev/null || fail "everything: no dump"
}

the_command() {
    "$JESPAN_CMD" help report > /dev/null || return 0
    survives "jespan run" "$JESPAN_CMD" run --dump-dir "$scratch/beside" --http "unix:$scratch/second" -- "${program[@]}"
    survives "jespan run --in-process" "$JESPAN_CMD" run --in-process --dump-dir "$scratch/threads" -- "${program[@]}"
    ls "$scratch"/beside/heap.* "$scratch"/threads/heap.* > /dev/null || fail "jespan run: no dump"
}

# What jemalloc alone calls is enough for a program without spans, and rt_sigprocmask(2) besides for stacks in a program of one thread.
nothing_but_jemalloc() {
    local strict=$scratch/strict arguments status
    $CC -std=gnu11 -Wall -o "$strict" "$top_srcdir/tests/integration/sandbox_strict_program.c" -pthread -lz
    for arguments in "" "renamed" "stacks"; do
        status=0
        # shellcheck disable=SC2086
        JESPAN_CONF=$([ "$arguments" != stacks ] || echo stacks:all) LD_PRELOAD=$JESPAN_LIB "$strict" $arguments > "$scratch/out" 2>&1 || status=$?
        [ "$status" = 7 ] || fail_with "a filter for jemalloc alone ($arguments): status $status" "$scratch/out"
    done
}

the_library
the_command
nothing_but_jemalloc
finish
