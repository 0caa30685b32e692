/* SPDX-License-Identifier: BSD-2-Clause */
/* The depot: batches of freed objects that threads exchange.
 *
 * A thread whose magazine is full puts the older half into the depot, as one batch. A thread whose magazine is empty takes a batch
 * from there. So an object that one thread frees and another one allocates, and a class of which a thread frees some hundred objects
 * and allocates them again, pass by jemalloc's caches and slabs. The entries of a batch have the addresses of the headers, so
 * the page map is not read either. docs/decisions/093 has the figures.
 *
 * Each processor has a *shard* of it, since the objects are in its caches, and threads that write to the same lines wait for each other.
 * A thread takes from another shard only where that is rich: it has several batches of the class.
 *
 * For jemalloc, objects in the depot are allocated. They are bounded: in all, by class, and in a *run*, which is what is freed of a class
 * while nobody finds a magazine of that class empty. A long run is memory that the program may not want again soon. Then the shard takes
 * nothing, and gives what it has of the class to the threads that free, which give it to jemalloc.
 *
 * LOCK_DEPOT + shard protects the lists. Threads only try to get it: otherwise they go to jemalloc. The top of a magazine moves
 * under the lock too, so a forked child finds each object in one place. */
#ifndef JESPAN_DEPOT_H
#define JESPAN_DEPOT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lock.h"
#include "heap/thread.h"

#define DEPOT_SHARDS LOCK_DEPOTS
#define DEPOT_BATCH_MAX 64u /* objects of a batch */

struct depot_batch {
    struct depot_batch *next; /* in its list */
    uint32_t n;               /* objects; 0: none */
    uint32_t class;
    struct free_object objects[DEPOT_BATCH_MAX];
};

struct depot_shard {
    _Alignas(2 * CACHE_LINE_BYTES) struct depot_batch *_Atomic batches; /* NULL: not used yet */
    _Atomic uint32_t end;                                               /* batches that were ever in use */
    uint32_t granted;                                                   /* pieces of the bytes that all shards may have */
    struct depot_batch *spare;
    struct depot_batch *lists[CLASSES_MAX];
    _Atomic uint32_t counts[CLASSES_MAX]; /* batches there. Any thread may read them */
    _Atomic uint32_t runs[CLASSES_MAX];   /* bytes. Threads of this processor write them, without the lock too */
};

struct depot {
    struct depot_bytes {
        _Alignas(2 * CACHE_LINE_BYTES) _Atomic uint64_t now; /* of all objects there */
    } bytes[DEPOT_SHARDS];
    struct depot_shard shards[DEPOT_SHARDS];
    /* By class: whether an allocation has found a magazine empty since a long run or since a thread began to keep nothing, and which
     * shards are rich, one bit each. */
    _Atomic uint8_t wanted[CLASSES_MAX], rich[CLASSES_MAX];
};
extern struct depot depot;

/* To be called where an allocation found the magazine empty. */
HOT_INLINE void depot_want(size_t class)
{
    if (!load_relaxed(&depot.wanted[class]))
        store_relaxed(&depot.wanted[class], 1);
}

static inline void depot_forget_want(size_t class)
{
    if (load_relaxed(&depot.wanted[class]))
        store_relaxed(&depot.wanted[class], 0);
}

/* The shard of the processor that the thread runs on. It may run on another one the next moment. */
unsigned depot_shard_here(void);

/* The shard to take a batch of the class from, for an allocation, or to give to jemalloc. DEPOT_SHARDS: there is none. */
unsigned depot_find(unsigned class);
unsigned depot_find_any(unsigned class);

/* Adds freed objects to the run. A thread that does so at the same time may be forgotten. */
void depot_add_run(unsigned shard, unsigned class, uint32_t objects);

/* Whether the run is so long that the shard takes nothing and gives what it has. */
bool depot_run_is_long(unsigned shard, unsigned class);

/* The objects of a batch of this class. 0: it is not exchanged. */
uint32_t depot_batch_objects(unsigned class);

/* Puts a batch in. Returns false where there is no room. The caller has the shard's lock. */
bool depot_put(unsigned shard, unsigned class, const struct free_object *objects);

/* Writes up to DEPOT_BATCH_MAX objects, the newest one last, and returns their number. The caller has the shard's lock. */
uint32_t depot_take(unsigned shard, unsigned class, struct free_object *objects);

/* Bytes and batches of all shards. */
uint64_t depot_bytes(void);
uint32_t depot_count(unsigned class);

/* Takes no more. For programs that bind threads to arenas of jemalloc, or destroy these. */
void depot_close(void);

#endif
