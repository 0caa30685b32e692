#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan ctl PID get`, `list`, `dump` and --json: what is read from outside is what the program reads itself, and a program
# that sleeps or is stopped is read too. Limits by path, and limits of contexts that are gone.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help ctl > /dev/null 2>&1 || skip "built without jespan ctl"

cat > "$scratch/waits.c" << 'END'
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jespan/jespan.h>

int mallctl(const char *, void *, size_t *, void *, size_t);

enum { OBJECTS = 300 };
static void *objects[2 * OBJECTS];
static char names[1 << 20];
static pthread_barrier_t barrier;

static void *use_cache(void *unused)
{
    (void)unused;
    JESPAN_WITH("request", JESPAN_LABEL("tenant", "blue"), JESPAN_LABEL_INT("shard", 7));
    JESPAN("cache");
    for (size_t i = 0; i < OBJECTS; i++)
        objects[i] = malloc(16 + i);
    for (size_t i = 0; i < 33; i++) /* more than the free buffer has room for, and then some that it holds */
        free(objects[i]);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

static int is_text(const char *name)
{
    static const char *const ends[] = {".name", ".target", ".file", ".kind", ".version", ".stacks", ".last_error"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (strlen(name) > strlen(ends[i]) && !strcmp(name + strlen(name) - strlen(ends[i]), ends[i]))
            return strcmp(name, "spans.stats.stacks.stacks") != 0;
    return 0;
}

/* Without malloc, so that the figures stay. */
static void print(const char *name)
{
    char line[1200];
    uint64_t number = 0;
    const char *text = "";
    size_t bytes = 8;
    int error = is_text(name) ? mallctl(name, &text, &bytes, NULL, 0) : mallctl(name, &number, &bytes, NULL, 0);
    int n = error            ? snprintf(line, sizeof line, "%s: error %d\n", name, error)
            : is_text(name) ? snprintf(line, sizeof line, "%s: %s\n", name, text)
                            : snprintf(line, sizeof line, "%s: %llu\n", name, (unsigned long long)number);
    (void)!write(1, line, (size_t)n);
}

static void print_all(const char *file)
{
    int fd = open(file, O_RDONLY);
    ssize_t n = read(fd, names, sizeof names - 1);
    names[n > 0 ? n : 0] = '\0';
    close(fd);
    char *rest;
    for (char *one = strtok_r(names, "\n", &rest); one; one = strtok_r(NULL, "\n", &rest))
        print(one);
}

/* Takes all numbers of contexts, without malloc. */
static void take_numbers(void)
{
    static const struct jespan_site site = {.name = "filler"};
    for (int64_t i = 0; i < 1000; i++) {
        struct jespan_label label = JESPAN_LABEL_INT("number", i);
        jespan_close(jespan_open(&site, 1, &label, 1));
    }
}

int main(int argc, char **argv)
{
    pthread_t threads[2];
    char order[2];
    (void)argc;
    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&threads[0], NULL, use_cache, NULL);
    pthread_barrier_wait(&barrier);
    {
        JESPAN("request");
        {
            JESPAN("cache");
            for (size_t i = OBJECTS; i < 2 * OBJECTS; i++)
                objects[i] = malloc(5000 + i);
            for (size_t i = OBJECTS / 2; i < OBJECTS; i++)
                free(objects[i]);
        }
    }
    {
        JESPAN_WITH("passing", JESPAN_LABEL_INT("number", -1));
        free(malloc(100));
    }
    (void)!write(1, "ready\n", 6);
    while (read(0, order, 2) == 2)
        switch (order[0]) {
        case 'p':
            print_all(argv[1]);
            (void)!write(1, "end\n", 4);
            break;
        case 't':
            take_numbers();
            /* fallthrough */
        case 'a':
            for (size_t i = 1; i < 200; i++)
                free(malloc(i));
            (void)!write(1, "done\n", 5);
            break;
        }
    return 0;
}
END
$CC -std=gnu11 -O1 -fno-builtin -I"$top_srcdir/include" -o "$scratch/waits" "$scratch/waits.c" -L"$top_builddir/.libs" \
    -ljespan -lpthread -Wl,-rpath,"$top_builddir/.libs" || fail "the program was not built"

# start CONF: runs the program; pid is its number, descriptor 3 reads what it writes, and descriptor 4 is its input
start() {
    mkfifo "$scratch/words" "$scratch/orders"
    JESPAN_CONF=$1 "$scratch/waits" "$scratch/names" > "$scratch/words" < "$scratch/orders" &
    pid=$!
    exec 3< "$scratch/words" 4> "$scratch/orders"
    rm "$scratch/words" "$scratch/orders"
    read -r _ <&3
}
end() {
    kill -CONT "$pid"
    exec 4>&- 3<&-
    wait "$pid" || true
}
pid=
end_all() {
    [ -z "$pid" ] || kill -KILL "$pid"
    wait 2> /dev/null
}
cleanup_hook=end_all

ctl() {
    "$JESPAN_CMD" ctl "$@"
}

# refused WHAT STATUS PATTERN WORD…
refused() {
    local what=$1 expected=$2 pattern=$3 status=0
    shift 3
    ctl "$@" > "$scratch/out" 2> "$scratch/err" || status=$?
    equal "$what: status" "$status" "$expected"
    # shellcheck disable=SC2053
    [[ $(cat "$scratch/err") == $pattern ]] || fail_with "$what: stderr is not like $pattern" "$scratch/err"
}

# told: what the program says in answer to an order, up to a last word
told() {
    echo "$1" >&4
    while IFS= read -r line <&3 && [ "$line" != "$2" ]; do
        echo "$line"
    done
}

# id NAME: the number of the only context of that name
id() {
    ctl "$pid" list 'spans.*.name' | sed -n "s/^spans\\.\\([0-9]*\\)\\.name: $1\$/\\1/p" | tail -n 1
}

# Times pass. mallctl takes memory for its first snapshot, and gives what the thread has freed in an arena to jemalloc. It
# gives labels as arrays.
varies='_ns|spans\.stats\.(map|meta|pending)_bytes|\.labels|\.value|spans\.count'

# same WHAT: the program reads what is read from outside
same() {
    ctl "$pid" list > "$scratch/list" || fail "$1: list failed"
    sed 's/: .*//' "$scratch/list" | grep -Ev "($varies)\$" > "$scratch/names"
    told p end > "$scratch/own"
    grep -Ev "^[^:]*($varies): " "$scratch/list" > "$scratch/outside"
    cmp -s "$scratch/own" "$scratch/outside" || {
        diff "$scratch/own" "$scratch/outside" > "$scratch/differences" || true
        fail_with "$1: the program reads other values (<)" "$scratch/differences"
    }
    [ "$(wc -l < "$scratch/outside")" -gt 200 ] || fail_with "$1: the list is short" "$scratch/outside"
}

start 'limit:request=100M/200M,arena:cache'
ctl "$pid" list spans.version > "$scratch/out" 2> "$scratch/err" || ! grep -q 'permission denied' "$scratch/err" ||
    skip "this system lets no process read another"
same "with a limit and an arena"
cache=$(id cache)
grep -q "^spans\.$cache\.limit_hard: 0\$" "$scratch/outside" || fail_with "no limit of a context" "$scratch/outside"
request=$(id request)
equal "a limit" "$(ctl "$pid" get "spans.$request.limit_soft" "spans.$request.limit_hard" "spans.$request.limit_refusals")" \
    "spans.$request.limit_soft: 104857600
spans.$request.limit_hard: 209715200
spans.$request.limit_refusals: 0"
grep -q '^spans\.arenas\.1\.name: cache$' "$scratch/outside" || fail_with "no arena" "$scratch/outside"
[ "$(ctl "$pid" list "spans.arenas.*.inuse_bytes" | sed "s/.*: //" | sort -n | tail -n 1)" -gt 1000000 ] || fail "no bytes in the arena"
[[ $(ctl "$pid" list 'spans.*.labels') == *'labels: tenant=blue, shard=7'* ]] || fail "no labels"

# ---- The program is stopped ----

ctl "$pid" list 'spans.*inuse*' > "$scratch/before"
kill -STOP "$pid"
await grep -q '^State:.T' "/proc/$pid/status"
ctl "$pid" list 'spans.*inuse*' > "$scratch/stopped" || fail "list of a stopped program failed"
cmp "$scratch/before" "$scratch/stopped" || fail "another list of a stopped program"
equal "get" "$(ctl "$pid" get spans.stacks)" off
ctl "$pid" dump "$scratch/stopped.pb.gz" || fail "dump failed"
equal "the dump" "$("$JESPAN_CMD" report --filter cache --exact --by name "$scratch/stopped.pb.gz" | awk '$NF == "cache" {print $1}')" \
    "$(($(ctl "$pid" list 'spans.*.name' | sed -n 's/^spans\.\([0-9]*\)\.name: cache$/\1/p' |
        while read -r number; do ctl "$pid" get "spans.$number.inuse_bytes"; done | paste -sd+)))"
