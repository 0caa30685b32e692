#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan leaks`, `jespan symbolize` and `jespan report` of profiles with stacks: output, suppressions, exit statuses, and
# binaries that are damaged or missing.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/command.sh
. "$top_srcdir/tests/support/command.sh"

need g++ python3
cd "$scratch"

g++ -std=gnu++17 -g -O2 -o program "$top_srcdir/tests/integration/symbols_program.cc"
./program > lines
# with_program PATH FILE: the profile of a program that is at PATH
with_program() {
    { grep '^map ' lines; grep '^sample ' lines; } | sed "s|$scratch/program|$1|" | "$top_builddir/tests/support/make_stacks" > "$2"
}
with_program "$scratch/program" profile
line_of() {
    grep -n "$1" "$top_srcdir/tests/integration/symbols_program.cc" | cut -d: -f1 | head -n "${2:-1}" | tail -n 1
}

test_text() {
    local name
    jespan leaks profile
    says leaks 0 ""
    local inner middle outer
    inner=$(line_of 'print_stack();' 3) middle=$(line_of 'inner(n);') outer=$(line_of 'middle(n);')
    grep -qx "200 B in 2 objects" out || fail_with "no leak of two objects" out
    equal "the largest leak" "$(sed -n '1,/^$/p' out)" "200 B in 2 objects
    in request > cache {route=/look}
        print_stack  symbols_program.cc:$(line_of 'backtrace(frames')
        shop::inner(int)  symbols_program.cc:$inner
        shop::middle(int)  symbols_program.cc:$middle
        shop::outer(int)  symbols_program.cc:$outer
        main  symbols_program.cc:$(line_of 'shop::outer(2)')"
    equal "the sum" "$(tail -n 1 out)" "in use: 800 B in 8 objects of 7 stacks"
    jespan leaks --top 2 profile
    equal "--top 2" "$(grep -c ' object' out), $(tail -n 1 out)" "3,     not shown: 5 of them; see --top"
    jespan leaks --filter '!request' profile
    equal "--filter" "$(tail -n 1 out)" "in use: 0 B in 0 objects of 0 stacks"
    jespan leaks --filter 'request > cache{route=/l*}' - < profile
    equal "--filter and -" "$(tail -n 1 out)" "in use: 800 B in 8 objects of 7 stacks"
    jespan leaks --min-bytes 101 profile
    equal "--min-bytes" "$(tail -n 2 out)" "in use: 200 B in 2 objects of 1 stack
smaller than --min-bytes: 600 B in 6 objects of 6 stacks"
    ! grep -q _start out || fail_with "_start is not left out" out
    jespan leaks --all-frames profile
    grep -q '  _start' out || fail_with "--all-frames: no _start" out
    for name in 'shop::table<std::string>::grow(std::string)' 'shop::table<std::pair<int, char const*> >::grow(...)' \
        'shop::outer(int)::{lambda(std::string const&)#1}::operator()(...) const'; do
        grep -qF "        $name  symbols_program.cc:" out || fail_with "no $name" out
    done
}

