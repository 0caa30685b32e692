/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread pool whose jobs run in the context in which they were submitted. */
#include "pool.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <jespan/jespan.h>

struct job {
    void (*run)(void *);
    void *argument;
    jespan_context_t context;
    struct job *next;
};

struct pool {
    pthread_mutex_t mutex;
    pthread_cond_t wake, idle;
    struct job *first, **end;
    void (*watch)(bool begins);
    unsigned n_unfinished, n_workers;
    bool stopping;
    pthread_t workers[];
};

/* The job was allocated in the context that it carries, which is thereby in use until the job is freed. */
static void job_run(struct job *job)
{
    jespan_context_t previous = jespan_attach(job->context);
    job->run(job->argument);
    jespan_attach(previous);
    free(job);
}

/* Call this with the mutex, which is released while the job runs. */
static void run_first(struct pool *p)
{
    struct job *job = p->first;
    p->first = job->next;
    if (!p->first)
        p->end = &p->first;
    pthread_mutex_unlock(&p->mutex);
    if (p->watch)
        p->watch(true);
    job_run(job);
    if (p->watch)
        p->watch(false);
    pthread_mutex_lock(&p->mutex);
    if (--p->n_unfinished == 0)
        pthread_cond_broadcast(&p->idle);
}

static void *worker(void *pool)
{
    struct pool *p = pool;
    pthread_mutex_lock(&p->mutex);
    while (p->first || !p->stopping) {
        if (p->first)
            run_first(p);
        else
            pthread_cond_wait(&p->wake, &p->mutex);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

int pool_submit(struct pool *p, void (*run)(void *), void *argument)
{
    struct job *job = malloc(sizeof *job);
    if (!job)
        return -ENOMEM;
    *job = (struct job){run, argument, jespan_current(), NULL};
    pthread_mutex_lock(&p->mutex);
    *p->end = job;
    p->end = &job->next;
    p->n_unfinished++;
    if (p->n_workers)
        pthread_cond_signal(&p->wake);
    else
        run_first(p);
    pthread_mutex_unlock(&p->mutex);
    return 0;
}

void pool_wait(struct pool *p)
{
    pthread_mutex_lock(&p->mutex);
    while (p->n_unfinished)
        pthread_cond_wait(&p->idle, &p->mutex);
    pthread_mutex_unlock(&p->mutex);
}

void pool_stop(struct pool *p)
{
    pthread_mutex_lock(&p->mutex);
    p->stopping = true;
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->mutex);
    for (unsigned i = 0; i < p->n_workers; i++)
        pthread_join(p->workers[i], NULL);
    free(p);
}

struct pool *pool_start(unsigned n_workers, void (*watch)(bool begins))
{
    struct pool *p = calloc(1, sizeof *p + n_workers * sizeof p->workers[0]);
    if (!p)
        return NULL;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_cond_init(&p->idle, NULL);
    p->end = &p->first;
    p->watch = watch;
    while (p->n_workers < n_workers && !pthread_create(&p->workers[p->n_workers], NULL, worker, p))
        p->n_workers++;
    if (p->n_workers == n_workers)
        return p;
    pool_stop(p);
    return NULL;
}
