#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# bindings/functions: functions as spans in C and C++, compiled with the program and preloaded; which functions; recursion, longjmp,
# exceptions, threads.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

source=$top_srcdir/bindings/functions/jespan_functions.c
linked=(-I"$top_srcdir/include" -L"${JESPAN_LIB%/*}" "-Wl,-rpath,${JESPAN_LIB%/*}" -ljespan -lpthread)
cd "$scratch"

cat > calls.c << 'END'
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>

static jmp_buf back;
void *kept[100];
static int n_kept;

static void hold(size_t bytes)
{
    kept[n_kept++] = malloc(bytes);
}

static void parse(void)
{
    hold(1000);
}

static int deep(int n)
{
    return n ? deep(n - 1) + 1 : (hold(2000), 0);
}

static int in_turns(int n);

static int turn(int n)
{
    return n ? in_turns(n - 1) : (hold(3000), 0);
}

static int in_turns(int n)
{
    return turn(n);
}

static int jump(int n)
{
    if (n)
        return jump(n - 1) + 1;
    longjmp(back, 1);
}

static void after(void)
{
    hold(500);
}

static void jumping(void)
{
    if (!setjmp(back))
        jump(5);
}

static inline __attribute__((always_inline)) void inlined(void)
{
    hold(6000);
}

static void inlines(void)
{
    inlined();
}

static void *thread(void *unused)
{
    parse();
    return unused;
}

int main(void)
{
    pthread_t other;
    parse();
    jumping();
    after();
    inlines();
    deep(100000);
    in_turns(2000);
    parse();
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    return 0;
}
END

# A jump out of calls of a function by itself, to the first of them; and a thread with the smallest stack.
cat > odd.c << 'END'
#define _GNU_SOURCE
#include <alloca.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>

static jmp_buf back;
void *kept, *kept_too;

static int document(int n)
{
    if (n == 3 && setjmp(back))
        return 0;
    if (!n)
        longjmp(back, 1);
    return document(n - 1) + 1;
}

static void after_jump(void)
{
    kept = malloc(500);
}

__attribute__((noinline)) static void moves_stack(size_t n)
{
    volatile char *moved = alloca(n);
    moved[0] = 1;
}

__attribute__((noinline)) static void after_alloca(void)
{
    volatile char large[4096];
    large[0] = 1;
    kept_too = malloc(1000 + (large[0] == 0));
}

__attribute__((no_instrument_function)) static void *small(void *unused)
{
    return unused;
}

int main(void)
{
    pthread_t other;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) || pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN) ||
        pthread_create(&other, &attributes, small, NULL) || pthread_join(other, NULL))
        return 1;
    document(3);
    after_jump();
    moves_stack(100);
    after_alloca();
    return 0;
}
END

cat > throws.cc << 'END'
#include <cstdlib>
#include <stdexcept>

void *kept[100];
int n_kept;

namespace shop {
struct cache {
    void hold(std::size_t bytes, int levels)
    {
        if (levels)
            throw std::runtime_error("no");
        kept[n_kept++] = std::malloc(bytes);
    }
    template <class T> void put(T value) { hold(sizeof value, 0); }
};
namespace {
void answer(cache &c, bool fails)
{
    c.hold(4000, fails);
}
}
}

static void tries(shop::cache &c)
{
    try {
        shop::answer(c, true);
    } catch (const std::runtime_error &) {
    }
}

int main()
{
    shop::cache c;
    tries(c);
    c.hold(100, 0);
    shop::answer(c, false);
    c.put(1.0);
    return 0;
}
END

# held FUNCTIONS COMMAND…: the requested bytes and the path of each span that holds memory, the longest first
held() {
    rm -rf dumps
    JESPAN_FUNCTIONS=$1 JESPAN_CONF=module_dir:$JESPAN_MODULES "$JESPAN_CMD" run --quiet --dump-dir dumps --interval 0 -- "${@:2}" 2> err ||
        fail_with "the program fails" err
    "$JESPAN_CMD" report --csv dumps > csv 2> err || fail_with "report" err
    awk -F, 'NR > 1 && /hold|parse|after|answer|put|turn|inlin/ { print $1, $NF }' csv | tr -d '"' | sort -rn
}

# build PROGRAM COMPILER OPTION…
build() {
    "${@:2}" -g -fno-builtin -finstrument-functions -Wall -Wextra -Wno-infinite-recursion -o "$1" 2> err || fail_with "$1 does not compile" err
    [ ! -s err ] || fail_with "$1: warnings" err
}

read -ra cc <<< "$CC"
read -ra cxx <<< "$CXX"
cc+=(-std=gnu11)
"${cc[@]}" -O2 -Wall -Wextra -Wshadow -Wmissing-prototypes -Werror -fPIC -c -I"$top_srcdir/include" -o functions.o "$source" 2> err ||
    fail_with "jespan_functions.c does not compile" err
"${cc[@]}" -shared -o functions.so functions.o "${linked[@]}"
build linked "${cc[@]}" -O2 calls.c "$source" "${linked[@]}"
build as_written "${cc[@]}" -O0 calls.c "$source" "${linked[@]}"
build plain "${cc[@]}" -O2 calls.c -lpthread
build odd "${cc[@]}" -O2 odd.c "$source" "${linked[@]}"

all="6144 main > inlines > inlined > hold
3072 main > in_turns > turn
2048 main > parse > hold
2048 main > deep > hold
1024 thread > parse > hold
512 main > after > hold"
for program in linked as_written; do
    equal "all functions, $program" "$(held '' "./$program" | sed 's/ \(> in_turns > turn\)\( .*\|….*\)$/ \1/')" "$all"
done
equal "a jump out of recursion, and alloca" "$(held '' ./odd)" "1024 main > after_alloca
512 main > after_jump"
some="6144 main
3072 main
2048 main > parse
2048 main
1024 parse
512 main > after"
equal "some" "$(held 'main|parse|after' ./linked)" "$(grep -v ' main$' <<< "$some")"
equal "all but some" "$(held '!hold|!in_turns|!turn|!thread' ./linked)" "6144 main > inlines > inlined
2048 main > parse
1024 parse
512 main > after"
export LD_PRELOAD=$scratch/functions.so
equal "preloaded" "$(held 'main|parse|after' ./plain)" "$(grep -v ' main$' <<< "$some")"
strip -o stripped plain
equal "without names" "$(held '' ./stripped | head -n 1; sed -n 's/.*"\(stripped+0x[0-9a-f]*\) .*/named/p' csv | head -n 1)" "named"
unset LD_PRELOAD

"${cc[@]}" -O2 -c -I"$top_srcdir/include" -o linked.o "$source"
build throws "${cxx[@]}" -O2 -std=gnu++17 throws.cc linked.o "${linked[@]}"
equal "C++" "$(held 'shop::*|main' ./throws)" "4096 main > shop::(anonymous namespace)::answer > shop::cache::hold
112 main > shop::cache::hold
8 main > shop::cache::put<double> > shop::cache::hold"
finish