(cd "$scratch" && equal "the dump's name" "$(ctl "$pid" dump)" "heap.$pid.pb.gz" && [ -s "heap.$pid.pb.gz" ]) || fail "no dump"
ctl "$pid" dump - | cmp -s - <(printf '\037\213'; ctl "$pid" dump - | tail -c +3) || true
[ "$(ctl "$pid" dump - | head -c 2 | od -An -tx1 | tr -d ' ')" = 1f8b ] || fail "no dump on standard output"
refused "a directory" 1 "jespan: $scratch: *" "$pid" dump "$scratch"
refused "jemalloc's name" 3 "jespan: $pid: stats.allocated: no answer in 0.05 s: only a thread of the program can read this name, \
and the program is stopped" --wait 0.05 "$pid" get stats.allocated
for name in stats.alocated spans.fish spans.all.fish spans.1.fish thread.arena fish; do
    refused "no name, and the program is not asked" 1 "jespan: $pid: $name is no name that can be read from outside" \
        --wait 0.05 "$pid" get "$name"
done
refused "no name to set" 1 "jespan: $pid: opt.abort is no name that can be set from outside" --wait 0.05 "$pid" set opt.abort 1
refused "no name to call" 1 "jespan: $pid: fish is no name that can be called from outside" --wait 0.05 "$pid" call fish
refused "no context" 1 "jespan: $pid: spans.99.inuse_bytes does not exist in it" "$pid" get spans.99.inuse_bytes
refused "no limit" 1 "jespan: $pid: spans.$cache.limit_refusals does not exist in it" "$pid" get "spans.$cache.limit_refusals"
refused "no name" 1 "jespan: $pid: 'fish*' fits no name that can be read from outside" "$pid" list 'fish*'
refused "an option in a wrong place" 2 "jespan: options must be before PID, also '--json'; *" "$pid" get --json spans.count
equal "JSON" "$(ctl --json "$pid" get "spans.$cache.name" spans.stats.truncated)" "{
  \"spans.$cache.name\": \"cache\",
  \"spans.stats.truncated\": 0
}"
ctl --json "$pid" list | python3 -c 'import json, sys; sys.exit(len(json.load(sys.stdin)) < 200)' || fail "list is not JSON"
equal "nothing waits" "$(ctl --json "$pid" waiting)" '[]'
refused "UTF-8 that waits" 0 "*waits in the program*" "$pid" set spans.stacks all@blåbær
equal "UTF-8 in JSON" "$(ctl --json "$pid" waiting)" '[
  {"name": "spans.stacks", "value": "all@blåbær", "result": "waits"}
]'
ctl "$pid" withdraw

