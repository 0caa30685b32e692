#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# `jespan leaks --older-than`: of a process that knows ages, the memory that is so old, by stack; exactly, whatever was allocated since.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help leaks > /dev/null 2>&1 || skip "built without jespan leaks"
cat > "$scratch/program.c" << 'END'
#include <stdio.h>
#include <stdlib.h>
static void *kept[100];
#define KEEP(x) __asm__ volatile("" : : "r"(x) : "memory")
static __attribute__((noinline)) void early(int i) { kept[i] = malloc(1000); KEEP(kept); }
static __attribute__((noinline)) void late(int i)
{
    void *gone = malloc(300);
    KEEP(gone);
    free(gone);
    kept[i] = malloc(200);
    KEEP(kept);
}
int main(void)
{
    setbuf(stdin, NULL);
    setbuf(stdout, NULL);
    for (int i = 0; i < 50; i++)
        early(i);
    free(kept[0]);
    puts("early");
    if (getchar() != 'l')
        return 0;
    for (int i = 50; i < 90; i++)
        late(i);
    puts("late");
    return getchar();
}
END
cd "$scratch"
$CC -g -O1 -o program program.c
mkfifo in

# start CONF: the program, until it has allocated what becomes old
start() {
    JESPAN_CONF=stacks:all,$1 LD_PRELOAD=$JESPAN_LIB ./program < in > said &
    pid=$!
    exec 7> in
    await_of "$pid" grep -q early said || fail "the program does not begin"
}

stop() {
    exec 7>&-
    wait "$pid" || true
}

# leaks WORD…: what is in use, to `out`
leaks() {
    status=0
    "$JESPAN_CMD" leaks "$@" > out 2> err || status=$?
}
shows_early() {
    leaks --older-than "$1s" "$pid"
    grep -q '^ *early  program.c' out
}

start age_period_s:1
leaks "$pid"
! grep -q 'permission denied' err || skip "this system lets no process read another"
stop

# The late objects must be younger than the bound when the process is read. A busy machine may take longer: then once more, with a
# higher bound.
for bound in 4 8 16 32 64 128; do
    start age_period_s:1
    await shows_early $bound || fail_with "what is old is not shown" out
    began=$SECONDS
    printf l >&7
    await_of "$pid" grep -q late said || fail "the program does not go on"
    leaks --older-than ${bound}s "$pid"
    took=$((SECONDS - began))
    cp out old
    leaks "$pid"
    "$JESPAN_CMD" leaks --older-than 1000000000d "$pid" > none
    stop
    [ $((took + 2)) -ge "$bound" ] || break
done
equal "what is old" "$(tail -n 1 old)" "in use: 49.0 KiB in 49 objects of 1 stack"
! grep -q late old || fail_with "what is young counts as old" old
equal "since before the program began" "$(cat none)" "in use: 0 B in 0 objects of 0 stacks"
equal "all" "$(tail -n 1 out)" "in use: 57.8 KiB in 89 objects of 2 stacks"

start age_period_s:0
leaks --older-than 1s "$pid"
equal "a process without ages" "$status $(cat err)" \
    "2 jespan: $pid: --older-than: the process knows no ages; they are known with 'jespan run --conf age_period_s:60'"
stop
for wrong in x 0s 5 -5m 1w; do
    leaks --older-than $wrong 1
    equal "--older-than $wrong" "$status $(cat err)" "2 jespan: --older-than: '$wrong' is not a time such as 90s, 10m, 2h or 1d"
done
touch profile
leaks --older-than 1m profile
equal "a dump" "$status $(cat err)" \
    "2 jespan: profile: --older-than is for a process's number, or a core: dumps and answers do not say how old memory is"
finish
