#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Plugins that are loaded one after the other at the same address, with their calls at the same places: each stack has the names of
# the plugin that was there when it allocated. In a running program, in its dump and its state file, over HTTP, and in pprof.
# Not run: modules of iconv(3), which libc unloads itself.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without jespan report"

compile "$scratch/program" tests/integration/stacks_unloaded_program.c -ldl
cd "$scratch"

# plugin NAME [FLAG…]: NAME.so, whose functions have the name in theirs
plugin() {
    cat > "$1.c" << END
#include <stdlib.h>
static __attribute__((noinline)) void *in_$1(size_t n)
{
    void *p = malloc(n);
    __asm__ volatile("" : : "r"(p) : "memory");
    return p;
}
void *outer(size_t n)
{
    void *p = in_$1(n);
    __asm__ volatile("" : : "r"(p) : "memory");
    return p;
}
END
    $CC -g -O1 -fPIC -shared -o "$1.so" "$1.c" -Wl,--build-id "${@:2}"
}
for name in one two six a b c d e f; do
    plugin $name
done
plugin ten -Wl,--build-id=none
plugin now -Wl,--build-id=none

# start CONF ARGUMENT…: the program, until it waits. All libraries were at one place.
start() {
    local conf=$1 libraries
    shift
    libraries=$(printf '%s\n' "$@" | grep -c '[.]so=')
    rm -rf dumps in said
    mkfifo in
    mkdir dumps
    JESPAN_CONF="dump_dir:dumps,dump_at_exit:true,$conf" ./program "$@" < in > said &
    pid=$!
    exec 7> in
    await_of "$pid" grep -q 0x said || fail "$*: the program did not come to its end"
    equal "$*: libraries" "$(wc -l < said)" "$libraries"
    equal "$*: one place" "$(sort -u said | wc -l)" 1
}

stop() {
    exec 7>&-
    wait "$pid" || fail "the program failed"
}

# functions INPUT: "in_one 300 in_two 200", by name
functions() {
    "$JESPAN_CMD" report --csv --columns objects --by function "$1" 2> report.err |
        sed -n 's/^\([0-9]*\),"\(in_[a-z]*\)"$/\2 \1/p' | sort | paste -sd ' '
}

# lines INPUT: "one.c:4 300 two.c:4 200"
lines() {
    "$JESPAN_CMD" report --csv --columns objects --by line "$1" 2> report.err |
        sed -n 's/^\([0-9]*\),"\([^"]*\/\)\{0,1\}\([a-z]*\.c:4\)[" ].*$/\3 \1/p' | sort | paste -sd ' '
}

# shown WHAT EXPECTED: in the running program, and in its dump
shown() {
    equal "$1: running" "$(functions "$pid")" "$2" || fail_with "$1" report.err
    "$JESPAN_CMD" dump -o outside.pb.gz "$pid" > err 2>&1 || fail_with "$1: jespan dump" err
    equal "$1: jespan dump" "$(functions outside.pb.gz)" "$2"
    stop
    equal "$1: at exit" "$(functions dumps)" "$2"
}

# names WHAT EXPECTED: in the running program. Of samples, figures are estimates.
names() {
    equal "$1" "$(functions "$pid" | tr -d ' 0-9' | sed 's/in_/ in_/g; s/^ //')" "$2" || fail_with "$1" report.err
}

test_all() {
    start stacks:all ./one.so=300 ./two.so=200
    equal "lines" "$(lines "$pid")" "one.c:4 300 two.c:4 200"
    shown "two libraries" "in_one 300 in_two 200"
    start stacks:all ./one.so=30 ./two.so=20 .
    shown "none is loaded" "in_one 30 in_two 20"
    start stacks:all ./one.so=30 ./two.so=20 ./one.so=7 ./six.so=5 ./two.so=3
    shown "in turn" "in_one 37 in_six 5 in_two 23"
}

test_modes() {
    start 'stacks:all@thread:program,stacks_min_bytes:4096' ./one.so=30 ./two.so=20
    shown "large objects of one thread" "in_one 30 in_two 20"
    start stacks:sampled,stacks_sample_bytes:100000 ./{a,b,c,d,e,f}.so=2000 # the linker allocates less than a sample
    names "samples" "in_a in_b in_c in_d in_e in_f"
    stop
    start stacks:all ./one.so=30 '!off' ./two.so=20 '!all' ./six.so=10
    shown "off meanwhile" "in_one 30 in_six 10"
    start stacks:all ./one.so=30 '!off' ./two.so=20 '!all' .
    shown "off until it was unloaded" "in_one 30"
    start stacks:all ./one.so=30 '!off' ./two.so=0 '!all' =20
    shown "off while it was loaded" "in_one 30 in_two 20"
}

# A plugin is built again, and loaded by the same name.
test_rebuilt() {
    cp one.so plugin.so
    cp two.so next.so
    start stacks:all ./plugin.so=30 . 'next.so>plugin.so' ./plugin.so=20
    equal "one is replaced by two" "$(functions "$pid")" "in_two 20"
    cp one.so next.so
    mv next.so plugin.so
    stop
    equal "one is back" "$(functions dumps)" "in_one 30"
    start stacks:all ./one.so=30 ./two.so=20
    cp one.so kept.so
    mv six.so one.so
    equal "another file has the name" "$(functions "$pid")" "in_two 20"
    mv one.so six.so
    mv kept.so one.so
    shown "the file is back" "in_one 30 in_two 20"
}

# Without a build id nobody knows whether a file is the one that was unloaded.
test_without_build_id() {
    start stacks:all ./ten.so=30 ./now.so=20
    shown "no names" ""
    equal "two places" "$("$JESPAN_CMD" report --csv --columns objects --by function dumps 2> report.err | grep -cE '^(30,"ten|20,"now)[.]so[+]')" 4
    start stacks:all ./one.so=30 ./ten.so=20 ./one.so=7
    shown "one of them" "in_one 37"
}

test_state_file() {
    start stacks:all,state_file:state ./one.so=300 ./two.so=200
    kill -KILL "$pid"
    exec 7>&-
    wait "$pid" 2> /dev/null || true
    equal "state file" "$(functions state)" "in_one 300 in_two 200" || fail_with "state file" report.err
}

test_all
test_modes
test_rebuilt
test_without_build_id
test_state_file
finish
