#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The public headers as programs use them: with JESPAN_DISABLE and without the library, mallctl.h beside jemalloc's header,
# the classes of C++, and the examples of C++20. The examples are also built with JESPAN_DISABLE.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

warnings=(-Wall -Wextra -Werror -I"$top_srcdir/include")
library=(-L"${JESPAN_LIB%/*}" "-Wl,-rpath,${JESPAN_LIB%/*}" -ljespan -lpthread)
tests=$top_srcdir/tests/integration
examples=$top_srcdir/examples

read -ra c <<< "$CC"
read -ra cxx <<< "$CXX"
have "${cxx[0]}" || cxx=()

# builds OUTPUT COMPILER ARGUMENT… : whether it compiles, in silence
builds() {
    local output=$scratch/$1
    shift
    if ! "$@" -o "$output" > "$scratch/said" 2>&1 || [ -s "$scratch/said" ]; then
        fail_with "does not compile: $*" "$scratch/said"
        return 1
    fi
}

# runs PROGRAM ARGUMENT… : whether its status is 0
runs() {
    local program=$1
    shift
    timeout 600 "$scratch/$program" "$@" > "$scratch/out" 2>&1 || fail_with "$program $*: status $?" "$scratch/out"
}

# can COMPILER ARGUMENT… : whether it compiles what stdin has
can() {
    "$@" -fsyntax-only - > /dev/null 2>&1
}

# needs_no_library PROGRAM
needs_no_library() {
    nm -u "$scratch/$1" > "$scratch/undefined"
    readelf -d "$scratch/$1" > "$scratch/dynamic"
    if grep jespan "$scratch/undefined" "$scratch/dynamic" > "$scratch/found"; then
        fail_with "$1 needs the library" "$scratch/found"
    fi
}

# ---- Without jespan ----

# The program below uses each public function and each macro that takes arguments.
disabled_program_is_whole() {
    local name
    {
        sed -n 's/^JESPAN_API .*\b\(jespan_[a-z_]*\)(.*/\1/p' "$top_srcdir"/include/jespan/*.h | grep -Ev '_(block|block_labels|credit|region)$'
        sed -n 's/^#define \(JESPAN\(_[A-Z_]*[A-Z]\)\?\)(.*/\1/p' "$top_srcdir"/include/jespan/*.h
        echo jespan_credit
        sed -n 's/^class \([a-z]*\) .*/jespan::\1/p; s/^class \([a-z]*\) *{/jespan::\1/p' "$top_srcdir/include/jespan/jespan.hpp"
    } | sort -u > "$scratch/names"
    [ "$(wc -l < "$scratch/names")" -ge 35 ] || fail_with "public names are missing here" "$scratch/names"
    while read -r name; do
        grep -q "\\b$name\\b" "$tests/api_disabled.c" || fail "api_disabled.c does not use $name"
    done < "$scratch/names"
}

# disabled NAME COMPILER ARGUMENT… : builds and runs a program without the library
disabled() {
    local name=$1
    shift
    builds "$name" "$@" -DJESPAN_DISABLE "${warnings[@]}" || return 0
    needs_no_library "$name"
    runs "$name"
}

