#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Tests that 60 interleaved requests on one thread have the same figures as the same requests one after the other.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../../tests/support/lib.sh"
# shellcheck source=examples/figures.sh
. "$top_srcdir/examples/figures.sh"

program=$top_builddir/examples/event-loop/event-loop
[ -x "$program" ] || make -s -C "$top_builddir" examples/event-loop/event-loop || skip "the example cannot be built"

export JESPAN_CONF=cpu_clock:thread
"$program" 1 > "$scratch/sequential" || fail "one at a time: status $?"
"$program" 60 > "$scratch/async" || fail "60 in flight: status $?"
check_memory "$scratch/sequential" "$scratch/async"
check_times "$scratch/sequential"
check_times "$scratch/async"
cat "$scratch/async"
finish
