#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan ctl`: a running program's stacks, limits and settings are changed from outside; and what it says where the
# program sleeps, is stopped, or has ended.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help ctl > /dev/null 2>&1 || skip "built without jespan ctl"

cat > "$scratch/works.c" << 'END'
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jespan/jespan.h>

static volatile sig_atomic_t sleeps, last_signal;
static void *volatile kept[64];

static void sleep_from_now_on(int number)
{
    sleeps = 1;
    last_signal = number;
}

int mallctl(const char *, void *, size_t *, void *, size_t);

int main(void)
{
    sigset_t all;
    sigfillset(&all);
    signal(SIGUSR1, sleep_from_now_on);
    signal(SIGUSR2, sleep_from_now_on);
    signal(SIGHUP, sleep_from_now_on);
    JESPAN("worker");
    (void)!write(1, "ready\n", 6);
    for (int i = 0; i < 64; i++)
        kept[i] = malloc(1 << 20);
    while (!sleeps)
        for (size_t i = 1; i < 200; i++)
            free(strdup(memset(calloc(1, i + 1), 'x', i)));
    sigprocmask(SIG_BLOCK, &all, NULL);
    (void)!write(1, "sleeps\n", 7);
    for (sigset_t none; sigemptyset(&none), 1;) {
        sigsuspend(&none);
        if (last_signal == SIGUSR2) /* one allocation, of a magazine */
            free(malloc(64));
        if (last_signal == SIGHUP && !fork()) { /* a child that allocates, and says whether it takes stacks then */
            for (size_t i = 1; i < 200; i++)
                free(strdup(memset(calloc(1, i + 1), 'x', i)));
            const char *mode = "";
            size_t bytes = sizeof mode;
            mallctl("spans.stacks", &mode, &bytes, NULL, 0);
            (void)!write(1, mode, strlen(mode));
            (void)!write(1, "\n", 1);
            _exit(0);
        }
        if (last_signal == SIGHUP)
            wait(NULL);
        else
            (void)!write(1, "worked\n", 7);
    }
}
END

# start PROGRAM…: runs it until the end of the test; pid is its number, and descriptor 3 reads what it writes
start() {
    mkfifo "$scratch/words"
    "$@" > "$scratch/words" &
    pid=$!
    pids+=("$pid")
    exec 3< "$scratch/words"
    rm "$scratch/words"
    read -r _ <&3
}

# ctl WORD…: what it prints; a test waits for the program as long as need be
ctl() {
    "$JESPAN_CMD" ctl --wait 600 "$pid" "$@"
}

