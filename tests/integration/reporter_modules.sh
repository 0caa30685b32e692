#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Reporters that are modules, as in the example: their output equals the program's work. Also modules that are missing,
# broken or of another version; forked children; a plugin that registers a reporter and is unloaded; a static program.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

program=$scratch/program
figures=$scratch/figures.csv

# module NAME SOURCE
module() {
    $CC -std=gnu11 -O1 -Wall -Wextra -fPIC -shared -I"$top_srcdir/include" -o "$scratch/$1.so" -x c "$2"
}

# run CONF ACTION...: the program; its status in $status, its output in out and err
run() {
    local conf=module_dir:$scratch,$1
    shift
    rm -f "$figures"
    status=0
    JESPAN_CONF=$conf "$program" "$@" > "$scratch/out" 2> "$scratch/err" || status=$?
}

# expect WHAT STDERR: after a run
expect() {
    equal "$1: status" "$status" 0
    equal "$1: stderr" "$(cat "$scratch/err")" "$2"
}

# told FIGURE: the sum of its lines, but for jespan's own
told() {
    awk -F , -v figure="$1" '$2 !~ /^"\(jespan\)/ && $(NF - 1) == figure { sum += $NF }
        END { print sum + 0 }' "$figures"
}

# The program prints what it allocated; with few contexts, most of it in spans that were recycled meanwhile.
sums() {
    local reporters
    for reporters in csv 'csv|csv' '|csv|'; do
        run "reporters:$reporters,reporter_interval_ms:1,max_contexts:64" passing 20000 sleep 20 passing 20000 figures
        expect "sums of $reporters" ""
        equal "sums of $reporters" "$(told alloc_bytes)" "$(awk '$5 == "total" { print $2 }' "$scratch/out")"
        grep -q ',"(retired)",alloc_bytes,' "$figures" || fail "sums: nothing was recycled, so little was tried"
        grep -q ',"handle {request=4096, retries=0} > parse {tenant=ümläut ""quoted"", route=/a/b?c=d}",inuse_bytes,' "$figures" ||
            fail "sums: a span's path is not there"
        ! grep -qvE '^[0-9]+,"([^"]|"")*",[a-z_]+,[0-9]+$' "$figures" || fail "sums: a line is broken"
    done
    mkdir "$scratch/dumps"
    run "reporters:csv,dump_dir:$scratch/dumps,dump_at_exit:true" passing 100 figures
    expect "a module of jespan's own with one in module_dir" ""
    equal "dumps" "$(find "$scratch/dumps" -name 'heap.*' | wc -l)" 1
    run "reporters:csv,reporter_interval_ms:0" passing 100 figures
    equal "no interval" "$(told alloc_bytes)" "$(awk '$5 == "total" { print $2 }' "$scratch/out")"
}

# The program does not care, and neither do the other reporters.
wrong_modules() {
    local missing="$scratch/missing.so: cannot open shared object file: No such file or directory; see module_dir"
    run "reporters:missing" check
    expect "missing" "jespan: reporter missing: $missing"
    echo "no library" > "$scratch/broken.so"
    echo "int nothing;" > "$scratch/empty.c"
    module empty "$scratch/empty.c"
    run "reporters:broken|empty|csv" passing 10 check
    equal "broken: status" "$status" 0
    equal "broken: stderr" "$(grep -c '^jespan: reporter \(broken\|empty\): ' "$scratch/err")" 2
    [ "$(told alloc_bytes)" -gt 10000 ] || fail "broken: the other reporter is not there"
}

other_versions() {
    local size what
    for size in 'sizeof(struct jespan_reporter) + 8' 8 0; do
        what="size $size"
        printf '#include <jespan/reporter.h>\nstatic int die(void *p) { __builtin_trap(); return !p; }\n%s\n%s%s%s\n' \
            'JESPAN_REPORTER(other);' 'const struct jespan_reporter jespan_reporter_other = {.size = ' "$size" \
            ', .name = "other", .init = die, .flush = die};' > "$scratch/other.c"
        module other "$scratch/other.c"
        run "reporters:other" check
        expect "$what" "jespan: reporter other: its module is of another version of jespan, or has no name; it is left out"
    done
}

failures_of_the_module() {
    unset REPORTER_CSV
    run "reporters:csv" check
    expect "failing init" "jespan: reporter csv: init failed: Invalid argument; it is left out"
    export REPORTER_CSV=/dev/full
    run "reporters:csv,reporter_interval_ms:1" passing 10000 sleep 20
    expect "full disk" "jespan: reporter csv: flush failed: No space left on device; further failures are only counted"
    export REPORTER_CSV=$figures
}

forks() {
    run "reporters:csv" fork
    expect "fork" ""
    ! grep -q 'in the child' "$figures" || fail "fork: the child has a reporter"
    run "reporters:csv,follow_fork:true" fork
    expect "follow_fork" ""
    equal "follow_fork: lines of the child" "$(grep -c '"in the child",alloc_bytes,5120$' "$figures")" 1
}

# The plugin's code is gone after dlclose(): a call too late would end the program.
plugin() {
    cat > "$scratch/plugin.c" << 'END'
#include <errno.h>
#include <stdlib.h>
#include <jespan/reporter.h>
static _Atomic int rounds;
static int flush(void *user) { free(malloc(100)); ++*(_Atomic int *)user; return 0; }
static jespan_registration_t *handle;
int plugin_start(void);
int plugin_start(void)
{
    const struct jespan_reporter r = {.size = sizeof r, .name = "plugin", .user = &rounds, .flush = flush};
    handle = jespan_register_reporter(&r, 1);
    return handle ? 0 : errno;
}
int plugin_stop(void);
int plugin_stop(void) { return jespan_flush_reporters(60000) || !rounds ? -1 : jespan_unregister_reporter(handle); }
END
    cat > "$scratch/host.c" << 'END'
#include <dlfcn.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    for (int i = 0; i < 30 && argc; i++) {
        void *plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (!plugin || ((int (*)(void))dlsym(plugin, "plugin_start"))())
            return 1;
        usleep(3000);
        if (((int (*)(void))dlsym(plugin, "plugin_stop"))())
            return 2;
        if (dlclose(plugin) || dlopen(argv[1], RTLD_NOLOAD | RTLD_NOW))
            return 3;
    }
    return 0;
}
END
    module plugin "$scratch/plugin.c"
    $CC -O1 -o "$scratch/host" "$scratch/host.c" -ldl
    preloaded "$scratch/host" "$scratch/plugin.so" > "$scratch/out" 2>&1 ||
        fail_with "a plugin: status $?" "$scratch/out"
}

static_program() {
    [ -f "$top_builddir/libjespan.a" ] || return 0
    $CC -std=gnu11 -O1 -fno-builtin -I"$top_srcdir/include" -static -o "$scratch/static" \
        "$top_srcdir/tests/integration/reporters.c" -L"$top_builddir" -l:libjespan.a -lm -lpthread \
        > "$scratch/out" 2>&1 || fail_with "linking a static program" "$scratch/out"
    status=0
    JESPAN_CONF=reporters:csv "$scratch/static" the_tail_at_shutdown_is_lost > "$scratch/out" 2> "$scratch/err" ||
        status=$?
    expect "static" "jespan: reporter csv: a static program cannot load one; it can call jespan_register_reporter()"
}

compile "$program" tests/integration/dump_program.c
module csv "$top_srcdir/examples/reporter/csv.c"
export REPORTER_CSV=$figures
sums
wrong_modules
other_versions
failures_of_the_module
forks
plugin
static_program
finish
