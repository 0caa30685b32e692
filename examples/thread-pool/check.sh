#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Tests that work on four threads has the same figures as the same work on one.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../../tests/support/lib.sh"
# shellcheck source=examples/figures.sh
. "$top_srcdir/examples/figures.sh"

program=$top_builddir/examples/thread-pool/thread-pool
[ -x "$program" ] || make -s -C "$top_builddir" examples/thread-pool/thread-pool || skip "the example cannot be built"

export JESPAN_CONF=cpu_clock:thread
"$program" 0 > "$scratch/sequential" || fail "on one thread: status $?"
"$program" 4 > "$scratch/async" || fail "on four threads: status $?"
check_memory "$scratch/sequential" "$scratch/async"
check_times "$scratch/sequential"
check_times "$scratch/async"
cat "$scratch/async"
finish