as_nobody() {
    setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

# refused WHAT STATUS PATTERN WORD…
refused() {
    local what=$1 expected=$2 pattern=$3 status=0
    shift 3
    "$JESPAN_CMD" ctl "$@" > "$scratch/out" 2> "$scratch/err" || status=$?
    equal "$what: status" "$status" "$expected"
    # shellcheck disable=SC2053
    [[ $(cat "$scratch/err") == $pattern ]] || fail_with "$what: stderr is not like $pattern" "$scratch/err"
}

$CC -std=gnu11 -O1 -fno-builtin -I"$top_srcdir/include" -o "$scratch/works" "$scratch/works.c" -L"$top_builddir/.libs" \
    -ljespan -Wl,-rpath,"$top_builddir/.libs" || fail "the program was not built"

# works WHAT: the program that runs as pid answers
works() {
    equal "$1: the version" "$(ctl get spans.version)" "$("$JESPAN_CMD" --version | sed 's/jespan //')"
    equal "$1: several names" "$(ctl get spans.stacks opt.abort arenas.page)" $'spans.stacks: off\nopt.abort: false\narenas.page: 4096'
    await has_allocated || fail "$1: jemalloc's statistics are old"
    ctl stacks all || fail "$1: stacks all failed"
    equal "$1: stacks" "$(ctl stacks)" all
    await has_stacks || fail "$1: no stack was taken"
    ctl stacks off || fail "$1: stacks off failed"
    ctl set arenas.dirty_decay_ms -1 && equal "$1: -1" "$(ctl get arenas.dirty_decay_ms)" -1
    ctl set arenas.muzzy_decay_ms 5K && equal "$1: 5K" "$(ctl get arenas.muzzy_decay_ms)" 5120
    ctl purge || fail "$1: purge failed"
}
has_allocated() {
    [ "$(ctl get stats.allocated)" -ge 67108864 ]
}
has_stacks() {
    [ "$(ctl get spans.stats.stacks.stacks)" -gt 0 ]
}

start "$scratch/works"
"$JESPAN_CMD" report "$pid" > /dev/null 2> "$scratch/err" || ! grep -q 'permission denied' "$scratch/err" ||
    skip "this system lets no process read another"
works "shared"
refused "a thread's name" 1 "jespan: $pid: thread.arena is no name that can be read from outside" --wait 600 "$pid" get thread.arena
refused "a name to call" 1 "jespan: $pid: arena.0.purge is no name that can be set from outside" --wait 600 "$pid" set arena.0.purge 1
# Only this mount of /proc, which other processes do not see
if unshare -m sh -c 'mount --bind /proc /proc && mount -o remount,bind,ro /proc' 2> /dev/null; then
    status=0
    # shellcheck disable=SC2016
    unshare -m sh -c 'mount --bind /proc /proc && mount -o remount,bind,ro /proc && exec "$@"' sh "$JESPAN_CMD" ctl "$pid" purge \
        2> "$scratch/err" || status=$?
    equal "/proc is read-only" "$status $(cat "$scratch/err")" "2 jespan: $pid: /proc is mounted read-only, so nothing can be changed in a process"
else
    echo "not run: /proc cannot be mounted here"
fi
for words in "stacks fish" "set spans.stacks fish"; do
    # shellcheck disable=SC2086
    refused "a wrong word" 2 "jespan: spans.stacks: 'fish' is none of all, sampled, off, all@NAMES, sampled@NAMES" "$pid" $words
done
refused "no context" 1 "jespan: $pid: spans.999999.inuse_bytes does not exist in it" --wait 600 "$pid" get spans.999999.inuse_bytes

kill -STOP "$pid"
await grep -q '^State:.T' "/proc/$pid/status"
refused "stopped" 3 "jespan: $pid: spans.stacks: no answer in 0.05 s, and nothing was changed: the program is stopped" \
    --wait 0.05 "$pid" stacks all
kill -CONT "$pid"
equal "after a withdrawn request" "$(ctl stacks)" off

# ---- The program sleeps ----

# signalled SIGNAL WORD: the program, which gets the signal, says WORD
signalled() {
    kill "-$1" "$pid"
    read -r word <&3
    equal "the program says after $1" "$word" "$2"
}
kill -USR1 "$pid"
read -r word <&3
equal "the program says" "$word" sleeps
refused "asleep" 3 "jespan: $pid: spans.stacks: no answer in 0.05 s, and nothing was changed: the program *" \
    --wait 0.05 "$pid" stacks all
left="waits in the program, which has not allocated since; the program does it when it next allocates, 'jespan ctl $pid \
waiting' shows it"
refused "left" 0 "jespan: $pid: spans.stacks $left" "$pid" stacks sampled
refused "another one left" 0 "jespan: $pid: arenas.dirty_decay_ms $left" "$pid" set arenas.dirty_decay_ms 5000
refused "the first one again" 0 "jespan: $pid: spans.stacks $left" "$pid" stacks all
equal "they wait" "$(ctl waiting)" $'arenas.dirty_decay_ms 5000: waits\nspans.stacks all: waits'
signalled HUP off
equal "a child did not take them" "$(ctl waiting)" $'arenas.dirty_decay_ms 5000: waits\nspans.stacks all: waits'
ctl withdraw arenas.dirty_decay_ms || fail "a request was not withdrawn"
refused "one that does not wait" 1 "jespan: $pid: arenas.dirty_decay_ms: no such request waits" "$pid" withdraw arenas.dirty_decay_ms
refused "another one is left" 0 "*" "$pid" set spans.stacks sampled
refused "a right one instead" 0 "*" "$pid" stacks all
refused "a value that does not fit" 0 "*" "$pid" set background_thread 2
refused "no context to limit" 1 "jespan: $pid: spans.999999.limit_hard does not exist in it" "$pid" set spans.999999.limit_hard 1
signalled USR2 worked
equal "done" "$(ctl waiting)" $'spans.stacks all: done\nbackground_thread 2: does not take this value'
signalled HUP all
ctl withdraw || fail "withdraw failed though nothing waits"

# ---- A program that never leaves the fast path: the same few objects, on a thread that is not the first one ----

cat > "$scratch/loops.c" << 'END'
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include <jespan/jespan.h>
#include <jespan/limit.h>

static int objects;

static void *loop(void *limited)
{
    JESPAN("loop");
    void *p[4];
    if (limited && jespan_set_limit(jespan_current(), 0, 1 << 30))
        abort();
    for (int turn = 0;; turn++) {
        for (int i = 0; i < objects; i++)
            p[i] = malloc(100);
        for (int i = objects; i-- > 0;)
            free(p[i]);
        if (turn == 100)
            (void)!write(1, "ready\n", 6);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    objects = atoi(argv[1]);
    if (pthread_create(&thread, NULL, loop, argc > 2 ? argv[2] : NULL) == 0)
        pthread_join(thread, NULL);
}
END
$CC -std=gnu11 -O1 -fno-builtin -I"$top_srcdir/include" -o "$scratch/loops" "$scratch/loops.c" -L"$top_builddir/.libs" \
    -ljespan -lpthread -Wl,-rpath,"$top_builddir/.libs" || fail "the program that loops was not built"
for arguments in 1 4 "1 limited"; do
    # shellcheck disable=SC2086
    start "$scratch/loops" $arguments
    ctl set arenas.dirty_decay_ms 5K || fail "a loop with $arguments did not take the change"
    equal "a loop with $arguments" "$(ctl get arenas.dirty_decay_ms)" 5120
    ctl stacks all || fail "a loop with $arguments did not take stacks"
    await has_stacks || fail "a loop with $arguments took no stack"
    ctl stacks off || fail "a loop with $arguments did not end stacks"
    ctl purge || fail "a loop with $arguments did not purge"
    kill -KILL "$pid"
done

if [ -f "$top_builddir/libjespan.a" ]; then
    $CC -std=gnu11 -static -s -O1 -fno-builtin -I"$top_srcdir/include" -o "$scratch/static" "$scratch/works.c" \
        -L"$top_builddir" -l:libjespan.a -lm -lpthread 2> "$scratch/err" || fail_with "the static program was not built" "$scratch/err"
    start "$scratch/static"
    works "static and stripped"
fi

refused "no number" 2 "jespan: 'fish' is not the number of a process" fish purge
refused "no process" 2 "jespan: 2147483647: there is no such process" 2147483647 purge
refused "no jespan in it" 2 "jespan: $$: there is no jespan in this process; start it with 'jespan run'" $$ purge
start "$scratch/works"
if [ "$(id -u)" = 0 ] && as_nobody "$JESPAN_CMD" --version > /dev/null 2>&1; then
    as_nobody "$JESPAN_CMD" ctl "$pid" purge 2> "$scratch/err" && fail "another user's process was changed"
    equal "another user's" "$(cat "$scratch/err")" "jespan: $pid: permission denied: only its user or root can read a \
process, and kernel.yama.ptrace_scope must allow it"
fi
refused "no verb" 2 "jespan: unknown verb 'fish'; see 'jespan help ctl'" "$pid" fish
refused "a name for a verb" 2 "jespan: 'get' or 'set' is missing before the name 'spans.stats.contexts'; see 'jespan help ctl'" \
    "$pid" spans.stats.contexts
refused "no words" 2 "jespan: there is no VERB; see 'jespan help ctl'" "$pid"
refused "too few words" 2 "jespan: a word is missing after 'set'; see 'jespan help ctl'" "$pid" set spans.stacks
refused "no seconds" 2 "jespan: --wait: 'soon' is not a number of seconds from 0 to 1000000" --wait soon "$pid" purge
finish