# ---- Limits by path ----

refused "no such span" 1 "jespan: $pid: no span fits 'fish'" "$pid" set limit:fish 1M
for bytes in 64MB abc ''; do
    refused "no number of bytes" 2 "jespan: '$bytes' is no number of bytes, such as 64M" "$pid" set 'limit:request{tenant=bl*} > cache' "$bytes"
done
refused "a negative limit by path" 2 "jespan: $pid: '-1' is negative, and limit:passing takes no negative number" "$pid" set limit:passing -1
refused "a negative number" 2 "jespan: $pid: '-1' is negative, *" "$pid" set spans.stacks_min_bytes -1
refused "several spans" 1 "jespan: $pid: 2 spans fit 'request > cache': request *cache; request *cache. Name the spans above or labels*" \
    "$pid" set 'limit:request > cache' 64M
refused "no limit of a context that does not exist" 1 "jespan: $pid: spans.99.limit_hard does not exist in it" "$pid" set spans.99.limit_hard 1M
refused "by path" 0 "*waits in the program*" "$pid" set 'limit:request{tenant=bl*} > cache' 64M
refused "soft" 0 "*waits in the program*" "$pid" set 'limit_soft:passing' 1M
ctl --json "$pid" waiting | python3 -c 'import json, sys
waiting = json.load(sys.stdin)
sys.exit([one["value"] + one["result"] for one in waiting] != ["64Mwaits", "1Mwaits"])' || fail "they do not wait"
kill -CONT "$pid"
told a "done"
equal "done" "$(ctl "$pid" waiting | sed 's/^[^:]*: //')" $'done\ndone'
same "with limits"
limited=$(sed -n 's/^spans\.\([0-9]*\)\.limit_hard: 67108864$/\1/p' "$scratch/outside")
equal "one is limited" "$(ctl "$pid" get "spans.$limited.name" "spans.$(ctl "$pid" get "spans.$limited.parent").labels")" \
    "spans.$limited.name: cache
spans.$(ctl "$pid" get "spans.$limited.parent").labels: tenant=blue, shard=7"
end

# ---- Several commands at once, and one that is killed ----

start 'max_contexts:64'
commands=()
for name in arenas.dirty_decay_ms arenas.muzzy_decay_ms max_background_threads; do
    "$JESPAN_CMD" ctl "$pid" set "$name" 3 2> /dev/null &
    commands+=($!)
done
for one in "${commands[@]}"; do
    wait "$one" || fail "one of several commands at once ends with status $?"
done
equal "all wait" "$(ctl "$pid" waiting | sort)" 'arenas.dirty_decay_ms 3: waits
arenas.muzzy_decay_ms 3: waits
max_background_threads 3: waits'
"$JESPAN_CMD" ctl --wait 600 "$pid" set arenas.dirty_decay_ms 4 &
one=$!
kill -9 "$one"
wait "$one" 2> /dev/null || true
ctl "$pid" withdraw || fail "withdraw fails after a command was killed"
equal "nothing waits" "$(ctl "$pid" waiting)" ""

# ---- The context is gone when the program wakes ----

passing=$(id passing)
refused "left" 0 "*waits in the program*" "$pid" set "spans.$passing.limit_hard" 1M
refused "left too" 0 "*waits in the program*" "$pid" set 'limit_soft:passing' 2M
told t "done"
equal "gone" "$(ctl "$pid" waiting)" \
    "spans.$passing.limit_hard 1M: is another context's number now; the context that was meant is gone
spans.$passing.limit_soft 2M: is another context's number now; the context that was meant is gone"
equal "nobody else is limited" "$(ctl "$pid" get spans.stats.limits)" 0
end
pid=
finish