# Functions that allocate for their callers, of well-known libraries and of the user.
test_allocators() {
    local name
    cat > wrapped.cc << 'END'
#include <execinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <unistd.h>
#define WRAPS(type, name, next) extern "C" __attribute__((noipa)) type *name(size_t n) { type *p = next; asm("" : : "r"(p)); return p; }
static void *print(size_t n)
{
    void *frames[64];
    int count = backtrace(frames, 64);
    printf("sample %zu - -", n);
    for (int i = 1; i < count; i++)
        printf(" %lx", (unsigned long)frames[i]);
    puts("");
    return frames[1];
}
struct os { static __attribute__((noipa)) void *malloc(size_t n) { void *p = print(n); asm("" : : "r"(p)); return p; } };
WRAPS(void, zmalloc_usable, print(n))
WRAPS(void, zmalloc, zmalloc_usable(n))
WRAPS(void, pool_get, os::malloc(n))
WRAPS(void, zebra, zmalloc(n))
WRAPS(void, caller, pool_get(n))
int main(void)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        printf("map %s", line);
    zebra(100);
    caller(300);
    return !zmalloc(500);
}
END
    g++ -g -O1 -fno-inline -o wrapped wrapped.cc || fail "wrapped.cc cannot be compiled"
    ./wrapped > wrapped.lines
    "$top_builddir/tests/support/make_stacks" < wrapped.lines > wrapped.profile
    # innermost OPTION…: the functions in which the stacks begin, the one with most bytes first
    innermost() {
        jespan leaks "$@" wrapped.profile
        sed -n '/^    in /{n; s/^ *\(.*\)  .*/\1/p}' out | tr '\n' ' '
    }
    equal "functions of libraries" "$(innermost)" "main pool_get zebra "
    equal "--allocator" "$(innermost --allocator pool_get)" "main caller zebra "
    equal "--allocator, several" "$(innermost --allocator 'pool_*' --allocator zebr)" "main caller zebra "
    equal "--allocator, all functions" "$(innermost --allocator '*')" "zmalloc_usable os::malloc(unsigned long) zmalloc_usable "
    equal "--all-frames" "$(innermost --all-frames)" "zmalloc_usable os::malloc(unsigned long) zmalloc_usable "
    jespan report --by function --csv --allocator pool_get wrapped.profile
    for name in zmalloc pool_get os::malloc; do
        ! grep -q "$name" out || fail_with "--by function: $name" out
    done
    jespan report --by function --csv --all-frames wrapped.profile
    for name in zmalloc pool_get os::malloc _start; do
        grep -q "$name" out || fail_with "--by function --all-frames: no $name" out
    done
    jespan report --all-frames wrapped.profile
    says "--all-frames without stacks" 2 "jespan: --all-frames is for stacks: *"
    jespan report --allocator "" wrapped.profile
    says "--allocator without a name" 2 "jespan: --allocator: there is no name"
    echo 'leak:^zmalloc$' > supp
    jespan leaks --suppressions supp wrapped.profile
    equal "a suppression of such a function" "$(tail -n 2 out | head -n 1)" "suppressed: 600 B in 2 objects of 2 stacks"
}

test_suppressions() {
    printf '# comment\n\n  leak:shop::*inner \r\nleak:^recurse\nleak:nothing like it\n' > supp
    jespan leaks --suppressions supp --error-exitcode 9 profile
    says "suppressions" 9 ""
    equal "suppressions: text" "$(tail -n 4 out)" "in use: 400 B in 4 objects of 4 stacks
suppressed: 400 B in 4 objects of 3 stacks
         300 B  leak:shop::*inner
         100 B  leak:^recurse"
    for pattern in symbols_program.cc "$scratch/program$" main '*'; do
        echo "leak:$pattern" > supp
        jespan leaks --suppressions supp --error-exitcode 9 profile
        says "leak:$pattern" 0 ""
        equal "leak:$pattern" "$(head -n 1 out)" "in use: 0 B in 0 objects of 0 stacks"
    done
    for pattern in ^shop::oute$ nter$ 'x*main'; do
        echo "leak:$pattern" > supp
        jespan leaks --suppressions supp --error-exitcode 9 profile
        says "leak:$pattern" 9 ""
    done
    local line
    for line in 'race:main' 'main' 'leak:' 'leak: '; do
        printf 'leak:main\n%s\n' "$line" > supp
        jespan leaks --suppressions supp profile
        says "the line '$line'" 2 "jespan: supp: line 2: *"
    done
    jespan leaks --suppressions nowhere profile
    says "no suppressions" 2 "jespan: nowhere: No such file or directory"
    jespan leaks --suppressions "$scratch" profile
    says "suppressions in a directory" 2 "jespan: $scratch: Is a directory"
    (
        ulimit -v 4000000 # a reader of the whole line takes no more than that
        jespan leaks --suppressions /dev/zero profile
        says "suppressions without an end" 2 "jespan: /dev/zero: line 1: it is no text"
        finish
    ) || fail "suppressions without an end"
    printf 'leak:main\nleak:%070000d\n' 0 > supp
    jespan leaks --suppressions supp profile
    says "a long line" 2 "jespan: supp: line 2: it is too long"
    printf 'leak:shop::*inner' > supp
    jespan leaks --suppressions supp --error-exitcode 9 profile
    says "the last line without an end" 9 ""
    equal "the last line without an end: text" "$(tail -n 1 out)" "         300 B  leak:shop::*inner"
}

