/* SPDX-License-Identifier: BSD-2-Clause */
/* Workloads on several threads: the same one on each, or objects passed from one thread to another.
 *
 * Threads start before the clock and live through all rounds. A barrier begins and ends each round.
 */
#include "spans.h"
#include "workload.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdlib.h>

#define MAX_THREADS 64

struct crew {
    const struct threads_shape *shape;
    pthread_barrier_t turn;
    size_t operations; /* of each thread in the next round. 0: threads end. Written before a barrier, read after it */
    pthread_t threads[MAX_THREADS];
};

static void *crew_member(void *argument)
{
    struct crew *crew = argument;
    spans_enter_if_wanted();
    void *own = crew->shape->start(crew->shape->shape);
    for (;;) {
        pthread_barrier_wait(&crew->turn);
        size_t operations = crew->operations;
        if (!operations) {
            break;
        }
        crew->shape->round(own, operations);
        pthread_barrier_wait(&crew->turn);
    }
    crew->shape->stop(own);
    return NULL;
}

void *threads_start(const void *shape)
{
    struct crew *crew = bench_array(sizeof *crew);
    crew->shape = shape;
    pthread_barrier_init(&crew->turn, NULL, crew->shape->threads + 1);
    for (unsigned i = 0; i < crew->shape->threads; i++) {
        if (pthread_create(&crew->threads[i], NULL, crew_member, crew)) {
            bench_fail("cannot start a thread");
        }
    }
    return crew;
}

void threads_round(void *state, size_t operations)
{
    struct crew *crew = state;
    crew->operations = operations / crew->shape->threads + 1;
    pthread_barrier_wait(&crew->turn);
    pthread_barrier_wait(&crew->turn);
}

void threads_stop(void *state)
{
    struct crew *crew = state;
    crew->operations = 0;
    pthread_barrier_wait(&crew->turn);
    for (unsigned i = 0; i < crew->shape->threads; i++) {
        pthread_join(crew->threads[i], NULL);
    }
    pthread_barrier_destroy(&crew->turn);
    bench_array_free(crew, sizeof *crew);
}

/* Between the thread that makes the rounds and one more. A wake-up costs as much as a hundred allocations. So batches
 * are large, and few enough to stay in the cache. */
#define BATCH_OBJECTS 1024
#define BATCHES 4

struct handover {
    const struct handover_shape *shape;
    uint64_t random;
    size_t next;             /* the next batch of the producer */
    bool over;               /* written before the last batch is handed over */
    sem_t empty, full, done; /* counts of batches. done: posted after a batch without objects, which ends a round */
    pthread_t consumer;
    struct batch {
        size_t count;
        void *objects[BATCH_OBJECTS];
    } batches[BATCHES];
};

static void batch_free(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        free(batch->objects[i]);
    }
}

static void *consume(void *argument)
{
    struct handover *h = argument;
    spans_enter_if_wanted();
    for (size_t i = 0;; i = (i + 1) % BATCHES) {
        sem_wait(&h->full);
        size_t count = h->batches[i].count;
        bool over = h->over;
        batch_free(&h->batches[i]);
        sem_post(&h->empty);
        if (!count) {
            sem_post(&h->done);
        }
        if (over) {
            return NULL;
        }
    }
}

static void produce(struct handover *h, size_t count)
{
    sem_wait(&h->empty);
    struct batch *batch = &h->batches[h->next];
    h->next = (h->next + 1) % BATCHES;
    uint32_t range = h->shape->max_bytes - h->shape->min_bytes + 1;
    for (size_t i = 0; i < count; i++) {
        batch->objects[i] = bench_touch(malloc(h->shape->min_bytes + bench_below(bench_random(&h->random), range)));
    }
    batch->count = count;
    sem_post(&h->full);
}

static void finish(struct handover *h)
{
    produce(h, 0);
    sem_wait(&h->done);
}

void *handover_start(const void *shape)
{
    struct handover *h = bench_array(sizeof *h);
    h->shape = shape;
    h->random = BENCH_SEED;
    sem_init(&h->empty, 0, BATCHES);
    sem_init(&h->full, 0, 0);
    sem_init(&h->done, 0, 0);
    if (pthread_create(&h->consumer, NULL, consume, h)) {
        bench_fail("cannot start a thread");
    }
    return h;
}

void handover_round(void *state, size_t operations)
{
    for (size_t left = operations; left > 0;) {
        size_t count = left < BATCH_OBJECTS ? left : BATCH_OBJECTS;
        produce(state, count);
        left -= count;
    }
    finish(state);
}

void handover_stop(void *state)
{
    struct handover *h = state;
    h->over = true;
    finish(h);
    pthread_join(h->consumer, NULL);
    sem_destroy(&h->empty);
    sem_destroy(&h->full);
    sem_destroy(&h->done);
    bench_array_free(h, sizeof *h);
}
