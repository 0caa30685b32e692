/* SPDX-License-Identifier: BSD-2-Clause */
/* For services.sh: a service in place of Pyroscope's. Its figures show what it found. Then it does what SERVICE_DOES
 * says. With -DABI=N it has another version. */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <unistd.h>

#include "report/service.h"

#ifndef ABI
#define ABI SERVICE_ABI
#endif

#define HELD_BYTES 5000000u

SERVICE_DEFINE(pyroscope);

static const struct service_host *the_host;

static void say(const char *what)
{
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    the_host->say((const char *const[]){"service ", pid, ": ", what, NULL});
}

/* Volatile, or it would be left out. */
static void *hold(void *unused)
{
    static void *volatile held;
    held = malloc(HELD_BYTES);
    return held ? unused : NULL;
}

static int hold_c11(void *unused)
{
    return hold(unused) != NULL;
}

/* As libraries do that look up names. */
static void make_threads(void)
{
    pthread_t posix;
    thrd_t c11;
    if (pthread_create(&posix, NULL, hold, NULL) == 0)
        pthread_join(posix, NULL);
    if (thrd_create(&c11, hold_c11, NULL) == thrd_success)
        thrd_join(c11, NULL);
}

static void handler_of_a_library(void)
{
    say("the library is gone");
}

/* SIGTERM is for the program's threads. */
static bool takes_signals(void)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    return !sigismember(&blocked, SIGTERM);
}

static void wait_for_the_end(const struct service_host *host)
{
    struct pollfd stop = {.fd = host->stop_fd, .events = POLLIN};
    while (poll(&stop, 1, -1) <= 0)
        ;
    say(host->stop_by_ns(host) != 0 ? "asked to stop" : "woken, but not to stop");
}

static int run(const struct service_host *host)
{
    const char *does = getenv("SERVICE_DOES");
    the_host = host;
    if (does && strcmp(does, "fail") == 0)
        return -EACCES;
    if (does && strcmp(does, "cancel") == 0)
        return -ECANCELED;
    if (does && strcmp(does, "end early") == 0)
        return 0;
    if (does && strstr(does, "end before others")) {
        atexit(handler_of_a_library);
        host->end_before_others();
    }
    make_threads();
    struct snapshot *s = host->snapshot(NULL);
    host->pyroscope->pushed_bytes = s ? s->pid : 0;
    host->pyroscope->rejected = takes_signals();
    host->free_snapshot(s);
    host->pyroscope->queue_length = 1; /* while it runs */
    host->pyroscope->pushes++;
    while (does && strstr(does, "never stop"))
        pause();
    wait_for_the_end(host);
    host->pyroscope->queue_length = 0;
    return 0;
}

const struct service jespan_service_pyroscope = {.abi = ABI, .name = "pyroscope", .run = run};
