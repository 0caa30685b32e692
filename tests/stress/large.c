/* SPDX-License-Identifier: BSD-2-Clause */
/* Large objects are used again by all threads: each is in one place, also in a child that is forked meanwhile; the figures stay exact
 * in spans; without memory, what is kept goes to those that need it. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/check.h"
#include "../support/ctl.h"
#include "../support/family.h"
#include "jespan/jespan.h"

#define KEPT_BYTES ((uint64_t)4 << 20)
#define KIB ((size_t)1024)
#define THREADS 4
#define PLACES 24
#define ROUNDS 20000

static _Atomic(uint32_t *) places[PLACES];
static _Atomic bool goes_on;

static void give_back(void)
{
    CHECK_EQ(F(mallctl)("arena.0.purge", NULL, NULL, NULL, 0), 0);
}

/* From 20 KiB to 1.3 MiB, so also some that are not kept. */
static size_t size_of(uint32_t number)
{
    return 20 * KIB + (number * 2654435761u >> 12) % (1280 * KIB);
}

/* The first word of every 4 KiB and the last one are its number. */
static void fill(uint32_t *p, uint32_t number)
{
    size_t words = size_of(number) / sizeof *p;
    for (size_t i = 0; i < words; i += KIB)
        p[i] = number;
    p[words - 1] = number;
}

static void check_and_free(uint32_t *p)
{
    uint32_t number = *p;
    size_t words = size_of(number) / sizeof *p;
    bool is_whole = p[words - 1] == number;
    for (size_t i = 0; i < words; i += KIB)
        is_whole &= p[i] == number;
    CHECK(is_whole);
    F(free)(p);
}

static uint32_t *allocate(uint32_t number)
{
    size_t bytes = size_of(number);
    if (number % 8 == 0) {
        uint32_t *p = F(calloc)(1, bytes);
        CHECK_EQ(p[bytes / 8] | p[0] | p[bytes / sizeof *p - 1], 0);
        return p;
    }
    if (number % 8 == 1)
        return F(aligned_alloc)(64 * KIB, bytes);
    if (number % 8 == 2)
        return F(realloc)(F(malloc)(100 * KIB), bytes);
    return F(malloc)(bytes);
}

/* Replaces what any thread has allocated. */
static void *replace(void *argument)
{
    uint32_t number = (uint32_t)(uintptr_t)argument << 24;
    uint64_t rounds = check_rounds("LARGE_ROUNDS", ROUNDS);
    for (uint64_t i = 0; i < rounds || goes_on; i++, number++) {
        JESPAN("replace", "eighth", number % 8 ? "no" : "yes");
        uint32_t *p = allocate(number);
        fill(p, number);
        uint32_t *former = atomic_exchange(&places[(number * 2654435761u >> 8) % PLACES], p);
        if (former)
            check_and_free(former);
    }
    return NULL;
}

static pthread_t threads[THREADS];

static void begin_threads(bool until_the_end)
{
    goes_on = until_the_end;
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, replace, (void *)(i + 1)), 0);
}

static void end_threads(void)
{
    goes_on = false;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void free_places(void)
{
    for (int i = 0; i < PLACES; i++) {
        uint32_t *p = atomic_exchange(&places[i], NULL);
        if (p)
            check_and_free(p);
    }
}

static void threads_replace(void)
{
    begin_threads(false);
    end_threads();
    CHECK(ctl_u64("spans.stats.depot_bytes") <= 2 * KEPT_BYTES);
    ctl_check_identity("after the threads");
    free_places();
    ctl_check_identity("after the frees");
    give_back();
    CHECK_EQ(ctl_u64("spans.stats.depot_bytes"), 0);
    ctl_check_identity("given back");
}

static void use_all_in_child(void)
{
    free_places();
    for (uint32_t number = 0; number < 100; number++) {
        uint32_t *p = allocate(number);
        fill(p, number);
        check_and_free(p);
    }
    _exit(check_result());
}

static void forks_meanwhile(void)
{
    begin_threads(true);
    for (int i = 0; i < 20; i++) {
        pid_t child = fork();
        if (!child)
            use_all_in_child();
        CHECK_CHILD(child);
    }
    end_threads();
    free_places();
    ctl_check_identity("after the forks");
}

/* One buffer again and again is the same memory, which calloc clears. */
static void a_buffer_comes_again(void)
{
    char *buffer = NULL;
    for (int i = 0; i < 20; i++) {
        buffer = F(malloc)(100 * KIB);
        memset(buffer, 0xa5, 100 * KIB);
        F(free)(buffer);
    }
    CHECK(F(malloc)(100 * KIB) == buffer);
    ctl_check_identity("a buffer in use");
    F(free)(buffer);
    CHECK(F(calloc)(1, 100 * KIB) == buffer);
    for (size_t i = 0; i < 100 * KIB; i++)
        CHECK_EQ(buffer[i], 0);
    F(free)(buffer);
    ctl_check_identity("a buffer");
}

/* All memory is in use but for 4 MiB that are kept. */
static void memory_runs_short(void)
{
    static void *objects[8], *rest[100000];
    struct rlimit former, limit;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 8; i++)
            objects[i] = F(malloc)(512 * KIB);
        for (int i = 0; i < 8; i++)
            F(free)(objects[i]);
    }
    CHECK(ctl_u64("spans.stats.depot_bytes") > KEPT_BYTES / 2);
    CHECK_EQ(getrlimit(RLIMIT_AS, &former), 0);
    limit = former;
    limit.rlim_cur = 0; /* the kernel maps nothing more */
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
    size_t n = 0;
    while (n < sizeof rest / sizeof *rest && (rest[n] = F(malloc)(300 * KIB)))
        n++;
    CHECK_EQ(ctl_u64("spans.stats.depot_bytes"), 0);
    CHECK(n > 0);
    CHECK_EQ(setrlimit(RLIMIT_AS, &former), 0);
    while (n)
        F(free)(rest[--n]);
    ctl_check_identity("after memory ran short");
}

int main(void)
{
    threads_replace();
    forks_meanwhile();
    a_buffer_comes_again();
    memory_runs_short();
    return check_result();
}
