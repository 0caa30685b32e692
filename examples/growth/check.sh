#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# What the example prints is what docs/snapshots.md shows.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../../tests/support/lib.sh"

compile "$scratch/growth" examples/growth/growth.c
equal "the output" "$("$scratch/growth" | grep -v thread:)" "$(sed -n 's/^    \([0-9]* bytes .*\)/\1/p' "$top_srcdir/docs/snapshots.md")"
finish
