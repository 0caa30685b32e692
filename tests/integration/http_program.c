/* SPDX-License-Identifier: BSD-2-Clause */
/* For scripts that ask the service http: holds known bytes in spans, and does what its input says, a word and a number a
 * line, with a line "done" for each. Ends when its input does. All sizes are size classes.
 *
 *   grow N     N KiB, in as many objects, in the span "grow"      shrink N   frees as many of them
 *   cycle N    N spans with a label of their own each             burn MS    CPU time in the span "burn"
 *   turns S    allocates for S seconds; prints how often          fork S     a child that stays for S seconds
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <jespan/jespan.h>

#define MAX_GROWN 100000

static void *held[100], *grown[MAX_GROWN];
static long n_grown;

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void hold(void)
{
    JESPAN("hold", "tenant", "blue", "request", "17");
    for (int i = 0; i < 10; i++)
        held[i] = malloc(1024);
    JESPAN("inside", "tenant", "green");
    held[10] = malloc(4096);
}

/* Names that would break out of JSON, HTML or a label. */
static void hold_hostile(void)
{
    JESPAN("</script><img src=x onerror=alert(1)>\"\\\n\xff\xf0\x9f\xa6\x80", "tenant", "a\"b\\c\nd\xfe", "k\"\n", "v\x01");
    held[20] = malloc(2048);
}

static void grow(long n)
{
    JESPAN("grow");
    for (; n > 0 && n_grown < MAX_GROWN; n--)
        grown[n_grown++] = malloc(1024);
}

static void shrink(long n)
{
    for (; n > 0 && n_grown > 0; n--)
        free(grown[--n_grown]);
}

static void cycle(long n)
{
    static long all;
    char text[32];
    for (; n > 0; n--) {
        snprintf(text, sizeof text, "%ld", all++);
        JESPAN("cycle", "request", text);
        free(malloc(1024));
    }
}

static void burn(long ms)
{
    JESPAN("burn");
    for (double end = seconds(CLOCK_THREAD_CPUTIME_ID) + (double)ms / 1000; seconds(CLOCK_THREAD_CPUTIME_ID) < end;)
        ;
}

static void turns(long s)
{
    long n = 0;
    JESPAN("turns");
    for (double end = seconds(CLOCK_MONOTONIC) + (double)s; seconds(CLOCK_MONOTONIC) < end; n++)
        for (int i = 0; i < 100; i++) {
            free(held[30 + i % 10]);
            held[30 + i % 10] = malloc((size_t)(16 + i * 7));
        }
    printf("%ld\n", n);
}

static void fork_child(long s)
{
    if (fork() == 0) {
        sleep((unsigned)s);
        _exit(0);
    }
}

static const struct {
    const char *word;
    void (*act)(long n);
} actions[] = {{"grow", grow}, {"shrink", shrink}, {"cycle", cycle}, {"burn", burn}, {"turns", turns}, {"fork", fork_child}};

int main(void)
{
    char word[16], line[64];
    long n;
    hold();
    hold_hostile();
    setvbuf(stdout, NULL, _IOLBF, 0);
    puts("ready");
    while (fgets(line, sizeof line, stdin) != NULL && sscanf(line, "%15s %ld", word, &n) == 2) {
        for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++)
            if (strcmp(actions[i].word, word) == 0)
                actions[i].act(n);
        puts("done");
    }
    return 0;
}
