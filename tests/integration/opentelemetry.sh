#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# <jespan/opentelemetry.hpp>, with opentelemetry-cpp where pkg-config finds it, else with the stand-in for it. Also without the
# library, with JESPAN_DISABLE.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

read -ra cxx <<< "$CXX"
need "${cxx[0]}"
program=$top_srcdir/tests/integration/opentelemetry_program.cc

stand_in() {
    local name
    sed -n 's/^#include <\(opentelemetry\/.*\)>/\1/p' "$program" "$top_srcdir/include/jespan/opentelemetry.hpp" | while read -r name; do
        mkdir -p "$scratch/include/${name%/*}"
        echo '#include "support/opentelemetry.h"' > "$scratch/include/$name"
    done
    echo "-I$scratch/include -I$top_srcdir/tests"
}

if have pkg-config && flags=$(pkg-config --cflags --libs opentelemetry_trace 2> /dev/null); then
    echo "opentelemetry.sh: with opentelemetry-cpp $(pkg-config --modversion opentelemetry_trace)"
    flags=${flags//-I/-isystem } # its warnings are not ours
else
    flags=$(stand_in)
fi

# builds WHAT ARGUMENT… : whether it compiles, in silence
builds() {
    # shellcheck disable=SC2086
    "${cxx[@]}" -std=c++17 -fno-builtin -Wall -Wextra -Wshadow -pedantic -Werror -I"$top_srcdir/include" "${@:2}" $flags > "$scratch/said" 2>&1 ||
        fail_with "$1 does not compile" "$scratch/said"
}

builds "the program" -o "$scratch/program" "$program" -L"${JESPAN_LIB%/*}" -Wl,-rpath,"${JESPAN_LIB%/*}" -ljespan -lpthread &&
    { "$scratch/program" 2> "$scratch/said" || fail_with "status $?" "$scratch/said"; }

cat > "$scratch/without.cc" << 'END'
#include <jespan/opentelemetry.hpp>
#include <opentelemetry/sdk/trace/tracer_provider.h>
#include <opentelemetry/trace/scope.h>

int main()
{
    opentelemetry::sdk::trace::TracerProvider provider{std::vector<std::unique_ptr<opentelemetry::sdk::trace::SpanProcessor>>{}};
    jespan::otel::install(provider);
    auto span = provider.GetTracer("shop")->StartSpan("request");
    opentelemetry::trace::Scope scope{span};
    return 0;
}
END
builds "a program without jespan" -DJESPAN_DISABLE -o "$scratch/without" "$scratch/without.cc" -lpthread &&
    { "$scratch/without" || fail "without jespan: status $?"; }
finish
