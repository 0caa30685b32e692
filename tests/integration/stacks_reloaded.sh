#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Plugins that are loaded one after the other at the same address, with frames of other sizes: no stack has a caller that
# did not call.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without jespan report"

compile "$scratch/program" tests/integration/stacks_reloaded_program.c -ldl
cd "$scratch"
for frame in 24 104 4000; do
    cat > plugin.c << END
#include <stdlib.h>
void *outer(size_t n)
{
    volatile char frame[$frame];
    frame[0] = 1;
    void *p = malloc(n);
    __asm__ volatile("" : : "r"(p) : "memory");
    return p;
}
END
    $CC -g -O1 -fPIC -shared -fno-stack-protector -o "plugin$frame.so" plugin.c
done

# callers WHAT LIBRARY…: all objects of `outer` have the caller main, and no other.
callers() {
    local what=$1 objects
    shift
    rm -rf dumps
    mkdir dumps
    JESPAN_CONF=stacks:all,dump_dir:dumps,dump_at_exit:true ./program "$@" > addresses || fail "$what: the program failed"
    equal "$what: one place" "$(sort -u addresses | wc -l)" 1
    "$JESPAN_CMD" report --folded --stacks --sort objects dumps > folded 2> err || fail_with "$what: report" err
    objects=$(awk '$0 ~ /;main;outer [0-9]*$/ { n += $NF } END { print n + 0 }' folded)
    equal "$what: objects of outer, called by main" "$objects" $((300 * $#))
}

callers "a larger frame" ./plugin24.so ./plugin104.so
callers "a smaller frame" ./plugin4000.so ./plugin24.so
callers "in turn" ./plugin24.so ./plugin4000.so ./plugin104.so ./plugin24.so ./plugin104.so ./plugin4000.so
finish
