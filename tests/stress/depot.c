/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads exchange freed objects by the depot: each object is in one place, also in a child that is forked meanwhile; the figures stay
 * exact; what it keeps is bounded, and goes back when the program asks for that. */
#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/check.h"
#include "../support/ctl.h"
#include "../support/family.h"
#include "../support/one_processor.h"

#define DEPOT_BYTES ((uint64_t)4 << 20)
#define MANY 100000
#define ROUNDS 200
#define OBJECTS 1000

static uint64_t depot_bytes(void)
{
    return ctl_u64("spans.stats.depot_bytes");
}

static void give_back(void)
{
    CHECK_EQ(F(mallctl)("arena.0.purge", NULL, NULL, NULL, 0), 0);
}

/* ---- One thread allocates, another frees ---- */

struct pair {
    sem_t full, empty;
    uint32_t *objects[OBJECTS];
    uint32_t number;
    bool is_over;
    pthread_t consumer;
};

static _Atomic bool goes_on; /* after ROUNDS too */

/* A size that depends on the number, from 16 to 4,000 bytes. */
static size_t size_of(uint32_t number)
{
    return 16 + number * 2654435761u % 3985;
}

static void *consume(void *argument)
{
    struct pair *pair = argument;
    for (sem_wait(&pair->full); !pair->is_over; sem_wait(&pair->full)) {
        for (int i = 0; i < OBJECTS; i++) {
            CHECK_EQ(pair->objects[i][0], pair->number + (uint32_t)i); /* nobody else has written there */
            F(free)(pair->objects[i]);
        }
        sem_post(&pair->empty);
    }
    return NULL;
}

static void *produce(void *argument)
{
    struct pair *pair = argument;
    CHECK_EQ(pthread_create(&pair->consumer, NULL, consume, pair), 0);
    for (int round = 0; round < ROUNDS || goes_on; round++) {
        sem_wait(&pair->empty);
        pair->number += 7919;
        for (int i = 0; i < OBJECTS; i++) {
            pair->objects[i] = F(malloc)(size_of((uint32_t)i));
            pair->objects[i][0] = pair->number + (uint32_t)i;
        }
        sem_post(&pair->full);
    }
    sem_wait(&pair->empty);
    pair->is_over = true;
    sem_post(&pair->full);
    pthread_join(pair->consumer, NULL);
    return NULL;
}

#define PAIRS 4
static struct pair pairs[PAIRS];
static pthread_t producers[PAIRS];

static void begin_pairs(bool until_the_end)
{
    goes_on = until_the_end;
    for (int i = 0; i < PAIRS; i++) {
        sem_init(&pairs[i].full, 0, 0);
        sem_init(&pairs[i].empty, 0, 1);
        pairs[i].number = (uint32_t)i << 24;
        pairs[i].is_over = false;
        CHECK_EQ(pthread_create(&producers[i], NULL, produce, &pairs[i]), 0);
    }
}

static void end_pairs(void)
{
    goes_on = false;
    for (int i = 0; i < PAIRS; i++)
        pthread_join(producers[i], NULL);
}

static void threads_exchange(void)
{
    begin_pairs(false);
    end_pairs();
    CHECK(depot_bytes() > 0);
    CHECK(depot_bytes() <= DEPOT_BYTES);
    ctl_check_identity("after the exchange");
    give_back();
    CHECK_EQ(depot_bytes(), 0);
    ctl_check_identity("given back");
}

/* ---- A child has each object once ---- */

static void use_all_in_child(void)
{
    static uint32_t *objects[MANY];
    for (uint32_t i = 0; i < MANY; i++) {
        objects[i] = F(malloc)(size_of(i));
        objects[i][0] = i;
    }
    for (uint32_t i = 0; i < MANY; i++)
        CHECK_EQ(objects[i][0], i);
    for (uint32_t i = 0; i < MANY; i++)
        F(free)(objects[i]);
    give_back();
    CHECK_EQ(depot_bytes(), 0);
    _exit(check_result());
}

static void forks_meanwhile(void)
{
    begin_pairs(true); /* no thread has ended when the children do, which ThreadSanitizer would complain about */
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (!child)
            use_all_in_child();
        CHECK_CHILD(child);
    }
    end_pairs();
    ctl_check_identity("after the forks");
}

/* ---- What it keeps ---- */

static void free_objects(size_t bytes, int n)
{
    static void *objects[MANY];
    for (int i = 0; i < n; i++)
        objects[i] = F(malloc)(bytes);
    for (int i = 0; i < n; i++)
        F(free)(objects[i]);
}

/* What a program frees and allocates again stays. */
static void a_short_run_stays(void)
{
    give_back();
    free_objects(500, OBJECTS);
    CHECK(depot_bytes() >= 64 * 512);
    ctl_check_identity("a short run");
}

/* After much more, nothing of that class stays. */
static void a_long_run_goes_back(void)
{
    give_back();
    free_objects(500, MANY);
    CHECK_EQ(depot_bytes(), 0);
    CHECK(ctl_u64("spans.stats.pending_bytes") <= 65536);
    ctl_check_identity("a long run");
    free_objects(500, OBJECTS);
    CHECK(depot_bytes() > 0); /* the next allocations have ended the run */
}

static void all_classes_are_bounded(void)
{
    give_back();
    for (size_t bytes = 16; bytes < 14000; bytes += bytes / 8)
        free_objects(bytes, (int)(400000 / bytes));
    CHECK(depot_bytes() > DEPOT_BYTES / 4);
    CHECK(depot_bytes() <= DEPOT_BYTES);
    ctl_check_identity("all classes");
}

/* A thread that is bound to an arena of jemalloc's shall not get what others freed. */
static void bound_threads_exchange_nothing(void)
{
    unsigned arena = 0;
    give_back();
    CHECK_EQ(F(mallctl)("thread.arena", NULL, NULL, &arena, sizeof arena), 0);
    free_objects(500, OBJECTS);
    CHECK_EQ(depot_bytes(), 0);
    ctl_check_identity("a bound thread");
}

int main(void)
{
    threads_exchange();
    forks_meanwhile();
    stay_on_one_processor();
    a_short_run_stays();
    a_long_run_goes_back();
    all_classes_are_bounded();
    bound_threads_exchange_nothing();
    return check_result();
}
