/* SPDX-License-Identifier: BSD-2-Clause */
/* Gives jemalloc all that this thread and the depot keep. */
#ifndef TESTS_GIVE_BACK_H
#define TESTS_GIVE_BACK_H

#include "heap/magazine.h"
#include "malloc/track.h"

static inline void give_back(struct thread *t)
{
    thread_cache_flush(t);
    magazine_empty_depot(t);
}

#endif
