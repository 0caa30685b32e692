#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Stacks for some spans, threads and sizes only: in the configuration, and changed while the program runs.
# shellcheck source=tests/support/lib.sh
. "$(dirname "$0")/../support/lib.sh"

"$JESPAN_CMD" help report > /dev/null 2>&1 || skip "built without jespan report"

cat > "$scratch/works.c" << 'END'
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jespan/jespan.h>

int mallctl(const char *, void *, size_t *, void *, size_t);

static void *volatile kept;

__attribute__((noinline)) static void keep(size_t bytes)
{
    char *p = malloc(bytes);
    *(void **)p = kept;
    kept = p;
}

__attribute__((noinline)) static void small(void)
{
    keep(100);
    __asm__ volatile("");
}

__attribute__((noinline)) static void large(void)
{
    keep(10000);
    __asm__ volatile("");
}

static void both(void)
{
    small();
    large();
}

static void *run(void *nothing)
{
    pthread_setname_np(pthread_self(), "worker-1");
    keep(16); /* the thread has another context from here on */
    both();
    return nothing;
}

static void work(void)
{
    {
        JESPAN("request");
        both();
        JESPAN("cache");
        both();
        JESPAN("inner");
        both();
    }
    {
        JESPAN("other");
        both();
    }
    pthread_t thread;
    pthread_create(&thread, NULL, run, NULL);
    pthread_join(thread, NULL);
}

static void set(const char *mode, int expected)
{
    const char *now = NULL;
    size_t bytes = sizeof now;
    int error = mallctl("spans.stacks", NULL, NULL, &mode, sizeof mode);
    mallctl("spans.stacks", &now, &bytes, NULL, 0);
    if (error != expected || (!error && strcmp(now, mode)) || (error && !strcmp(now, mode)))
        fprintf(stderr, "'%s' gives %d, and the mode is '%s'\n", mode, error, now);
}

/* The texts that are read stay, so there is a bound on how many there are. */
static void set_many(void)
{
    char mode[32];
    const char *word = mode, *first = NULL;
    size_t bytes = sizeof first;
    int error = 0;
    set("all@first", 0);
    mallctl("spans.stacks", &first, &bytes, NULL, 0);
    for (int i = 0; i < 1000 && !error; i++) {
        snprintf(mode, sizeof mode, "all@span-%d", i);
        error = mallctl("spans.stacks", NULL, NULL, &word, sizeof word);
    }
    if (error != ENOMEM || strcmp(first, "all@first"))
        fprintf(stderr, "many modes: %d, and the first is '%s'\n", error, first);
    set("all@first", 0);
    set("off", 0);
}

int main(int argc, char **argv)
{
    if (argc == 1) {
        work();
        return 0;
    }
    size_t least = 5000, was = 1, bytes = sizeof was;
    set("all@", EINVAL);
    set("off@cache", EINVAL);
    set("some", EINVAL);
    set("", EINVAL);
    set("all@cache", 0);
    work(); /* every context is known now */
    if (mallctl("spans.stacks_min_bytes", &was, &bytes, &least, sizeof least) || was)
        fprintf(stderr, "least was %zu\n", was);
    set("all@other|thread:work*", 0);
    work();
    set("all", 0);
    least = 1 << 20;
    mallctl("spans.stacks_min_bytes", NULL, NULL, &least, sizeof least);
    work();
    if (!strcmp(argv[1], "many"))
        set_many();
    return 0;
}
END
$CC -g -O1 -I"$top_srcdir/include" -I"$top_builddir/include" -o "$scratch/works" "$scratch/works.c" -L"$top_builddir/.libs" -ljespan \
    -lpthread -Wl,-rpath,"$top_builddir/.libs" || fail "the program was not built"
cd "$scratch"

# stacks: the contexts and functions that have memory, with how often both were called and 100 for small, 10000 for large
stacks() {
    "$JESPAN_CMD" report --stacks --csv --top 0 dumps > out 2> err || fail_with "report" err
    sed -n 's/^[^,]*,[^,]*,\([^,]*\),[^,]*,"\(.*\) > both > \(small\|large\) > keep"$/\2: \3 \1/p' out | sed 's/ > \(main\|run\|work\)//g' | LC_ALL=C sort
}

# under MODE LEAST: the same program with these settings
under() {
    rm -rf dumps
    JESPAN_CONF="stacks_min_bytes:$2" "$JESPAN_CMD" run --quiet --stacks="$1" --dump-dir dumps --interval 0 -- ./works > said 2>&1 ||
        fail_with "$1: the program" said
    [ ! -s said ] || fail_with "$1 says something" said
    stacks
}


equal "all" "$(under all 0 | wc -l)" 10
equal "all, large" "$(under all 10000 | grep -c ': large 1')" 5
equal "all, larger" "$(under all 10001)" ""
equal "a span" "$(under 'all@cache' 0)" "request > cache > inner: large 1
request > cache > inner: small 1
request > cache: large 1
request > cache: small 1"
equal "a pattern, by size" "$(under 'all@in*r|oth*' 101)" "other: large 1
request > cache > inner: large 1"
equal "threads" "$(under 'all@thread:work*' 101)" "thread:worker-1: large 1"
equal "no such span" "$(under 'all@cach' 0)" ""

rm -rf dumps
"$JESPAN_CMD" run --quiet --dump-dir dumps --interval 0 -- ./works many > said 2>&1 || fail_with "the program that switches" said
[ ! -s said ] || fail_with "switching" said
equal "switched" "$(stacks)" "other: large 1
request > cache > inner: large 1
request > cache > inner: small 1
request > cache: large 1
request > cache: small 1
thread:worker-1: large 1"

JESPAN_CONF=stacks:some ./works > said 2>&1
[[ $(cat said) == "jespan: stacks: 'some' is not off, sampled, all, sampled@NAMES or all@NAMES; stacks are off" ]] || fail_with "a wrong mode" said
finish
