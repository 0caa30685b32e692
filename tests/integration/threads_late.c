/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that allocates for the first time in its last destructors, and ends unnoticed. An invalidation of all
 * threads must not write to its former stack. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>

#include <jespan/jespan.h>
#include <jespan/limit.h>

#include "../support/ctl.h"

#define STACK_BYTES ((size_t)256 << 20) /* more than libc keeps of threads that have ended */
#define THREADS 1

static pthread_key_t key;
static _Atomic int late_allocations;

static void at_end(void *round)
{
    uintptr_t n = (uintptr_t)round;
    if (n < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(key, (void *)(n + 1));
        return;
    }
    free(opaque_pointer(malloc(opaque(100))));
    late_allocations++;
}

static void *run(void *unused)
{
    pthread_setspecific(key, (void *)1);
    return unused;
}

int main(void)
{
    pthread_t threads[THREADS];
    pthread_attr_t attributes;
    CHECK_EQ(pthread_key_create(&key, at_end), 0);
    CHECK_EQ(pthread_attr_init(&attributes), 0);
    CHECK_EQ(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], &attributes, run, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK_EQ(late_allocations, THREADS);
    JESPAN("limited");
    for (int i = 1; i < 4; i++) {
        CHECK_EQ(jespan_set_limit(JESPAN_CURRENT, 0, (uint64_t)i << 20), 0);
        free(opaque_pointer(malloc(opaque(1000))));
    }
    CHECK(malloc(opaque((size_t)4 << 20)) == NULL);
    CHECK_EQ(jespan_set_limit(JESPAN_CURRENT, 0, 0), 0);
    return check_result();
}
