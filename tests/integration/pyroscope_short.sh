#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Programs that end while the thread that pushes is starting. None crashes, at whichever moment. (Once, one in thirty
# crashed because OpenSSL cleaned up at exit beside that thread.)
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

[ -e "$JESPAN_MODULES/pyroscope.so" ] || skip "without the module pyroscope"

cat > "$scratch/short.c" << 'END'
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    usleep(argc > 1 ? (useconds_t)atoi(argv[1]) : 0);
    return 0;
}
END
$CC -O1 -o "$scratch/short" "$scratch/short.c"

# The port discard: nobody listens there.
export JESPAN_CONF=module_dir:$JESPAN_MODULES,pyroscope_url:http://127.0.0.1:9
for ((us = 0; us < 20000; us += 50)); do
    LD_PRELOAD=$JESPAN_LIB "$scratch/short" "$us" 2> "$scratch/err" ||
        fail_with "a program that ends after $us µs: status $?" "$scratch/err"
done
finish
