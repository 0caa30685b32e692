#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A library that was moved, or that LD_LIBRARY_PATH or dlopen() finds, has its modules beside it. `make install` tells the
# dynamic linker about the library. If workers cannot write to the directory for dumps, jespan says so at the start, and
# the workers do.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

moved=$scratch/moved/lib
program=$scratch/program
opens=$scratch/opens
compile "$program" tests/integration/installed_program.c -Wl,-rpath,/nonexistent
# shellcheck disable=SC2086
$CC -std=gnu11 -Wall -DOPENS -o "$opens" "$top_srcdir/tests/integration/installed_program.c" -ldl
mkdir -p "$moved/jespan"
cp "$JESPAN_LIB" "$moved/libjespan.so.0"
cp "$JESPAN_MODULES/pprof.so" "$moved/jespan/"

# dumps WHAT COMMAND… : whether it writes a whole dump, in silence
dumps() {
    local what=$1
    shift
    rm -f "$scratch/dump"
    "$@" > "$scratch/out" 2>&1 || fail_with "$what: status $?" "$scratch/out"
    is_whole "$scratch/dump" || fail "$what: there is no dump"
    [ ! -s "$scratch/out" ] || fail_with "$what: says" "$scratch/out"
}

beside() {
    dumps "LD_LIBRARY_PATH" env LD_LIBRARY_PATH="$moved" "$program" "$scratch/dump"
    dumps "LD_PRELOAD" env LD_PRELOAD="$moved/libjespan.so.0" "$opens" "$scratch/dump" "$moved/libjespan.so.0"
    dumps "dlopen" env GLIBC_TUNABLES=glibc.rtld.optional_static_tls=16384 "$opens" "$scratch/dump" "$moved/libjespan.so.0"
    dumps "a build tree" env LD_LIBRARY_PATH="${JESPAN_LIB%/*}" "$program" "$scratch/dump"
    cd "$scratch/moved"
    dumps "a relative path" env LD_LIBRARY_PATH=lib "$program" "$scratch/dump"
    cd "$OLDPWD"
}

# Who names a directory means it.
not_beside() {
    JESPAN_CONF=module_dir:/nonexistent LD_LIBRARY_PATH=$moved "$program" "$scratch/dump" 2> "$scratch/err" && fail "module_dir: a dump" || true
    grep -q 'exporter pprof: /nonexistent/pprof.so: ' "$scratch/err" || fail_with "module_dir: says" "$scratch/err"
}

# ---- make install ----

# hook LINES ARGUMENT… : how often the cache is made anew
hook() {
    local lines=$1
    shift
    : > "$scratch/calls"
    PATH=$scratch/bin:$PATH make -C "$top_builddir" install-exec-hook "$@" > "$scratch/out" 2>&1 ||
        fail_with "make install-exec-hook $*: status $?" "$scratch/out"
    equal "ldconfig after make $*" "$(wc -l < "$scratch/calls")" "$lines"
}

install_tells_the_linker() {
    local libdir
    [ "$(id -u)" = 0 ] && have make && [ -f "$top_builddir/Makefile" ] || return 0
    libdir=/some/where/lib
    mkdir -p "$scratch/bin"
    printf '#!/bin/sh\ncase $* in *-v*) echo "%s: (from x)" ;; *) echo called >> "%s" ;; esac\n' "$libdir" "$scratch/calls" > "$scratch/bin/ldconfig"
    chmod +x "$scratch/bin/ldconfig"
    hook 1 libdir=$libdir
    hook 0 libdir=$libdir DESTDIR="$scratch/package"
    hook 0 libdir=/else/where/lib
}

# ---- Workers that are not root ----

worker_without_permission() {
    local dumps=$scratch/dumps
    [ "$(id -u)" = 0 ] && have setpriv || return 0
    mkdir "$dumps"
    chmod a+rx "$scratch"
    "$JESPAN_CMD" run --in-process --dump-dir "$dumps" --follow-fork -- true 2> "$scratch/err" || fail_with "jespan run: status $?" "$scratch/err"
    grep -q "^jespan: warning: only root can write to '$dumps': " "$scratch/err" || fail_with "jespan run: says" "$scratch/err"
    setpriv --reuid 65534 --clear-groups --bounding-set=-all --inh-caps=-all env LD_LIBRARY_PATH="$moved" \
        JESPAN_CONF="dump_dir:$dumps,dump_at_exit:true" "$program" /nonexistent/dump 2> "$scratch/err" || true
    grep -q "failed: Permission denied; this process runs as user 65534, who must be able to write to the directory; " "$scratch/err" ||
        fail_with "a worker: says" "$scratch/err"
    chmod 1777 "$dumps"
    "$JESPAN_CMD" run --in-process --dump-dir "$dumps" --follow-fork -- true 2> "$scratch/err"
    [ ! -s "$scratch/err" ] || fail_with "jespan run, with permission: says" "$scratch/err"
}

beside
not_beside
install_tells_the_linker
worker_without_permission
finish
