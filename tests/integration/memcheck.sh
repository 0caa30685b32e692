#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The span API under valgrind's memcheck: no invalid access, no decision on undefined memory. The program has a core that
# leaves malloc to valgrind.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

have valgrind || skip "valgrind is not installed"
core=$top_builddir/tests/libcore.a
[ -f "$core" ] || skip "tests/libcore.a is not built"
! grep -q '__[at]san_init' < <(nm "$core" 2> /dev/null) || skip "the core is built for another sanitizer"

# The core may hold more than its own part; the linker takes what is needed. Valgrind 3.19 gives up on clang's DWARF 5.
build() {
    $CC -std=gnu11 -O1 -g -fno-builtin -Wl,--strip-debug -DJESPAN_NO_INTERPOSE "-I$top_srcdir/include" -o "$scratch/$1" \
        "$top_srcdir/tests/integration/$1.c" "$core" -lm -lpthread -ldl > "$scratch/build" 2>&1 ||
        fail_with "$1 cannot be built" "$scratch/build"
}

check() {
    local status=0
    build "$1"
    valgrind -q --error-exitcode=99 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
        --main-stacksize=16000000 "$scratch/$1" > "$scratch/out" 2>&1 || status=$?
    [ "$status" = 0 ] || fail_with "$1 under memcheck: status $status" "$scratch/out"
}

# A program that is wrong must be found so.
check_that_it_can_fail() {
    printf '#include <stdlib.h>\nint main(void) { volatile char *p = malloc(10); return p[3] ? 1 : 0; }\n' > "$scratch/wrong.c"
    $CC -O0 -o "$scratch/wrong" "$scratch/wrong.c"
    ! valgrind -q --error-exitcode=99 "$scratch/wrong" > "$scratch/out" 2>&1 || fail "memcheck finds nothing in a wrong program"
}

check spans
check spans_wrong
check_that_it_can_fail
finish
