#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# <jespan/opentelemetry.hpp>, with opentelemetry-cpp where pkg-config finds it, else with the stand-in for it. Also without the
# library, with JESPAN_DISABLE.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/opentelemetry.sh
. "$top_srcdir/tests/support/opentelemetry.sh"

read -ra cxx <<< "$CXX"
need "${cxx[0]}"
program=$top_srcdir/tests/integration/opentelemetry_program.cc

flags=$(opentelemetry_flags)

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
