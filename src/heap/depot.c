/* SPDX-License-Identifier: BSD-2-Clause */
/* Batches of freed objects that threads exchange. */
#include "heap/depot.h"

#include <sched.h>
#include <string.h>

#include "base/die.h"
#include "base/figures.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/number.h"
#include "heap/classes.h"
#include "heap/magazine.h"

#define BYTES_MAX ((uint64_t)4 << 20)
#define CLASS_BYTES_MAX ((uint64_t)1 << 20)
#define RUN_BYTES_MAX ((uint64_t)512 << 10)
#define RUN_OBJECTS_MAX 4096u /* small objects that are used again in another order than they lie in cost cache misses */
#define BATCHES_MAX 2048u
#define BATCH_OBJECTS_MIN 4u
#define SHARDS 8u           /* of processors */
#define KEPT_FROM_OTHERS 2u /* batches of a class that a processor keeps to itself */

struct depot depot;
FIGURE_ROW(figure_depot, "spans.stats.depot_bytes", depot.bytes, FIGURE_NUMBER);

_Atomic uint32_t depot_batches[CLASSES_MAX];
_Atomic uint32_t depot_run[CLASSES_MAX];

/* LOCK_DEPOT */
static struct depot_batch *lists[SHARDS][CLASSES_MAX];
static uint32_t list_batches[SHARDS][CLASSES_MAX];
static struct depot_batch *spare;
static bool is_closed;

bool depot_run_is_long(unsigned class)
{
    uint64_t run = load_relaxed(&depot_run[class]);
    return run > RUN_BYTES_MAX || run > (uint64_t)RUN_OBJECTS_MAX * class_bytes[class];
}

uint32_t depot_batch_objects(unsigned class)
{
    uint32_t n = lesser(magazine_max[class] / 2u, DEPOT_BATCH_MAX);
    return n < BATCH_OBJECTS_MIN ? 0 : n;
}

static uint32_t shard_here(void)
{
    int processor = sched_getcpu();
    return processor < 0 ? 0 : (uint32_t)processor % SHARDS;
}

static struct depot_batch *spare_batch(void)
{
    struct depot_batch *b = spare, *all = load_relaxed(&depot.batches);
    uint32_t end = load_relaxed(&depot.end);
    if (b) {
        spare = b->next;
        return b;
    }
    if (!all) {
        all = meta_map(BATCHES_MAX * sizeof *all);
        store_release(&depot.batches, all);
    }
    if (!all || end == BATCHES_MAX)
        return NULL;
    store_release(&depot.end, end + 1);
    return &all[end];
}

void depot_add_run(unsigned class, uint32_t objects)
{
    uint64_t bytes = (uint64_t)objects * class_bytes[class];
    store_relaxed(&depot_run[class], (uint32_t)lesser(load_relaxed(&depot_run[class]) + bytes, UINT32_MAX));
}

bool depot_put(unsigned class, const struct free_object *objects)
{
    jespan_assert(lock_is_held(LOCK_DEPOT) || lock_holds_all());
    uint32_t n = depot_batch_objects(class);
    uint64_t bytes = (uint64_t)n * class_bytes[class], in_class = load_relaxed(&depot_batches[class]) * bytes;
    if (is_closed || depot_run_is_long(class) || in_class + bytes > CLASS_BYTES_MAX || load_relaxed(&depot.bytes) + bytes > BYTES_MAX)
        return false;
    struct depot_batch *b = spare_batch();
    if (!b)
        return false;
    uint32_t shard = shard_here();
    b->next = lists[shard][class];
    b->n = n;
    b->class = class;
    memcpy(b->objects, objects, n * sizeof *objects);
    lists[shard][class] = b;
    list_batches[shard][class]++;
    store_relaxed(&depot_batches[class], load_relaxed(&depot_batches[class]) + 1);
    store_relaxed(&depot.bytes, load_relaxed(&depot.bytes) + bytes);
    return true;
}

/* The shard to take from: this processor's, or another one that has at least so many batches. SHARDS: none. */
static uint32_t find_shard(unsigned class, uint32_t least)
{
    uint32_t here = shard_here();
    if (list_batches[here][class])
        return here;
    uint32_t shard = 0;
    while (shard < SHARDS && list_batches[shard][class] < least)
        shard++;
    return shard;
}

uint32_t depot_take(unsigned class, struct free_object *objects, bool is_for_allocation)
{
    jespan_assert(lock_is_held(LOCK_DEPOT) || lock_holds_all());
    uint32_t shard = find_shard(class, is_for_allocation ? KEPT_FROM_OTHERS + 1 : 1);
    if (is_for_allocation)
        depot_end_run(class);
    if (shard == SHARDS)
        return 0;
    struct depot_batch *b = lists[shard][class];
    uint32_t n = b->n;
    lists[shard][class] = b->next;
    list_batches[shard][class]--;
    memcpy(objects, b->objects, n * sizeof *objects);
    b->n = 0;
    b->next = spare;
    spare = b;
    store_relaxed(&depot_batches[class], load_relaxed(&depot_batches[class]) - 1);
    store_relaxed(&depot.bytes, load_relaxed(&depot.bytes) - (uint64_t)n * class_bytes[class]);
    return n;
}

COLD void depot_close(void)
{
    lock(LOCK_DEPOT);
    is_closed = true;
    unlock(LOCK_DEPOT);
}