programs_without_jespan() {
    local level
    for level in -O0 -O2; do
        disabled "c$level" "${c[@]}" -std=gnu11 $level "$tests/api_disabled.c"
        [ ${#cxx[@]} -gt 0 ] || continue
        disabled "c++$level" "${cxx[@]}" -std=c++17 $level -x c++ "$tests/api_disabled.c"
    done
}

examples_without_jespan() {
    local uv docstore
    disabled shop "${c[@]}" "$examples/shop/shop.c"
    disabled growth "${c[@]}" -std=gnu11 "$examples/growth/growth.c"
    disabled thread-pool "${c[@]}" -std=gnu11 "$examples"/thread-pool/*.c -lpthread
    builds csv.so "${c[@]}" -std=gnu11 -shared -fPIC -DJESPAN_DISABLE "${warnings[@]}" "$examples/reporter/csv.c" || return 0
    needs_no_library csv.so
    # shellcheck disable=SC2086
    if have pkg-config && uv=$(pkg-config --cflags --libs libuv 2> /dev/null); then
        disabled event-loop "${c[@]}" -std=gnu11 "$examples/event-loop/main.c" $uv
    else
        echo "api.sh: not tested: examples/event-loop, since libuv is not there"
    fi
    # shellcheck disable=SC2086
    if have pkg-config && docstore=$(pkg-config --cflags --libs libmicrohttpd jansson sqlite3 2> /dev/null); then
        builds docstore "${c[@]}" -std=gnu11 -DJESPAN_DISABLE "${warnings[@]}" "$examples"/docstore/*.c $docstore -lpthread || return 0
        needs_no_library docstore
    else
        echo "api.sh: not tested: examples/docstore, since its libraries are not there"
    fi
}

# ---- mallctl ----

mallctl_headers() {
    local order
    for order in ALONE JEMALLOC_BEFORE JEMALLOC_AFTER; do
        if [ $order != ALONE ] && ! can "${c[@]}" -x c <<< '#include <jemalloc/jemalloc.h>'; then
            echo "api.sh: not tested: mallctl.h beside jemalloc.h, which is not there"
            return
        fi
        builds "mallctl-$order" "${c[@]}" -std=gnu11 -D$order "${warnings[@]}" "$tests/api_mallctl.c" "${library[@]}" || continue
        runs "mallctl-$order"
        builds "disabled-$order.o" "${c[@]}" -std=gnu11 -D$order -DJESPAN_DISABLE "${warnings[@]}" -c "$tests/api_mallctl.c" || true
        [ ${#cxx[@]} -gt 0 ] || continue
        builds "mallctl++$order" "${cxx[@]}" -std=c++17 -D$order "${warnings[@]}" -x c++ "$tests/api_mallctl.c" -x none "${library[@]}" || continue
        runs "mallctl++$order"
        builds "disabled++$order.o" "${cxx[@]}" -std=c++17 -D$order -DJESPAN_DISABLE "${warnings[@]}" -x c++ -c "$tests/api_mallctl.c" || true
    done
}

# ---- C++ ----

classes() {
    builds classes "${cxx[@]}" -std=c++17 -fno-builtin "${warnings[@]}" "$tests/api_classes.cc" "${library[@]}" || return 0
    runs classes
}

has_cxx20() {
    can "${cxx[@]}" -std=c++20 -x c++ <<< '#include <coroutine>
        #include <stop_token>
        #include <thread>
        #if !defined __cpp_lib_coroutine || !defined __cpp_lib_jthread
        #error
        #endif'
}

examples_of_cxx20() {
    local name
    for name in coroutine jthread; do
        disabled "$name-disabled" "${cxx[@]}" -std=c++20 "$examples/cpp/$name.cc" -lpthread
        builds $name "${cxx[@]}" -std=c++20 -fno-builtin "${warnings[@]}" "$examples/cpp/$name.cc" "${library[@]}" || continue
        runs $name
        cp "$scratch/out" "$scratch/$name.out"
    done
    [ -f "$scratch/coroutine.out" ] && [ -f "$scratch/jthread.out" ] || return 0
    equal "coroutine: lines" "$(sort -u "$scratch/coroutine.out" | grep -c ': 20 objects in use, entered 22 times, 0 open$')" 10
    equal "jthread: a job" "$(head -n 1 "$scratch/jthread.out")" "job {tenant=acme}: 1 objects in use, open 1, then 0"
}

disabled_program_is_whole
programs_without_jespan
examples_without_jespan
mallctl_headers
if [ ${#cxx[@]} = 0 ]; then
    echo "api.sh: not tested: C++, since there is no compiler"
else
    classes
    if has_cxx20; then
        examples_of_cxx20
    else
        echo "api.sh: not tested: examples/cpp, since ${cxx[*]} has no C++20"
    fi
fi
finish
