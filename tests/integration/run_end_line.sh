#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The line that `jespan run` prints at the end, where the first process is not the one that matters, and reports of their directory.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/command.sh
. "$top_srcdir/tests/support/command.sh"

library=$JESPAN_LIB
unset JESPAN_LIB

cat > "$scratch/own.c" << 'END'
#include <stddef.h>
static _Alignas(16) char room[1 << 20];
static size_t used;
void *malloc(size_t n) { return &room[(used += (n + 15) & ~(size_t)15) - ((n + 15) & ~(size_t)15)]; }
void free(void *p) { (void)p; }
int main(void) { return !malloc(100); }
END
$CC -fno-builtin -rdynamic -o "$scratch/own" "$scratch/own.c" || fail "own.c cannot be compiled"
cat > "$scratch/large.c" << 'END'
#include <stdlib.h>
#include <string.h>
int main(void) { char *p = malloc(BYTES); return p ? memset(p, 1, BYTES), p[5] != 1 : 2; }
END
$CC -fno-builtin -DBYTES=8000000 -o "$scratch/large" "$scratch/large.c" || fail "large.c cannot be compiled"
$CC -fno-builtin -DBYTES=30000000 -o "$scratch/larger" "$scratch/large.c" || fail "large.c cannot be compiled"

options=()
# run DIRECTORY PROGRAM…: with `options`, and dumps of programs however short they are. The line comes after the program has ended.
run() {
    local directory=$1
    shift
    status=0
    "$JESPAN_CMD" run --lib "$library" "${options[@]}" --interval 0 --dump-dir "$scratch/$directory" -- "$@" > "$scratch/out" 2> "$scratch/err" || status=$?
    await grep -q "; next: " "$scratch/err" || fail_with "run $directory $*: no line at the end" "$scratch/err"
}

test_largest_process() {
    local large
    run wrapped sh -c "'$scratch/large'; exit 7"
    says "a wrapper" 7 "jespan: sh (process *) ended with status 7; at its peak *iB in use, *; large (process *) had most of all processes: at its \
peak 8.0 MiB in use, most by thread:large (8.0 MiB); 2 dumps of 2 processes are in $scratch/wrapped; next: jespan report *"
    large=$(sed -n 's/.*; large (process \([0-9]*\)).*/\1/p' "$scratch/err")
    says "its next command" 7 "*; next: jespan report $scratch/wrapped/heap.$large.1.pb.gz"
    jespan report "$scratch/wrapped"
    says "a directory of two processes" 0 "jespan: note: '$scratch/wrapped' has dumps of several processes; this is that of the process which had \
most in use, heap.$large.1.pb.gz. Name a file to see another process"
    grep -q '^ *8.0 MiB ' "$scratch/out" || fail_with "a directory of two processes: not the large one" "$scratch/out"
    jespan report --json "$scratch/wrapped/heap.$large.1.pb.gz"
    says "its file" 0 ""
}

# Dumps of an earlier run in the same directory are not looked at, nor those of long ago: the newest dump counts.
test_earlier_run() {
    local earlier newest
    run earlier "$scratch/larger"
    earlier=$(dumps_in "$scratch/earlier")
    touch -d '1 minute ago' "$scratch/earlier/$earlier"
    run earlier "$scratch/large"
    newest=$(dumps_in "$scratch/earlier" | grep -vxF "$earlier")
    jespan report "$scratch/earlier"
    says "an earlier run" 0 "jespan: note: '$scratch/earlier' has dumps of several processes; this is the newest, $newest. Name a file to see another process"
    jespan report --at -30s "$scratch/earlier"
    says "at a time" 0 ""
    grep -q '^ *32.0 MiB ' "$scratch/out" || fail_with "at a time: not the dump of that time" "$scratch/out"
    echo no profile > "$scratch/earlier/heap.77.1.pb.gz"
    jespan report "$scratch/earlier"
    says "the newest is no profile" 2 "*heap.77.1.pb.gz: not a pprof profile*"
    touch -d '2 minutes ago' "$scratch/earlier/heap.77.1.pb.gz"
    jespan report "$scratch/earlier"
    says "another one is no profile" 0 "jespan: note: *; this is the newest, $newest. *"
}

test_only_process() {
    run alone "$scratch/large"
    says "one process" 0 "jespan: large (process *) ended with status 0; at its peak 8.0 MiB in use, *; at last *; 1 dump is in *"
    says "one process" 0 "*; at last 8.0 MiB in use, most by thread:large ?8.0 MiB); 1 dump is in *"
    jespan report "$scratch/alone"
    says "a directory of one process" 0 ""
}

# Its next command shows the stacks.
test_stacks() {
    options=(--stacks)
    run stacks "$scratch/large"
    says "--stacks" 0 "*; 1 dump is in *; next: jespan leaks $scratch/stacks/heap.*.1.pb.gz"
    options=(--stacks --conf stacks:off)
    run off "$scratch/large"
    says "--stacks, and off" 0 "*; 1 dump is in *; next: jespan report *"
    options=(--stacks='all@none')
    run names "$scratch/large"
    says "--stacks of names" 0 "*; next: jespan leaks *"
    options=()
}

test_other_malloc() {
    run other "$scratch/own"
    says "a malloc of its own" 0 "jespan: own (process *) ended with status 0; *it has another malloc, and jespan does not see what that allocates; *"
    run wrapped_other sh -c "'$scratch/own'; '$scratch/own'; exit 0"
    says "a malloc of its own, in a wrapper" 0 "jespan: sh (process *) ended with status 0; at its peak *; own (process *) has another malloc, \
and jespan does not see what that allocates; 3 dumps of 3 processes are in *"
}

# With a bound for the directory, the dump of that process may be gone: its newest dump is the shell's.
test_removed_dump() {
    options=(--dir-files 1)
    run bounded sh -c "'$scratch/large'; exit 0"
    says "a dump that was removed" 0 "*; large (process *) had most of all processes: *; 2 dumps of 2 processes were written, the newest are in \
$scratch/bounded; next: jespan report $scratch/bounded"
    options=()
}

# A malloc of the program's own that calls jespan's.
test_wrapped_malloc() {
    cat > "$scratch/calls.c" << 'END'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
void *malloc(size_t n) { void *(*next)(size_t) = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc"); return next(n); }
void free(void *p) { void (*next)(void *) = (void (*)(void *))dlsym(RTLD_NEXT, "free"); next(p); }
int main(void) { char *p = malloc(8000000); return p ? memset(p, 1, 8000000), p[5] != 1 : 2; }
END
    $CC -fno-builtin -rdynamic -o "$scratch/calls" "$scratch/calls.c" -ldl || fail "calls.c cannot be compiled"
    run called "$scratch/calls"
    says "a malloc that calls jespan's" 0 "jespan: calls (process *) ended with status 0; at its peak 8.0 MiB in use, *; at last 8.0 MiB in use, most by \
thread:calls ?8.0 MiB); 1 dump is in *"
}

test_largest_process
test_earlier_run
test_only_process
test_stacks
test_other_malloc
test_wrapped_malloc
test_removed_dump
finish
