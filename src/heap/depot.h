/* SPDX-License-Identifier: BSD-2-Clause */
/* The depot: batches of freed objects that threads exchange.
 *
 * A thread whose magazine is full puts the older half into the depot, as one batch. A thread whose magazine is empty takes a batch
 * from there. So an object that one thread frees and another one allocates, and a class of which a thread frees some hundred objects
 * and allocates them again, pass by jemalloc's caches and slabs. The entries of a batch have the addresses of the headers, so
 * the page map is not read either. docs/decisions/093 has the figures.
 *
 * The depot has *shards*. Each thread has one of its own, which it may share with others, and so has each processor. A shard has a list
 * for its threads and one for its processor. What a thread frees goes into the list of its own shard first. Only what is too much there
 * goes into that of the processor on which it runs. A thread takes from its own list first, then from the processor's, then from that of
 * another processor, if that list is rich: it has several batches of the class. So a thread that allocates and frees gets its own objects
 * again, whose headers lie side by side. What is freed by a thread that does not allocate reaches the others.
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
#define DEPOT_LISTS (2 * DEPOT_SHARDS)
#define DEPOT_LARGE DEPOT_SHARDS /* in `bytes` and among the locks: large objects, which are no batches. heap/large.h */
#define DEPOT_PARTS (DEPOT_SHARDS + 1)
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
    struct depot_batch *lists[2][CLASSES_MAX]; /* by depot_list.is_own */
    _Atomic uint32_t counts[2][CLASSES_MAX];   /* batches there. Any thread may read them */
    _Atomic uint32_t runs[CLASSES_MAX];        /* bytes. Its threads write them, without the lock too */
};

struct depot {
    struct depot_bytes {
        _Alignas(2 * CACHE_LINE_BYTES) _Atomic uint64_t now; /* of all objects there */
    } bytes[DEPOT_PARTS];
    struct depot_shard shards[DEPOT_SHARDS];
    /* By class: whether an allocation has found a magazine empty since a long run or since a thread began to keep nothing, and which
     * shards are rich, one bit each. */
    _Atomic uint8_t wanted[CLASSES_MAX], rich[CLASSES_MAX];
    /* By class: which lists have batches. Bit i is for depot_list_at(i). */
    _Alignas(2 * CACHE_LINE_BYTES) _Atomic uint16_t filled[CLASSES_MAX];
    _Atomic bool is_closed;
};
_Static_assert(LOCK_LARGE == LOCK_DEPOT + DEPOT_LARGE, "one lock for each part");
_Static_assert(DEPOT_LISTS <= 16, "a bit for each list");
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

/* False: there is nothing of the class, as in a program that only allocates. */
HOT_INLINE bool depot_has(size_t class)
{
    return load_relaxed(&depot.filled[class]);
}

/* One of the two lists of a shard, which has one lock for both: LOCK_DEPOT + shard. */
struct depot_list {
    unsigned shard; /* DEPOT_SHARDS: none */
    bool is_own;    /* that of its threads. Else that of its processor */
};
#define DEPOT_NO_LIST ((struct depot_list){DEPOT_SHARDS, false})

/* All lists, by number. */
static inline struct depot_list depot_list_at(unsigned i)
{
    return (struct depot_list){i / 2, i % 2};
}

/* The batches of the class in a list. Any thread may ask. */
static inline uint32_t depot_count(struct depot_list list, unsigned class)
{
    return load_relaxed(&depot.shards[list.shard].counts[list.is_own][class]);
}

/* The list to put a batch of the class in, and the one to take one from for an allocation. `own` is the thread's shard. */
struct depot_list depot_to_put(unsigned own, unsigned class);
struct depot_list depot_to_take(unsigned own, unsigned class);

/* One that has batches, to be given to jemalloc. */
struct depot_list depot_to_empty(unsigned class);

/* Adds freed objects to the run. A thread that does so at the same time may be forgotten. */
void depot_add_run(unsigned shard, unsigned class, uint32_t objects);

/* Whether the run is so long that the shard takes nothing and gives what it has. */
bool depot_run_is_long(unsigned shard, unsigned class);

/* The objects of a batch of this class. 0: it is not exchanged. */
uint32_t depot_batch_objects(unsigned class);

/* Puts a batch of a thread with this shard into a list. Returns false where there is no room. The caller has the list's lock. */
bool depot_put(struct depot_list list, unsigned own, unsigned class, const struct free_object *objects);

/* Writes up to DEPOT_BATCH_MAX objects, the newest one last, and returns their number. The caller has the list's lock. */
uint32_t depot_take(struct depot_list list, unsigned class, struct free_object *objects);

/* Of all shards, and large ones. */
uint64_t depot_bytes(void);

/* Takes no more, and gives large objects to jemalloc. For programs that bind threads to arenas of jemalloc, or destroy these. */
void depot_close(void);

#endif
