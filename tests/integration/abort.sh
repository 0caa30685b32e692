#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Double and foreign frees write exactly one line to stderr, which names the pointer, and then raise SIGABRT.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

SIGABRT_STATUS=134
program=$scratch/abort_program
compile "$program" tests/integration/abort_program.c -Wno-use-after-free -Wno-free-nonheap-object
ulimit -c 0

run_case() {
    local name=$1 status=0 pointer
    # The shell's own words about the abort stay out of the program's stderr.
    { "$program" "$name" > "$scratch/out" 2> "$scratch/err" || status=$?; } 2> /dev/null
    pointer=$(cat "$scratch/out")
    equal "$name: status" "$status" "$SIGABRT_STATUS"
    equal "$name: stderr" "$(cat "$scratch/err")" \
        "jespan: free of a pointer that is not allocated (freed before, or never): $pointer"
}

cases=$("$program")
[ "$(wc -l <<< "$cases")" -ge 25 ] || fail "the program lists only: $cases"
for name in $cases; do
    run_case "$name"
done

# The same program does nothing wrong when it is not told to.
"$program" none > "$scratch/out" 2>&1 || fail "a run without corruption ended with $?"
equal "output of a run without corruption" "$(cat "$scratch/out")" ""
finish