test_usage() {
    jespan leaks --error-exitcode 256 profile
    says "--error-exitcode 256" 2 "jespan: --error-exitcode: '256' is not a number from 0 to 255"
    jespan leaks --min-bytes x profile
    says "--min-bytes x" 2 "jespan: --min-bytes: 'x' *"
    jespan leaks a b
    says "two files" 2 "jespan: there is more than one INPUT*"
    jespan leaks --outlived http://127.0.0.1:1/
    says "--outlived of a URL" 2 "jespan: http://127.0.0.1:1/: --outlived is for *"
    jespan leaks nowhere
    says "no file" 2 "jespan: nowhere: No such file or directory"
    mkdir -p empty dumps
    jespan leaks empty
    says "an empty directory" 2 "jespan: empty: there is no dump in the directory"
    cp profile dumps/heap.1.1.pb.gz
    jespan leaks dumps
    says "a directory" 0 ""
    jespan leaks --help
    grep -q '^usage: jespan leaks' out || fail_with "--help" out
    "$top_builddir/tests/support/make_profile" small > small
    jespan leaks --error-exitcode 3 small
    says "without stacks" 3 "jespan: warning: small has no stacks; *jespan run --stacks*"
    "$top_builddir/tests/support/make_profile" time small > time_profile
    jespan leaks time_profile
    says "a profile of times" 2 "jespan: time_profile: a profile of times has no leaks"
    status=0
    "$JESPAN_CMD" leaks profile > /dev/full 2> err || status=$?
    says "a full disk" 1 "jespan: cannot write the output: No space left on device"
}

# table ARGUMENT…: report's table without its title, spaces joined
table() {
    COLUMNS=300 jespan report "$@" profile
    says "report $*" 0 ""
    sed 1d out | sed 's/  */ /g; s/^ //'
}

