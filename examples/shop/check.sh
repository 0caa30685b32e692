#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Tests that README.md shows shop.c as it is, and the report that it gives.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../../tests/support/lib.sh"

readme=$top_srcdir/README.md
source=$top_srcdir/examples/shop/shop.c

# shown_program: the first block of C in README.md, from the line after "…"
shown_program() {
    sed -n '/^```c$/,/^```$/p' "$readme" | sed '1,/^…$/d; /^```$/d'
}

# rows FILE: the rows of a report without shares and jespan's own memory, which differ from machine to machine
rows() {
    sed -n 's/^ *\([0-9.]* [KM]*i*B\)  *[0-9.]*%  *\([0-9]*\)  *\([0-9.]* [KM]*i*B\)  \(request.*\)$/\1, \2, \3, \4/p' "$1"
}

shown_program > "$scratch/shown"
tail -n "$(wc -l < "$scratch/shown")" "$source" > "$scratch/source"
diff "$scratch/source" "$scratch/shown" || fail "README.md does not show the end of shop.c"

$CC -Wall -Wextra -Werror -I"$top_srcdir/include" "$source" -o "$scratch/shop" \
    -L"${JESPAN_LIB%/*}" -ljespan -Wl,-rpath,"${JESPAN_LIB%/*}"
"$JESPAN_CMD" run --lib "$JESPAN_LIB" --dump-dir "$scratch/dumps" --interval 0 -- "$scratch/shop"
"$JESPAN_CMD" report "$scratch"/dumps/heap.*.pb.gz > "$scratch/report"
equal "the report in README.md" "$(rows "$readme")" "$(rows "$scratch/report")"
equal "rows of the report" "$(rows "$readme" | wc -l)" 3
finish
