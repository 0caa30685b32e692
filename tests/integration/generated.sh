#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Stacks go through generated code, and its functions have the names of the program's perf map: in a running program, in dumps, after its
# end, over HTTP, and in a PID namespace. A program of our own, and node and Python 3.12 or newer where they are installed.
# Not run: .NET, Java, Julia and LuaJIT, which write the same file.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without jespan report"
[ "$(uname -m)" = x86_64 ] || skip "the program generates code for x86-64"
need python3 curl pgrep

compile "$scratch/program" tests/integration/generated_program.c -O2 -fomit-frame-pointer
cd "$scratch"
maps=()
cleanup_hook=remove_maps
remove_maps() {
    rm -f "${maps[@]}"
}

# What runtimes write, and "FUNCTION|PLACE" as the report shows it.
names=("JS:~leak /srv/my app/a.js:12:3" "JS:*get size node:internal/x:7:1" "JS:^ file:///srv/b.mjs:1:1" "LazyCompile:*old /srv/c.js:5:2"
    "py::Rows.<locals>.<lambda>:/srv/d.py" "Lcom/acme/Cache;::put" "_ZN4acme5CacheC1Ev" "a plain name" "JS:no place" "py::no file")
shown=("leak|/srv/my app/a.js:12" "get size|node:internal/x:7" "(anonymous)|file:///srv/b.mjs:1" "old|/srv/c.js:5"
    "Rows.<locals>.<lambda>|/srv/d.py" "Lcom/acme/Cache;::put|" "acme::Cache::Cache()|" "a plain name|" "JS:no place|" "py::no file|")

# start COMMAND…: the program, until it waits for lines
start() {
    rm -rf dumps in said
    mkfifo in
    "$JESPAN_CMD" run --quiet --stacks --dump-dir dumps --interval 1 "${options[@]}" -- "$@" < in > said 2> err &
    pid=$!
    pids+=("$pid")
    exec 7> in
    await_of "$pid" grep -q ready said || fail_with "$*: the program is not ready" err said
    maps+=("/tmp/perf-$pid.map")
}

stop() {
    exec 7>&-
    wait "$pid" 2> /dev/null || true
}

# functions INPUT: "OBJECTS FUNCTION" of all that is not in a binary
functions() {
    "$JESPAN_CMD" report --csv --columns objects --by function "$1" 2> report.err | tr -d '"' | sed -n 's/^\([0-9]*\),/\1 /p'
}

# named WHAT INPUT: each name has an object of each kind of function, below main. The interpreter's function is left out below a function
# of Python.
named() {
    local i all next
    all=$("$JESPAN_CMD" report --stacks --csv --columns objects "$2" 2> report.err | tr -d '"')
    for i in "${!names[@]}"; do
        next=" > _PyEval_EvalFrameDefault"
        [[ ${names[i]} != py::* ]] || next=
        grep -qE "^5,thread:.* > main > " <<< "$(grep -F " > main > ${shown[i]%|*}$next > allocate" <<< "$all")" ||
            fail_with "$1: no 5 objects of '${shown[i]%|*}' below main in: $all" report.err
    done
    if grep -q 'old name' <<< "$all"; then
        fail "$1: an entry that another one replaced is shown: $all"
    fi
    equal "$1: warnings" "$(cat report.err)" ""
}

test_program() {
    local line
    options=()
    start ./program "${names[@]}"
    named "running" "$pid"
    line=$("$JESPAN_CMD" report --csv --columns objects --by line "$pid" | tr -d '"')
    grep -q '^5,.*a\.js:12.*leak' <<< "$line" || fail "no place of a script in: $line"
    "$JESPAN_CMD" dump -o outside.pb.gz "$pid" > err 2>&1 || fail_with "jespan dump" err
    named "dump" outside.pb.gz
    "$JESPAN_CMD" symbolize -o with.pb.gz outside.pb.gz
    await compgen -G "dumps/heap.$pid.1.pb.gz"
    kill -9 "$pid"
    stop
    await compgen -G 'dumps/heap.*.killed.pb.gz' || fail_with "no last dump" err
    named "killed" "$(compgen -G 'dumps/heap.*.killed.pb.gz')"
    rm "/tmp/perf-$pid.map"
    named "names in the dump" with.pb.gz
    functions outside.pb.gz > all
    if grep -q leak all; then
        fail_with "names of a map that is gone" all
    fi
    grep -q "perf-$pid.map, which names generated code: No such file" report.err || fail_with "the map that is gone is not named" report.err
}

# The number of the process is another one's later, which writes its own map.
test_anew() {
    options=()
    start ./program "${names[@]}"
    "$JESPAN_CMD" dump -o before.pb.gz "$pid" > err 2>&1 || fail_with "jespan dump" err
    echo anew >&7
    await_of "$pid" grep -q anew said
    functions before.pb.gz > all
    if grep -q "another program's" all; then
        fail_with "names of a later map" all
    fi
    grep -q 'is not the file that named the generated code' report.err || fail_with "the later map is not told from the first" report.err
    stop
}

