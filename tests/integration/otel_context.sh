#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# otel_context: another process reads the process context, and the trace of each thread of a program with
# <jespan/opentelemetry.hpp>. With opentelemetry-cpp where pkg-config finds it, else with the stand-in for it.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/opentelemetry.sh
. "$top_srcdir/tests/support/opentelemetry.sh"

read -ra cxx <<< "$CXX"
need "${cxx[0]}" python3 readelf
[ "$(uname -m)" = x86_64 ] || skip "the reader knows x86-64 only"
flags=$(opentelemetry_flags)
# shellcheck disable=SC2086
"${cxx[@]}" -std=c++17 -fno-builtin -Wall -Wextra -Werror -I"$top_srcdir/include" -o "$scratch/shop" \
    "$top_srcdir/tests/integration/otel_context_program.cc" -L"${JESPAN_LIB%/*}" -Wl,-rpath,"${JESPAN_LIB%/*}" -ljespan -lpthread $flags

# reads CONFIGURATION LINE…: the program with the configuration, which publishes what the lines say
reads() {
    local status=0
    JESPAN_CONF=$1 python3 -B "$top_srcdir/tests/support/otel_context.py" "$JESPAN_LIB" "$scratch/shop" "${@:2}" > "$scratch/said" 2>&1 || status=$?
    [ "$status" != 77 ] || skip "$(cat "$scratch/said")"
    [ "$status" = 0 ] || fail_with "$1: status $status" "$scratch/said"
}

reads otel_context:true "resource service.name shop" "resource process.executable.name shop" "resource host.name $(uname -n)" \
    "attribute threadlocal.schema_version tlsdesc_v1_dev" "attribute threadlocal.attribute_key_map []"
equal "what was compared" "$(grep compared "$scratch/said")" "compared 16"
reads "otel_context:true,pyroscope_app:cart,resource_attributes:service.name=no|service.version=1%2C2|service.version=3|host.name=h" \
    "resource service.name cart" "resource service.version 1,2" "resource host.name h"
OTEL_SERVICE_NAME=till OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=test,note=$'\xff\xc3\xa9' reads otel_context:true \
    "resource service.name till" "resource deployment.environment.name test" "resource note ?é"
finish
