/* SPDX-License-Identifier: BSD-2-Clause */
/* Batches of freed objects that threads exchange. */
#include "heap/depot.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/die.h"
#include "base/figures.h"
#include "base/meta.h"
#include "base/number.h"
#include "heap/classes.h"
#include "heap/large.h"
#include "heap/magazine.h"

#define GRANT_BYTES ((uint64_t)128 << 10)
#define GRANTS_MAX 32u    /* of all shards */
#define BATCHES_MAX 1024u /* of a shard */
#define BATCH_OBJECTS_MIN 4u
#define CLASS_BYTES_MAX ((uint64_t)1 << 20) /* in a shard */
#define CLASS_BATCHES_MAX 128u              /* so that tiny objects do not use up the batches */
#define RUN_BYTES_MAX ((uint64_t)512 << 10)
#define RUN_OBJECTS_MAX 4096u /* small objects that are used again in another order than they lie in cost cache misses */

/* A run is long before it has filled its class: only long runs empty the shard. */
_Static_assert(CLASS_BYTES_MAX > RUN_BYTES_MAX / 2 * 3, "bytes of a run");
_Static_assert(CLASS_BATCHES_MAX * DEPOT_BATCH_MAX > RUN_OBJECTS_MAX / 2 * 3, "objects of a run");

/* Batches. With fewer, threads that allocate and free get each other's objects, whose headers lie in the same cache lines. With more in
 * the own list, less reaches other threads. */
#define OWN_BATCHES 2u
#define RICH_FROM 12u
#define RICH_UNTIL 4u

struct depot depot;
FIGURE_ROW(figure_depot, "spans.stats.depot_bytes", depot.bytes, FIGURE_SUM);

static _Atomic uint32_t granted; /* to all shards */

static bool is_locked(unsigned shard)
{
    return lock_is_held(LOCK_DEPOT + shard) || lock_holds_all();
}

/* ---- Which list ---- */

/* The thread may run on another processor the next moment. */
static struct depot_list list_of_processor(void)
{
    int saved = errno, processor = sched_getcpu();
    errno = saved;
    return (struct depot_list){processor < 0 ? 0 : (unsigned)processor % DEPOT_SHARDS, false};
}

struct depot_list depot_to_put(unsigned own, unsigned class)
{
    struct depot_list list = {own, true};
    return depot_count(list, class) < OWN_BATCHES ? list : list_of_processor();
}

/* The first rich one after this one, so that threads of different processors begin with different ones. */
static struct depot_list rich_after(struct depot_list here, unsigned class)
{
    unsigned rich = load_relaxed(&depot.rich[class]);
    if (!rich)
        return DEPOT_NO_LIST;
    here.shard = (here.shard + (unsigned)__builtin_ctz((rich | rich << DEPOT_SHARDS) >> here.shard)) % DEPOT_SHARDS;
    return here;
}

struct depot_list depot_to_take(unsigned own, unsigned class)
{
    struct depot_list list = {own, true};
    if (depot_count(list, class))
        return list;
    list = list_of_processor();
    return depot_count(list, class) ? list : rich_after(list, class);
}

struct depot_list depot_to_empty(unsigned class)
{
    unsigned filled = load_relaxed(&depot.filled[class]);
    return filled ? depot_list_at((unsigned)__builtin_ctz(filled)) : DEPOT_NO_LIST;
}

/* Lists change their bits at the same time. */
static void note_filled(struct depot_list list, unsigned class, bool is_filled)
{
    unsigned bit = 1u << (2 * list.shard + list.is_own);
    if (is_filled)
        atomic_fetch_or_explicit(&depot.filled[class], (uint16_t)bit, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&depot.filled[class], (uint16_t)~bit, memory_order_relaxed);
}

/* Shards change their bits at the same time. */
static void count_batches(struct depot_list list, unsigned class, uint32_t n)
{
    unsigned bit = 1u << list.shard, is_rich = load_relaxed(&depot.rich[class]) & bit;
    if (!depot_count(list, class) != !n)
        note_filled(list, class, n);
    store_relaxed(&depot.shards[list.shard].counts[list.is_own][class], n);
    if (list.is_own)
        return;
    if (n >= RICH_FROM && !is_rich)
        atomic_fetch_or_explicit(&depot.rich[class], (uint8_t)bit, memory_order_relaxed);
    else if (n <= RICH_UNTIL && is_rich)
        atomic_fetch_and_explicit(&depot.rich[class], (uint8_t)~bit, memory_order_relaxed);
}

/* ---- Bounds ---- */

void depot_add_run(unsigned shard, unsigned class, uint32_t objects)
{
    _Atomic uint32_t *run = &depot.shards[shard].runs[class];
    store_relaxed(run, (uint32_t)lesser(load_relaxed(run) + (uint64_t)objects * class_bytes[class], UINT32_MAX));
}

static bool is_longer(unsigned shard, unsigned class, uint64_t bytes, uint64_t objects)
{
    uint64_t run = load_relaxed(&depot.shards[shard].runs[class]);
    return run > bytes || run > objects * class_bytes[class];
}

bool depot_run_is_long(unsigned shard, unsigned class)
{
    return is_longer(shard, class, RUN_BYTES_MAX, RUN_OBJECTS_MAX);
}

