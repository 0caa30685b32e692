/* SPDX-License-Identifier: BSD-2-Clause */
/* Bounds of the memory that threads have in use, and of what others freed for them. */
#ifndef JESPAN_CMD_THREADS_SHARES_H
#define JESPAN_CMD_THREADS_SHARES_H

#include "snapshot/view_threads.h"

struct bounds {
    uint64_t low, high;
};

struct thread_shares {
    struct bounds in_use;          /* of what the thread allocated */
    struct bounds freed_by_others; /* of that, too */
};

/* Returns an array with an item for each thread, to be freed; NULL: out of memory. */
struct thread_shares *threads_find_shares(const struct view_threads *threads);

#endif
