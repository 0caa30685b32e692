#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan dump PID`, `jespan report PID` and `jespan ps`: a process that waits, is stopped, or is static, is read from
# outside; and what they say where there is nothing to read.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help dump > /dev/null 2>&1 || skip "built without the pprof exporter"

cat > "$scratch/waits.c" << 'END'
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jespan/jespan.h>

static char *volatile held;
static pthread_t first;

static void *keep(void *leaves)
{
    JESPAN("keeper", "colour", "blue");
    held = malloc(1 << 20);
    if (leaves)
        pthread_join(first, NULL);
    if (write(1, "ready\n", 6) == 6 && !(leaves && strcmp(leaves, "ends") == 0))
        pause();
    return NULL;
}

/* With a word, the first thread ends while another one goes on. */
int main(int argc, char **argv)
{
    pthread_t other;
    first = pthread_self();
    if (argc > 1 && pthread_create(&other, NULL, keep, argv[1]) == 0)
        pthread_exit(NULL);
    keep(NULL);
    return !held;
}
END

# start PROGRAM…: runs it until the end of the test; pid is its number
start() {
    mkfifo "$scratch/ready"
    "$@" > "$scratch/ready" &
    pid=$!
    pids+=("$pid")
    read -r _ < "$scratch/ready"
    rm "$scratch/ready"
}

# refused WHAT STATUS PATTERN WORD…
refused() {
    local what=$1 expected=$2 pattern=$3 status=0
    shift 3
    "$JESPAN_CMD" "$@" > "$scratch/out" 2> "$scratch/err" || status=$?
    equal "$what: status" "$status" "$expected"
    # shellcheck disable=SC2053
    [[ $(cat "$scratch/err") == $pattern ]] || fail_with "$what: stderr is not like $pattern" "$scratch/err"
}

# shows WHAT: the process as it is now
shows() {
    "$JESPAN_CMD" report --exact "$pid" > "$scratch/table" 2> "$scratch/err" || fail_with "$1: report failed" "$scratch/err"
    grep -q '^ *1048576 .* keeper {colour=blue}' "$scratch/table" || fail_with "$1: no keeper in the table" "$scratch/table"
    "$JESPAN_CMD" dump "$pid" -o "$scratch/dump" 2> "$scratch/err" || fail_with "$1: dump failed" "$scratch/err"
    "$JESPAN_CMD" report --exact "$scratch/dump" > "$scratch/again" || fail "$1: the dump cannot be read"
    equal "$1: table of the dump" "$(tail -n +2 "$scratch/again")" "$(tail -n +2 "$scratch/table")"
    "$JESPAN_CMD" dump --time "$pid" -o - > "$scratch/time" || fail "$1: no dump of times"
    "$JESPAN_CMD" report "$scratch/time" > "$scratch/times" || fail "$1: the dump of times cannot be read"
    grep -q keeper "$scratch/times" || fail_with "$1: no keeper in the times" "$scratch/times"
}

$CC -std=gnu11 -I"$top_srcdir/include" -o "$scratch/waits" "$scratch/waits.c" -L"$top_builddir/.libs" -ljespan \
    -Wl,-rpath,"$top_builddir/.libs" || fail "the program was not built"
start "$scratch/waits"
"$JESPAN_CMD" report "$pid" > /dev/null 2> "$scratch/err" || ! grep -q 'permission denied' "$scratch/err" ||
    skip "this system lets no process read another"
shows "waiting"
(cd "$scratch" && equal "the name of the dump" "$("$JESPAN_CMD" dump "$pid")" "heap.$pid.pb.gz")
"$JESPAN_CMD" dump "$pid" -o /dev/stdout | gzip -t || fail "no dump into a pipe that has a name"
[ -f "$scratch/heap.$pid.pb.gz" ] || fail "there is no heap.$pid.pb.gz"
kill -STOP "$pid"
shows "stopped"

# lists STATE: jespan ps has the process, by its name, with what it holds
lists() {
    "$JESPAN_CMD" ps > "$scratch/ps" 2> "$scratch/err" || fail_with "ps failed" "$scratch/err"
    grep -qE "^ *$pid +1\.[01] MiB +[0-9.]+ MiB +- +$1 +keeper \{colour=blue\} \(1\.0 MiB\)\$" "$scratch/ps" ||
        fail_with "ps does not list the process" "$scratch/ps"
    ! grep -q "^ *$$ " "$scratch/ps" || fail_with "ps lists a process without jespan" "$scratch/ps"
}
lists waits

