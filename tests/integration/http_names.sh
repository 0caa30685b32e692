#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# /stacks of a sidecar names calls as `jespan report --stacks` does: functions, lines and inlined functions, without those of the
# allocator and of libc's start. Files that cannot be read, or that were replaced, cost names and nothing else.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"
# shellcheck source=tests/support/http.sh
. "$(dirname "$0")/../support/http.sh"
need python3 curl objcopy
[ -f "$JESPAN_MODULES/http.so" ] || skip "built without the service http"
unset DEBUGINFOD_URLS
cd "$scratch"

# build SERVER: the server of leaks_server.sh, with its debug information
build() {
    $CXX -std=gnu++17 -g -O2 -I"$top_srcdir/include" -o "$1" "$top_srcdir/tests/integration/leaks_server.cc" -L"${JESPAN_LIB%/*}" \
        -Wl,-rpath,"${JESPAN_LIB%/*}" -ljespan -ldl
}

# start COMMAND…: a server that waits until its input ends; its process in $server
start() {
    exec 3>&- || true
    rm -f said says input
    mkfifo input
    "$@" < input > says 2> said &
    pids+=($!)
    exec 3> input
    await grep -q process says || fail_with "the server does not wait" said
    server=$(sed -n 's/^process //p' says)
    find_base 127.0.0.1:0
}

in_sidecar() {
    start "$JESPAN_CMD" run --quiet --stacks=all --http 127.0.0.1:0 --conf "module_dir:$JESPAN_MODULES" -- "$@"
}

# has_names HOW: asks until the service has looked for all names
has_names() { grep -q "\"names\":\"$1\"" < <(ask "/stacks?limit=100000"); }

# compare WHAT: what the service and the command say of the process
compare() {
    await has_names all || fail_with "$1: names do not come" "$scratch/body"
    "$JESPAN_CMD" report --json --stacks --top 0 "$server" > report 2> err || fail_with "$1: report ends with $?" err
    python3 -B "$top_srcdir/tests/integration/http_names.py" "$scratch/body" report > compared 2>&1 || fail_with "$1" compared
}

# names OF: the names of all calls of a binary
names() {
    await has_names all || fail_with "names do not come" "$scratch/body"
    python3 -c 'import json, sys
for span in json.load(open(sys.argv[1]))["spans"]:
    if span["kind"] == "stack" and span["target"].endswith(sys.argv[2]): print(span["name"], span["file"].split("/")[-1])' "$scratch/body" "$1"
}

build server
$CC -g -O2 -shared -fPIC -o plugin.so "$top_srcdir/tests/integration/symbols_library.c"
in_sidecar ./server ./plugin.so wait
compare "a server"
names /server > named
grep -qx 'sessions::get(std::string const&) leaks_server.cc' named || fail_with "a function and its file are missing" named
names /plugin.so > named
grep -qx 'call_twice symbols_library.c' named || fail_with "an inlined function is missing" named
await has_names all
equal "names that are known are there at once" "$(has_names all && echo yes)" yes

# The program that answers itself has no debug information in its memory
start env JESPAN_CONF="module_dir:$JESPAN_MODULES,http_listen:127.0.0.1:0,stacks:all" ./server ./plugin.so wait
await has_names none || fail_with "the program says that it has names" "$scratch/body"
grep -q '"name":"server+0x' "$scratch/body" || fail_with "calls have no places" "$scratch/body"

# Damaged debug information, and a program without any
for section in debug_info debug_abbrev debug_line debug_str; do
    python3 -c 'import random, sys; random.seed(sys.argv[1]); sys.stdout.buffer.write(random.randbytes(100000))' $section > garbage
    objcopy --update-section ".$section=garbage" plugin.so "damaged_$section.so" 2> /dev/null || objcopy plugin.so "damaged_$section.so"
done
for plugin in damaged_*.so; do
    in_sidecar ./server "./$plugin" wait
    compare "$plugin"
    names "/server" > named
    grep -qx 'sessions::get(std::string const&) leaks_server.cc' named || fail_with "$plugin costs names of others" named
done
objcopy --strip-all server stripped
ln -s stripped linked
in_sidecar ./linked ./plugin.so wait
compare "a stripped server"
for path in "/spans?limit=0" /processes; do
    equal "the name of a process that was started by a link, in $path" "$(ask "$path" | grep -o '"program":"[^"]*"')" '"program":"linked"'
done

# Another file has the name of the program now: its names would be wrong, except that it is a copy here
build replaced
in_sidecar ./replaced ./plugin.so wait
cp replaced copy
mv copy replaced
names /replaced > named
[ -s named ] && ! grep -qv '^replaced+0x' named || fail_with "a file that was replaced gives names" named

# A library that was replaced gives no names anywhere, with its build id and without
library() { $CC -g -O2 -shared -fPIC -o "$@" "$top_srcdir/tests/integration/symbols_library.c"; }
ids() { "$JESPAN_CMD" symbolize -o - "$1" 2> err | gzip -dc | strings -n 40 | grep -oE '[0-9a-f]{40}' | sort -u; }
for id in sha1 none; do
    library replaced.so "-Wl,--build-id=$id"
    in_sidecar ./server ./replaced.so wait
    "$JESPAN_CMD" dump -o before.pb.gz "$server"
    "$JESPAN_CMD" report --by function "$server" > report 2> err
    grep -q call_twice report && [ ! -s err ] || fail_with "build id $id: a library has no names before" report err
    library new.so "-Wl,--build-id=$id" -Dcall_twice=other_twice
    mv new.so replaced.so
    "$JESPAN_CMD" dump -o after.pb.gz "$server"
    equal "build id $id: build ids in a dump after a library was replaced" "$(ids after.pb.gz)" "$(ids before.pb.gz)"
    for command in "report --by function $server" "report --by function after.pb.gz" "leaks $server"; do
        # shellcheck disable=SC2086
        "$JESPAN_CMD" $command > report 2> err || true
        ! grep -q '_twice' report || fail_with "build id $id: $command has names of a replaced library" report
        grep -q "replaced.so has the build id .*: the file was replaced" err || fail_with "build id $id: $command does not warn" err
    done
    COLUMNS=300 "$JESPAN_CMD" top --once --view stacks "$server" > report 2> err || fail_with "top ends with $?" err
    ! grep -q '_twice' report || fail_with "build id $id: top has names of a replaced library" report
    names /replaced.so > named
    [ -s named ] && ! grep -qv '^replaced.so+0x' named || fail_with "build id $id: /stacks has names of a replaced library" named
done

# In another root directory
if [ "$(id -u)" = 0 ]; then
    mkdir root
    for file in "$scratch/server" "$scratch/plugin.so" "$JESPAN_LIB" $(ldd ./server ./plugin.so "$JESPAN_LIB" | grep -o ' /[^ ]*\|^	/[^ ]*' | sort -u); do
        mkdir -p "root${file%/*}"
        cp -Lf "$file" "root$file"
    done
    in_sidecar chroot root "$scratch/server" "$scratch/plugin.so" wait
    names /server > named
    grep -qx 'sessions::get(std::string const&) leaks_server.cc' named || fail_with "in a chroot: a function is missing" named
    names /plugin.so > named
    grep -qx 'call_twice symbols_library.c' named || fail_with "in a chroot: a function of a library is missing" named
else
    echo "http_names.sh: not run: another root directory, which needs root"
fi

# Nothing of it stays
exec 3>&-
wait "${pids[-1]}" || fail "the server ends with $?"
is_over() { ! grep -qsax 'jespan.symbolize.--calls.' /proc/[0-9]*/cmdline; }
await is_over || fail "a process that looks for names goes on"
finish
