#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Another preloaded library allocates in a function of libc that jespan and jemalloc call when they start. Where jemalloc is shared, it
# starts before jespan and waits for itself, as it does alone.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
cd "$scratch"

$CC -std=gnu11 -O1 -g -fno-builtin -Wall -Wextra -DLIBRARY -shared -fPIC -o clock.so "$top_srcdir/tests/integration/early_program.c"
$CC -std=gnu11 -O1 -g -fno-builtin -Wall -Wextra -rdynamic -o program "$top_srcdir/tests/integration/early_program.c"

# starts WHAT VARIABLE... : the program, with both libraries in either order
starts() {
    local what=$1 libraries status
    shift
    for libraries in "$JESPAN_LIB:$PWD/clock.so" "$PWD/clock.so:$JESPAN_LIB"; do
        status=0
        env "$@" LD_PRELOAD="$libraries" timeout 300 ./program > out 2> err || status=$?
        equal "$what, $libraries: status" "$status" 0
        equal "$what, $libraries" "$(cat out err)" "allocated early"
    done
}

starts "as it is"
starts "a thread of jemalloc" MALLOC_CONF=background_thread:true
starts "stacks" JESPAN_CONF=stacks:all
starts "ages" JESPAN_CONF=age_period_s:1
starts "guarded objects" JESPAN_CONF=guard_sample:1
finish