# A map that was there before the program began, one that is no file, and one of another user.
test_not_its_own() {
    local place="/tmp/perf-" first
    options=()
    start ./program - "${names[@]}"
    first=$(functions "$pid" | grep -c '\[anon\]+0x') || true
    [ "$first" -gt 0 ] || fail "generated code without a map has other names than [anon]+0x1234"
    printf '0 7fffffffffff wrong\n' > "$place$pid.map"
    touch -d '2001-01-01' "$place$pid.map"
    if functions "$pid" | grep wrong; then
        fail "a map from before the program is used"
    fi
    rm "$place$pid.map"
    mkfifo "$place$pid.map"
    functions "$pid" > all
    grep -q '\[anon\]+0x' all || fail_with "a FIFO is taken for a map" all
    rm "$place$pid.map"
    if [ "$(id -u)" = 0 ] && chown 65534 said; then
        printf '0 7fffffffffff wrong\n' > "$place$pid.map"
        chown 65534 "$place$pid.map"
        if functions "$pid" | grep wrong; then
            fail "the map of another user is used"
        fi
        rm "$place$pid.map"
    fi
    stop
}

test_page() {
    options=(--http "unix:$scratch/page")
    start ./program "${names[@]}"
    page() {
        curl -sS --unix-socket page 'http://localhost/stacks?limit=100000' > stacks.json && grep -q '"leak"' stacks.json
    }
    await_of "$pid" page || fail_with "the page has no names" stacks.json err
    grep -q '"acme::Cache::Cache()"' stacks.json || fail_with "the page lacks a name" stacks.json
    page_is_full() {
        page && grep -q '"names":"all"' stacks.json
    }
    await_of "$pid" page_is_full || fail_with "names of the page do not come" stacks.json
    "$JESPAN_CMD" report --json --stacks --top 0 "$pid" > report 2> report.err
    python3 -B "$top_srcdir/tests/integration/http_names.py" stacks.json report > compared 2>&1 ||
        fail_with "the page has other paths than the report" compared
    stop
}

# In a PID namespace, the map has the number that the process has there.
test_namespace() {
    local inside
    unshare --user --map-root-user --pid --fork true 2> /dev/null || return 0
    options=()
    start unshare --user --map-root-user --pid --fork --mount-proc ./program "${names[@]}"
    inside=$(pgrep -P "$pid")
    maps+=("/tmp/perf-1.map")
    named "in a namespace" "$inside"
    stop
}

# With files of its own, as in a container: the program and the map are there alone.
test_container() {
    local inside
    unshare --user --map-root-user --mount --pid --fork true 2> /dev/null || return 0
    options=()
    mkdir files
    # shellcheck disable=SC2016 # the inner shell expands these
    start unshare --user --map-root-user --mount --pid --fork --mount-proc bash -c '
        set -e
        mount -t tmpfs none files
        mkdir files/app
        cp program "$0" files/app
        mount --bind files /tmp
        LD_PRELOAD="/tmp/app/${0##*/}" exec /tmp/app/program "$@"' "$JESPAN_LIB" "${names[@]}"
    inside=$(pgrep -P "$pid")
    named "in a container" "$inside"
    "$JESPAN_CMD" leaks "$inside" > leaks 2> report.err || fail_with "leaks: exit $?" report.err
    grep -qE '^ +main +generated_program\.c:[0-9]+$|^ +main$' leaks || fail_with "leaks lacks the program's functions" leaks report.err
    stop
}

test_node() {
    have node || return 0
    cat > leak.js << 'END'
const kept = [];
function keepRows(n) { for (let i = 0; i < n; i++) kept.push(Buffer.allocUnsafeSlow(20000)); }
keepRows(100);
console.log("ready");
process.stdin.on("data", () => {});
END
    options=()
    start node --perf-basic-prof --interpreted-frames-native-stack leak.js
    "$JESPAN_CMD" report --csv --columns objects --by line "$pid" 2> report.err > all
    grep -q 'leak\.js:2.*keepRows' all || fail_with "no function of the script" report.err
    stop
}

test_python() {
    local python
    for python in python3.14 python3.13 python3.12 python3; do
        "$python" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2> /dev/null && break
        python=
    done
    [ -n "$python" ] || return 0
    python=$("$python" -c 'import sys; print(sys.executable)')
    cat > leak.py << 'END'
import sys
def make_rows(n):
    return [str(i) * 20 for i in range(n)]
def handle():
    return make_rows(1000)
kept = handle()
print("ready", flush=True)
sys.stdin.read()
END
    options=()
    PYTHONPERFSUPPORT=1 PYTHONMALLOC=malloc start "$python" leak.py
    "$JESPAN_CMD" report --stacks --csv --columns objects "$pid" 2> report.err > all
    grep -q '^1000,.* > handle > make_rows > ' all || fail_with "no functions of the script" report.err
    stop
}

test_program
test_anew
test_not_its_own
test_page
test_namespace
test_container
test_node
test_python
finish
