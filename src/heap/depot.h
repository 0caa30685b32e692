/* SPDX-License-Identifier: BSD-2-Clause */
/* The depot: batches of freed objects that threads exchange.
 *
 * A thread whose magazine is full puts the older half into the depot, as one batch. A thread whose magazine is empty takes a batch
 * from there. So an object that one thread frees and another one allocates, and a class of which a thread frees some hundred objects
 * and allocates them again, pass by jemalloc's caches and slabs. The entries of a batch have the addresses of the headers, so
 * the page map is not read either. docs/decisions/093 has the figures.
 *
 * For jemalloc, objects in the depot are allocated. They are bounded: in all, by class, and in a *run*, which is what is freed of a class
 * while nobody finds a magazine of that class empty. A long run is memory that the program may not want again soon. Then the depot takes
 * nothing, and gives what it has of the class to the threads that free, which give it to jemalloc.
 *
 * Batches lie by processor, since the objects are in the caches of the one that freed them. One processor takes from another only where
 * that has several.
 *
 * LOCK_DEPOT protects the lists. Threads only try to get it: otherwise they go to jemalloc. The top of a magazine moves
 * under the lock too, so a forked child finds each object in one place. */
#ifndef JESPAN_DEPOT_H
#define JESPAN_DEPOT_H

#include <stdbool.h>
#include <stdint.h>

#include "heap/thread.h"

#define DEPOT_BATCH_MAX 64u /* objects of a batch */

struct depot_batch {
    struct depot_batch *next; /* in its list */
    uint32_t n;               /* objects; 0: none */
    uint32_t class;
    struct free_object objects[DEPOT_BATCH_MAX];
};

/* What other processes read. */
struct depot {
    _Atomic uint64_t bytes; /* of all objects there */
    struct depot_batch *_Atomic batches;
    _Atomic uint32_t end; /* batches that were ever in use */
};
extern struct depot depot;

/* By class: batches there, and bytes of the run. */
extern _Atomic uint32_t depot_batches[CLASSES_MAX];
extern _Atomic uint32_t depot_run[CLASSES_MAX];

/* Whether the depot has objects of the class. It may change at any time. */
HOT_INLINE bool depot_has(size_t class)
{
    return load_relaxed(&depot_batches[class]) > 0;
}

/* To be called where an allocation found the magazine empty: a run ends. */
HOT_INLINE void depot_end_run(size_t class)
{
    if (load_relaxed(&depot_run[class]))
        store_relaxed(&depot_run[class], 0);
}

/* Adds freed objects to the run. A thread that does so at the same time may be forgotten. */
void depot_add_run(unsigned class, uint32_t objects);

/* Whether the run is so long that the depot takes nothing and gives what it has. */
bool depot_run_is_long(unsigned class);

/* The objects of a batch of this class. 0: it is not exchanged. */
uint32_t depot_batch_objects(unsigned class);

/* Puts a batch in. Returns false where there is no room. The caller has LOCK_DEPOT. */
bool depot_put(unsigned class, const struct free_object *objects);

/* Writes up to DEPOT_BATCH_MAX objects, the newest one last, and returns their number. `is_for_allocation`: the run ends, and other
 * processors keep their last batches. The caller has LOCK_DEPOT. */
uint32_t depot_take(unsigned class, struct free_object *objects, bool is_for_allocation);

/* Takes no more. For programs that bind threads to arenas of jemalloc, or destroy these. */
void depot_close(void);

#endif
