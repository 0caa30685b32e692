/* SPDX-License-Identifier: BSD-2-Clause */
/* For events.sh, flame_svg.sh and inferno.sh: enters and leaves spans as its arguments say, one after the other.
 *
 *   shop        one request with two spans in it, three times, with labels; then a span by its handle
 *   threads     two threads named "worker", one after the other, and one without a name: each enters "job" > "step" twice
 *   odd         keeps 50,000 bytes in each of some spans with odd names
 *   deep N      N spans inside each other, each of which keeps 1,000 bytes
 *   burst N     enters and leaves a span N times
 *   crowd N     the same on three threads at once
 *   fork        a child does the words that follow; this process waits for it and ends
 *   die         ends by SIGKILL when it is killed, inside the span "endless"
 *   closes      closes all descriptors from 3 on
 *   written F   waits until the file F has something in it
 *   execute …   executes the program and its arguments that follow
 */
#define _GNU_SOURCE
#define JESPAN_TARGET "shop"
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jespan/jespan.h>

#include "../support/times.h"

#define SHOWN_NS 3000 /* a row of --flame has whole microseconds, and there is none for 0 */

static char *volatile kept;

static void shop(void)
{
    static const struct jespan_site site = {.name = "by handle", .file = "shop.c", .line = 7};
    for (int i = 0; i < 3; i++) {
        JESPAN("request", "route", i == 1 ? "/b \"2\"" : "/a;1");
        {
            JESPAN("parse");
            kept = malloc(100000);
        }
        JESPAN("render");
    }
    jespan_span_t *span = jespan_open(&site, JESPAN_CURRENT, NULL, 0);
    if (!span || jespan_enter(span) || jespan_exit(span) || jespan_close(span))
        exit(3);
}

static void odd(void)
{
    static const struct jespan_site sites[] = {
        {.name = "<script>alert(1)</script>&amp;\"'", .file = "shop.c", .line = 1},
        {.name = "a\x01\xFF\nb\xEF\xBF\xBF", .file = "shop.c", .line = 2},
        {.name = "]]> --> \xC3\xBCml\xC3\xA4ut \xE6\xBC\xA2\xE5\xAD\x97", .file = "shop.c", .line = 3},
        {.name = "", .file = "shop.c", .line = 4},
    };
    for (size_t i = 0; i < sizeof sites / sizeof *sites; i++) {
        const struct jespan_label label = {.key = "<k>", .value = "\xFF&"};
        jespan_span_t *span = jespan_open(&sites[i], JESPAN_CURRENT, &label, 1);
        if (!span || jespan_enter(span))
            exit(3);
        kept = malloc(50000);
        if (jespan_exit(span) || jespan_close(span))
            exit(3);
    }
}

static void deep(long n)
{
    JESPAN("level");
    kept = malloc(1000);
    times_spin(SHOWN_NS);
    if (n > 1)
        deep(n - 1);
}

static void *work(void *name)
{
    if (name)
        pthread_setname_np(pthread_self(), name);
    for (int i = 0; i < 2; i++) {
        JESPAN("job");
        JESPAN("step");
        times_spin(SHOWN_NS);
    }
    return NULL;
}

static void threads(void)
{
    char *names[] = {"worker", "worker", NULL};
    for (int i = 0; i < 3; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, work, names[i]) || pthread_join(thread, NULL))
            exit(4);
    }
}

static void burst(long n)
{
    while (n-- > 0) {
        JESPAN("burst");
    }
}

static pthread_barrier_t crowd_is_there;

/* The threads exist at the same time, since one that ends leaves its buffer to the next. */
static void *burst_in_crowd(void *n)
{
    pthread_barrier_wait(&crowd_is_there);
    burst(*(long *)n);
    pthread_barrier_wait(&crowd_is_there);
    return NULL;
}

static void crowd(long n)
{
    pthread_t threads_there[3];
    pthread_barrier_init(&crowd_is_there, NULL, 3);
    for (int i = 0; i < 3; i++)
        if (pthread_create(&threads_there[i], NULL, burst_in_crowd, &n))
            exit(4);
    for (int i = 0; i < 3; i++)
        pthread_join(threads_there[i], NULL);
}

static void wait_for_child(pid_t child)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status)
        exit(5);
    exit(0);
}

static void die(void)
{
    JESPAN("endless");
    burst(10);
    puts("ready");
    fflush(stdout);
    for (;;)
        pause();
}

/* Events of a program that executes another one are lost if nobody has read them. */
static void wait_until_written(const char *path)
{
    struct stat status;
    while (stat(path, &status) != 0 || status.st_size == 0)
        usleep(1000);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "shop") == 0)
            shop();
        else if (strcmp(argv[i], "threads") == 0)
            threads();
        else if (strcmp(argv[i], "odd") == 0)
            odd();
        else if (strcmp(argv[i], "deep") == 0)
            deep(atol(argv[++i]));
        else if (strcmp(argv[i], "burst") == 0)
            burst(atol(argv[++i]));
        else if (strcmp(argv[i], "crowd") == 0)
            crowd(atol(argv[++i]));
        else if (strcmp(argv[i], "die") == 0)
            die();
        else if (strcmp(argv[i], "closes") == 0)
            closefrom(3);
        else if (strcmp(argv[i], "written") == 0)
            wait_until_written(argv[++i]);
        else if (strcmp(argv[i], "execute") == 0)
            execvp(argv[i + 1], argv + i + 1);
        else if (strcmp(argv[i], "fork") == 0) {
            pid_t child = fork();
            if (child != 0)
                wait_for_child(child);
        }
    }
    return 0;
}