/* A run ends where an allocation has found a magazine empty. That is looked at only after half of a long run: otherwise threads would
 * write to this line in turn. */
static void end_run(unsigned shard, unsigned class)
{
    if (!is_longer(shard, class, RUN_BYTES_MAX / 2, RUN_OBJECTS_MAX / 2) || !load_relaxed(&depot.wanted[class]))
        return;
    depot_forget_want(class);
    store_relaxed(&depot.shards[shard].runs[class], 0);
}

static bool class_has_room(uint32_t batches, uint64_t batch_bytes)
{
    return batches < CLASS_BATCHES_MAX && (batches + 1) * batch_bytes <= CLASS_BYTES_MAX;
}

/* A shard gets what it may have in grants, and gives one back when it has two more than it needs. */
static bool set_bytes(unsigned shard, uint64_t bytes)
{
    struct depot_shard *s = &depot.shards[shard];
    if (bytes > s->granted * GRANT_BYTES) {
        if (atomic_fetch_add_explicit(&granted, 1, memory_order_relaxed) >= GRANTS_MAX) {
            atomic_fetch_sub_explicit(&granted, 1, memory_order_relaxed);
            return false;
        }
        s->granted++;
    } else if (bytes + 2 * GRANT_BYTES < s->granted * GRANT_BYTES) {
        atomic_fetch_sub_explicit(&granted, 1, memory_order_relaxed);
        s->granted--;
    }
    store_relaxed(&depot.bytes[shard].now, bytes);
    return true;
}

/* ---- Batches ---- */

/* The batches of all shards, mapped at once when the first one is needed. */
static struct depot_batch *map_batches(void)
{
    static struct depot_batch *_Atomic all;
    const size_t bytes = (size_t)DEPOT_SHARDS * BATCHES_MAX * sizeof(struct depot_batch);
    struct depot_batch *mapped = atomic_load_explicit(&all, memory_order_acquire), *none = NULL;
    if (mapped || !(mapped = meta_map(bytes)) || atomic_compare_exchange_strong(&all, &none, mapped))
        return mapped;
    meta_unmap(mapped, bytes); /* another shard came first */
    return none;
}

static struct depot_batch *spare_batch(unsigned shard)
{
    struct depot_shard *s = &depot.shards[shard];
    struct depot_batch *batches = load_relaxed(&s->batches), *all;
    uint32_t end = load_relaxed(&s->end);
    if (s->spare)
        return s->spare;
    if (!batches && (all = map_batches())) {
        batches = all + (size_t)shard * BATCHES_MAX;
        store_release(&s->batches, batches);
    }
    if (!batches || end == BATCHES_MAX)
        return NULL;
    store_release(&s->end, end + 1);
    s->spare = &batches[end];
    return s->spare;
}

bool depot_put(struct depot_list list, unsigned own, unsigned class, const struct free_object *objects)
{
    jespan_assert(is_locked(list.shard));
    struct depot_shard *s = &depot.shards[list.shard];
    uint32_t n = depot_batch_objects(class), count = load_relaxed(&s->counts[false][class]) + load_relaxed(&s->counts[true][class]);
    uint64_t bytes = (uint64_t)n * class_bytes[class];
    end_run(own, class);
    if (load_relaxed(&depot.is_closed) || depot_run_is_long(own, class) || !class_has_room(count, bytes))
        return false;
    struct depot_batch *b = spare_batch(list.shard), **first = &s->lists[list.is_own][class];
    if (!b || !set_bytes(list.shard, load_relaxed(&depot.bytes[list.shard].now) + bytes))
        return false;
    s->spare = b->next;
    b->next = *first;
    b->n = n;
    b->class = class;
    memcpy(b->objects, objects, n * sizeof *objects);
    *first = b;
    count_batches(list, class, depot_count(list, class) + 1);
    return true;
}

uint32_t depot_take(struct depot_list list, unsigned class, struct free_object *objects)
{
    jespan_assert(is_locked(list.shard));
    struct depot_shard *s = &depot.shards[list.shard];
    struct depot_batch **first = &s->lists[list.is_own][class], *b = *first;
    if (!b)
        return 0;
    uint32_t n = b->n;
    *first = b->next;
    memcpy(objects, b->objects, n * sizeof *objects);
    b->n = 0;
    b->next = s->spare;
    s->spare = b;
    count_batches(list, class, depot_count(list, class) - 1);
    set_bytes(list.shard, load_relaxed(&depot.bytes[list.shard].now) - (uint64_t)n * class_bytes[class]);
    return n;
}

uint32_t depot_batch_objects(unsigned class)
{
    uint32_t n = lesser(magazine_max[class] / 2u, DEPOT_BATCH_MAX);
    return n < BATCH_OBJECTS_MIN ? 0 : n;
}

uint64_t depot_bytes(void)
{
    uint64_t bytes = 0;
    for (unsigned part = 0; part < DEPOT_PARTS; part++)
        bytes += load_relaxed(&depot.bytes[part].now);
    return bytes;
}

/* The locks wait for threads that put something in just now. */
COLD void depot_close(void)
{
    store_relaxed(&depot.is_closed, true);
    for (unsigned part = 0; part < DEPOT_PARTS; part++) {
        lock(LOCK_DEPOT + part);
        unlock(LOCK_DEPOT + part);
    }
    large_give_back();
}