# A sidecar is in the row of the process that it serves.
"$JESPAN_CMD" serve --dump-dir "$scratch/served" "$pid" 2> "$scratch/serve.err" &
sidecar=$!
pids+=("$sidecar")
has_sidecar() {
    "$JESPAN_CMD" ps --json > "$scratch/ps" && grep -qE "\"pid\":$pid,\"program\":\"waits\",.*\"sidecar\":$sidecar," "$scratch/ps"
}
await has_sidecar || fail_with "ps does not know the sidecar" "$scratch/ps"
"$JESPAN_CMD" ps > "$scratch/ps" && grep -qE "^ *$pid .* MiB +$sidecar +waits " "$scratch/ps" ||
    fail_with "ps does not show the sidecar" "$scratch/ps"
kill -TERM "$sidecar"
wait "$sidecar"
lists waits

start "$scratch/waits" leaves
shows "without its first thread"
lists waits
"$JESPAN_CMD" run --quiet --interval 0 --dump-dir "$scratch/ended" -- "$scratch/waits" ends > /dev/null 2> "$scratch/err"
"$JESPAN_CMD" report "$scratch"/ended/heap.* > "$scratch/table" 2>> "$scratch/err" && grep -q keeper "$scratch/table" ||
    fail_with "no dump of a program whose first thread ended" "$scratch/err"
if "$JESPAN_CMD" run --http unix:"$scratch/other" -- true > /dev/null 2>&1; then
    start "$JESPAN_CMD" run --quiet --http unix:"$scratch/http" --trace "$scratch/trace" --dump-dir "$scratch/traced" -- \
        "$scratch/waits" leaves
    asked() {
        curl -s --unix-socket "$scratch/http" "http://127.0.0.1/$1" > "$scratch/answer" && [ -s "$scratch/answer" ]
    }
    await asked debug/pprof/cmdline || fail_with "no command line of a program whose first thread ended" "$scratch/answer"
    equal "its command line" "$(tr '\0' ' ' < "$scratch/answer")" "$scratch/waits leaves"
    asked spans && grep -q '"resident_bytes":[1-9]' "$scratch/answer" || fail_with "it has no resident memory" "$scratch/answer"
    traced() {
        grep -q '"resident memory","args":{"bytes":[1-9]' "$scratch/trace"
    }
    await traced || fail_with "its trace has no resident memory" "$scratch/trace"
fi

if [ -f "$top_builddir/libjespan.a" ]; then
    $CC -std=gnu11 -static -s -I"$top_srcdir/include" -o "$scratch/static" "$scratch/waits.c" -L"$top_builddir" \
        -l:libjespan.a -lm -lpthread 2> "$scratch/err" || fail_with "the static program was not built" "$scratch/err"
    start "$scratch/static"
    shows "static and stripped"
    lists static
fi

refused "no number" 2 "jespan: 'fish' is not the number of a process" dump fish
refused "no process" 2 "jespan: 2147483647: there is no such process" dump 2147483647
refused "no jespan in it" 2 "jespan: $$: there is no jespan in this process; start it with 'jespan run'" dump $$ -o "$scratch/none"
refused "no jespan to report" 2 "jespan: $$: there is no jespan in this process; start it with 'jespan run'" report $$
refused "a word for ps" 2 "jespan: unexpected word 'fish'*" ps fish
refused "no PID" 2 "jespan: there is no PID*" dump
refused "a directory" 1 "jespan: $scratch: Is a directory" dump "$pid" -o "$scratch"
refused "no directory" 1 "jespan: /nowhere/x: No such file or directory" dump "$pid" -o /nowhere/x

# A namespace of its own without /proc. Not every system lets a user make one.
cat > "$scratch/without_proc" << END
#!/bin/sh
mount -t tmpfs none /proc && exec "$JESPAN_CMD" "\$@"
END
chmod +x "$scratch/without_proc"
cat > "$scratch/unshared" << END
#!/bin/sh
exec unshare -rm "$scratch/without_proc" "\$@"
END
chmod +x "$scratch/unshared"
if "$scratch/unshared" help > /dev/null 2>&1; then
    own=$JESPAN_CMD JESPAN_CMD=$scratch/unshared
    refused "no /proc" 2 "jespan: $$: /proc has no entry for it: *" dump $$ -o "$scratch/none"
    refused "ps without /proc" 2 "jespan: /proc: has no processes; is it mounted?" ps
    refused "no process and no /proc" 2 "jespan: 2147483647: there is no such process" dump 2147483647
    refused "run without /proc" 0 "*: /proc is not mounted; a thread in the program reports instead" run --quiet --dump-dir "$scratch" --interval 0 -- true
    JESPAN_CMD=$own
fi
[ -z "$(find "$scratch" -name 'none*')" ] || fail "a dump that failed has left a file"
finish