test_report() {
    equal "report" "$(table)" "IN USE SHARE OBJECTS ALLOCATED CONTEXT
800 B 100.0% 8 800 B request > cache {route=/look}
800 B 100.0% 8 800 B total of 1 context"
    equal "--stacks" "$(table --stacks --filter 'shop::outer*' --filter '!*lambda*')" "IN USE SHARE OBJECTS ALLOCATED CONTEXT
300 B 100.0% 3 300 B request > cache > main > shop::outer(int) > shop::middle(int) > shop::inner(int) > print_stack {route=/look}
300 B 100.0% 3 300 B total of 1 context"
    equal "--stacks --tree" "$(table --stacks --tree --filter 'shop::outer*')" "IN USE SHARE OWN OBJECTS ALLOCATED CONTEXT
400 B 100.0% 0 B 4 400 B request > cache > main > shop::outer(int) {route=/look}
300 B 75.0% 300 B 3 300 B shop::middle(int) > shop::inner(int) > print_stack
100 B 25.0% 100 B 1 100 B shop::outer(int)::{lambda(std::string const&)#1}::operator()(...) const > print_stack
400 B 100.0% 400 B 4 400 B total of 3 contexts"
    equal "--by function" "$(table --by function | sed -n '1,4p;$p')" "IN USE SHARE OWN OBJECTS ALLOCATED FUNCTION
800 B 100.0% 0 B 8 800 B main
800 B 100.0% 800 B 8 800 B print_stack
400 B 50.0% 0 B 4 400 B shop::outer(int)
800 B 100.0% 800 B 8 800 B total of 12 rows"
    grep -qE '^ *100 B +12.5% +0 B .* recurse\(int\)' out || fail_with "--by function counts a recursion several times" out
    equal "--by line" "$(table --by line | grep 'shop::middle')" "200 B 25.0% 0 B 2 200 B symbols_program.cc:$(line_of 'inner(n);') shop::middle(int)
100 B 12.5% 0 B 1 100 B symbols_program.cc:$(line_of 'inner(1);') shop::middle(int)"
    equal "--by file" "$(table --by file | sed -n 2p)" "800 B 100.0% 800 B 8 800 B $top_srcdir/tests/integration/symbols_program.cc"
    equal "--by library" "$(table --by library | sed -n 2p)" "800 B 100.0% 800 B 8 800 B $scratch/program"
    equal "--json" "$("$JESPAN_CMD" report --by function --json profile | python3 -c '
import json, sys
print([(row["key"], row["inuse_bytes"], row["own_inuse_bytes"]) for row in json.load(sys.stdin)["rows"]][:3])')" \
        "[('main', 800, 0), ('print_stack', 800, 800), ('shop::outer(int)', 400, 0)]"
    jespan report --stacks --by name profile
    says "--stacks --by name" 2 "jespan: --stacks is for *"
    jespan report --stacks small
    says "--stacks without stacks" 0 "jespan: warning: small has no stacks; *jespan run --stacks*"
}

test_symbolize() {
    jespan symbolize -o named profile
    says "symbolize" 0 ""
    jespan leaks profile
    cp out before
    mv program hidden
    jespan leaks named
    says "leaks of a symbolized file" 0 ""
    cmp -s out before || fail_with "a symbolized file gives other leaks" out before
    jespan leaks profile
    says "without the program" 0 "jespan: warning: $scratch/program: No such file or directory"
    grep -qE '^ +program\+0x[0-9a-f]+$' out || fail_with "no program+0x…" out
    local unnamed all
    unnamed=$(sed -nE 's/^ +(program\+0x[0-9a-f]+)$/\1/p' out | head -n 1) all=$(tail -n 1 out)
    for filter in "$unnamed" 'program+0x*' "~^${unnamed/+/[+]}\$" '~m[+]0x[0-9a-f]*$'; do
        jespan leaks --filter "$filter" profile
        grep -q '^in use: [1-9]' out || fail_with "--filter '$filter' finds no function without a name" out
    done
    equal "all functions without a name" "$(tail -n 1 out)" "$all"
    mv hidden program
    cp profile same
    jespan symbolize same
    says "symbolize in place" 0 ""
    jespan leaks same
    cmp -s out before || fail "a file that was symbolized in place gives other leaks"
    jespan symbolize -o again named
    equal "symbolized twice" "$(gzip -dc again | md5sum)" "$(gzip -dc named | md5sum)"
    jespan symbolize -o - profile
    says "-o -" 0 ""
    gzip -dc out | cmp -s - <(gzip -dc named) || fail "-o - writes something else"
    jespan symbolize -o /dev/full profile
    says "-o /dev/full" 1 "jespan: /dev/full: No space left on device"
    [ -c /dev/full ] || fail "/dev/full was replaced"
    jespan symbolize -o nowhere/named profile
    says "-o nowhere/named" 1 "jespan: nowhere/named: No such file or directory"
    jespan symbolize lines
    says "symbolize of a text" 2 "jespan: lines: *"
    jespan symbolize
    says "symbolize of nothing" 2 "jespan: there is no FILE*"
    equal "files that are left" "$(find . -name 'named.??????' -o -name 'same.??????')" ""
}

# Damaged binaries give a message or fewer names. The status is 0, and the figures stay.
test_damaged() {
    local kind
    with_program "$scratch/damaged" damaged_profile
    { grep '^map ' lines; grep '^sample ' lines; echo "id $scratch/damaged 0123456789abcdef"; } | sed "s|$scratch/program|$scratch/damaged|" |
        "$top_builddir/tests/support/make_stacks" > replaced_profile
    mkfifo damaged
    jespan leaks damaged_profile
    says "a FIFO" 0 "jespan: warning: $scratch/damaged: is not a file"
    rm damaged
    for kind in empty text; do
        if [ $kind = empty ]; then : > damaged; else echo "this is not ELF" > damaged; fi
        jespan leaks damaged_profile
        says "$kind" 0 "jespan: note: * calls have no name: damaged (*"
        jespan leaks replaced_profile
        says "$kind, with a build id" 0 "jespan: warning: $scratch/damaged is not an ELF file, or is damaged"
    done
    head -c 40 program > damaged
    jespan leaks damaged_profile
    says "the beginning of a program" 0 "jespan: warning: $scratch/damaged is not an ELF file, or is damaged"
    for seed in $(seq 40); do
        python3 - "$seed" << 'PROGRAM'
import random, sys
r = random.Random(int(sys.argv[1]))
data = bytearray(open("program", "rb").read())
if r.random() < 0.3:
    del data[r.randrange(len(data)):]
for _ in range(r.choice([1, 10, 1000])):
    data[r.randrange(len(data))] = r.choice([0, 255, r.randrange(256)])
for _ in range(r.choice([0, 0, 3, 30])):
    data[-r.randrange(1, min(3000, len(data)))] = r.choice([0, 255])
open("damaged", "wb").write(data)
PROGRAM
        jespan leaks damaged_profile
        says "damaged program $seed" 0 "*"
        [[ $(tail -n 1 out) == "in use: 800 B in 8 objects of "[1-8]" stack"* ]] || fail_with "damaged program $seed: the sum" out
    done
}

# Who reads addresses instead of names is told what is missing. Not where few are.
test_unnamed() {
    local command
    strip -o bare program
    with_program "$scratch/bare" bare_profile
    for command in leaks "report --stacks" "symbolize -o -"; do
        jespan $command bare_profile
        says "$command of a stripped program" 0 "jespan: note: [1-9]* of [1-9]* calls have no name: bare ([1-9]*)*. Install debug symbols, or set DEBUGINFOD_URLS"
    done
    DEBUGINFOD_URLS=http://127.0.0.1:1 jespan leaks bare_profile
    says "a stripped program, with a server" 0 "jespan: note: *. There are no debug symbols for them, nor at the servers of DEBUGINFOD_URLS"
    jespan report bare_profile
    says "report of spans" 0 ""
    mkdir -p .debug
    objcopy --only-keep-debug program .debug/bare.debug
    objcopy --add-gnu-debuglink=.debug/bare.debug bare
    jespan leaks bare_profile
    says "a stripped program with its debug file" 0 ""
    grep -q 'shop::inner(int)  symbols_program.cc:' out || fail_with "no name from the debug file" out
}

# The names on the left come from rustc, those on the right from c++filt, without the hashes of crates.
test_rust_names() {
    cat > names.c << 'PROGRAM'
#include <stdio.h>
#include <string.h>
#include "symbols/demangle.h"
int main(void)
{
    static char line[1 << 16], text[4097];
    while (scanf("%65535s", line) == 1)
        puts(demangle_rust(line, text, sizeof text) ? text : "(none)");
}
PROGRAM
    $CC -std=gnu11 -I "$top_srcdir/src" -o names names.c "$top_srcdir"/src/symbols/{demangle_rust,rust_reader}.c
    cat > expected << 'NAMES'
_RINvMNtCsgEmfK2I1SDS_4core5sliceSh11copy_withinINtNtNtB5_3ops5range14RangeInclusivejEECsfEOYDRpO4Ta_11miniz_oxide <[u8]>::copy_within::<core::ops::range::RangeInclusive<usize>>
_RNvNtCsgEmfK2I1SDS_4core3str16slice_error_fail core::str::slice_error_fail
_RNvXsh_NtCsgEmfK2I1SDS_4core3fmteNtB5_5Debug3fmt <str as core::fmt::Debug>::fmt
_RNvCsfLfy6EI15iL_7___rustc18___rdl_alloc_zeroed __rustc::__rdl_alloc_zeroed
_RNvMNtCs6GmmlP4bgsG_1r5storeINtB2_5TableNtNtCslNYArtu3iFV_5alloc6string6StringE4keepB4_ <r::store::Table<alloc::string::String>>::keep
_RNCNvNtCsjrHSEGnQ3l9_3std5alloc8rust_oom0B5_ std::alloc::rust_oom::{closure#0}
_RNvXsq_NtCsgEmfK2I1SDS_4core3fmtONtNtB7_3ffi6c_voidNtB5_5Debug3fmtCsjrHSEGnQ3l9_3std <*mut core::ffi::c_void as core::fmt::Debug>::fmt
_RNvCsfLfy6EI15iL_7___rustc35___rust_no_alloc_shim_is_unstable_v2 __rustc::__rust_no_alloc_shim_is_unstable_v2
_RNvXs1h_NtCsgEmfK2I1SDS_4core3fmtQShNtB6_5Debug3fmtCsgY6Mt91CT9J_14rustc_demangle <&mut [u8] as core::fmt::Debug>::fmt
NAMES
    cut -d' ' -f1 expected | ./names | cmp -s - <(cut -d' ' -f2- expected) || fail_with "names of Rust" <(cut -d' ' -f1 expected | ./names)
    # cut off, empty, too deep, and doubled by each of many backreferences
    {
        cut -d' ' -f1 expected | sed 's/.\{5\}$//'
        printf '_R %s\n' "_RNvC1a" "_RC99999999999999999999a" "_R$(printf 'Nv%.0s' {1..5000})"
    } | ./names > out || fail "names of Rust that are none: status $?"
    printf '_RINvC1a1b%sE' "TjjE$(printf 'TB%s_B%s_E' 7 7 b b e e h h k k n n q q t t w w z z C C F F I I L L)" | timeout 600 ./names > out ||
        fail "a name of Rust with many backreferences: status $?"
}

test_text
test_allocators
test_rust_names
test_suppressions
test_usage
test_report
test_symbolize
test_unnamed
test_damaged
finish
