/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that dumps: wakes for each dump, and once more at the end. */
#include "reporter.h"

#include <pthread.h>
#include <stdbool.h>

#include "background.h"
#include "conf.h"
#include "die.h"
#include "dump.h"

static pthread_mutex_t mutex;
static pthread_cond_t wake, ended;
static bool running, stopping; /* mutex */

/* Under mutex. Sleeps until the next dump is due or the end has come. */
static void wait_for_work(void)
{
    uint64_t due = conf.dump_interval_s ? background_deadline(conf.dump_interval_s * 1000) : UINT64_MAX;
    while (!stopping && background_wait(&wake, &mutex, due))
        ;
}

static void *reporter_main(void *unused)
{
    background_begin("jespan");
    pthread_mutex_lock(&mutex);
    while (!stopping) {
        wait_for_work();
        if (stopping)
            break;
        pthread_mutex_unlock(&mutex);
        dump_next();
        pthread_mutex_lock(&mutex);
    }
    pthread_mutex_unlock(&mutex);
    if (conf.dump_at_exit)
        dump_next();
    pthread_mutex_lock(&mutex);
    running = false;
    pthread_cond_broadcast(&ended);
    pthread_mutex_unlock(&mutex);
    return unused;
}

void reporter_start(void)
{
    if (!conf.dump_dir[0] || (!conf.dump_interval_s && !conf.dump_at_exit))
        return;
    pthread_mutex_init(&mutex, NULL);
    pthread_cond_init(&wake, NULL);
    pthread_cond_init(&ended, NULL);
    stopping = false;
    running = true;
    int error = background_start(reporter_main, NULL);
    if (error) {
        running = false;
        WARN("the reporter thread cannot start: ", errno_text(-error), "; no dumps are written");
    }
}

void reporter_ask_to_stop(void)
{
    if (!running)
        return;
    pthread_mutex_lock(&mutex);
    stopping = true;
    pthread_cond_signal(&wake);
    pthread_mutex_unlock(&mutex);
}

void reporter_wait(uint64_t until_ns)
{
    if (!running)
        return;
    pthread_mutex_lock(&mutex);
    while (running && background_wait(&ended, &mutex, until_ns))
        ;
    bool late = running;
    pthread_mutex_unlock(&mutex);
    if (late)
        WARN("the last heap dump took longer than shutdown_timeout_ms and is given up");
}

void reporter_after_fork(void)
{
    bool had_one = running;
    running = false;
    if (had_one && conf.follow_fork)
        reporter_start();
}
