# SPDX-License-Identifier: BSD-2-Clause
# shellcheck shell=bash disable=SC2154
# For test scripts, after lib.sh: opentelemetry-cpp where pkg-config finds it, else the stand-in for it.

stand_in() {
    local name
    sed -n 's/^#include <\(opentelemetry\/.*\)>/\1/p' "$top_srcdir"/tests/integration/*.cc "$top_srcdir/include/jespan/opentelemetry.hpp" |
        while read -r name; do
            mkdir -p "$scratch/include/${name%/*}"
            echo '#include "support/opentelemetry.h"' > "$scratch/include/$name"
        done
    echo "-I$scratch/include -I$top_srcdir/tests"
}

# opentelemetry_flags: what a compiler needs for it
opentelemetry_flags() {
    local flags
    if have pkg-config && flags=$(pkg-config --cflags --libs opentelemetry_trace 2> /dev/null); then
        echo "${0##*/}: with opentelemetry-cpp $(pkg-config --modversion opentelemetry_trace)" >&2
        echo "${flags//-I/-isystem }" # its warnings are not ours
    else
        stand_in
    fi
}
