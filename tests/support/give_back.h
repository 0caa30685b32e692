/* SPDX-License-Identifier: BSD-2-Clause */
/* The depot: gives jemalloc all that this thread and the depot keep, and counts batches. */
#ifndef TESTS_GIVE_BACK_H
#define TESTS_GIVE_BACK_H

#include "heap/magazine.h"
#include "malloc/track.h"

/* In all shards. */
static inline uint32_t batches_of(unsigned class)
{
    uint32_t n = 0;
    for (unsigned i = 0; i < DEPOT_LISTS; i++)
        n += depot_count(depot_list_at(i), class);
    return n;
}

static inline void give_back(struct thread *t)
{
    thread_cache_flush(t);
    magazine_empty_depot(t);
}

#endif
