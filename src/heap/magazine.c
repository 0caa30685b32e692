/* SPDX-License-Identifier: BSD-2-Clause */
/* Magazines: their sizes, and all functions off the hot path. */
#include "heap/magazine.h"

#include <string.h>

#include "base/die.h"
#include "base/lock.h"
#include "heap/depot.h"
#include "heap/large.h"
#include "jemalloc/binding.h"

/* The most objects of one class that a thread keeps. jemalloc's own thread cache is cut in return: jemalloc/binding.c.
 */
#define CLASS_BYTES_MAX 32768u
#define MIDDLE_CLASS_BYTES_MAX 65536u /* a free buffer has 32 objects, which would be too many otherwise */
#define CLASS_OBJECTS_MAX 128
#define SMALL_OBJECTS_MIN 20 /* whatever their bytes */

uint16_t magazine_max[CLASSES_MAX];
static struct magazine_bottoms bottoms;

/* Where jemalloc must see every allocation and free, magazine_max stays 0. */
COLD void magazine_boot(void)
{
    uint32_t entries = MAGAZINE_ENTRIES - CLASSES_MAX - 1; /* each class has a bottom entry; one more follows all magazines */
    bool keeps = binding_lets_objects_be_kept();
    for (unsigned class = 1; keeps && class < CLASSES_MAX && class_bytes[class]; class++) {
        uint32_t bytes = class_bytes[class], fit = (bytes > HEADER_PAGE_BYTES ? MIDDLE_CLASS_BYTES_MAX : CLASS_BYTES_MAX) / bytes;
        fit = fit < CLASS_OBJECTS_MAX ? fit : CLASS_OBJECTS_MAX;
        fit = fit < SMALL_OBJECTS_MIN && bytes <= HEADER_PAGE_BYTES ? SMALL_OBJECTS_MIN : fit;
        magazine_max[class] = (uint16_t)(fit < entries ? fit : entries);
        entries -= magazine_max[class];
    }
    magazine_find_bottoms(&bottoms, magazine_max);
}

/* The bottom of the magazine that has this top. */
static struct free_object *bottom_below(struct thread *t, unsigned class, const struct free_object *top)
{
    return (struct free_object *)((char *)t + magazine_bottom_offset(&bottoms, class, (size_t)((const char *)top - (const char *)t)));
}

static struct free_object *bottom_of(struct thread *t, unsigned class)
{
    return bottom_below(t, class, load_relaxed(&t->magazine_top[class]));
}

static bool is_first(const struct thread *t, const struct free_object *entry)
{
    return entry < t->magazine;
}

void magazine_start(struct thread *t)
{
    if (load_relaxed(&t->magazine_top[CLASSES_MAX - 1])) /* already done. The last top is set last, since a child may be forked meanwhile */
        return;
    store_relaxed(&t->taken_from, &t->magazine_top[0]);
    for (unsigned class = 0; class < CLASSES_MAX; class++) {
        struct free_object *bottom = t->magazine_first + bottoms.first[class];
        t->magazine_object_bytes[class] = class_bytes[class];
        t->magazine_full[class] = bottom + magazine_first_max(magazine_max[class]);
        store_release(&t->magazine_top[class], bottom);
    }
}

/* Most have nothing there, and share their top, or lie in pages that the thread never wrote to. */
static void forget_above(struct free_object *top)
{
    if (top[1].p)
        top[1].p = NULL;
}

COLD void magazine_forget_taken(struct thread *t)
{
    uint64_t changes = load_relaxed(&tables_changes);
    for (unsigned class = 0; class < CLASSES_MAX; class++)
        forget_above(load_relaxed(&t->magazine_top[class]));
    for (struct arena_magazines *m = load_relaxed(&t->arena_magazines); m; m = m->next)
        for (unsigned class = 0; class < CLASS_IN_ARENA; class++)
            forget_above(load_relaxed(&m->top[class]));
    store_relaxed(&t->taken_from, &t->magazine_top[0]);
    __atomic_store_n(&t->tables_seen, changes, __ATOMIC_RELEASE); /* last, since a child may be forked meanwhile */
}

uint32_t magazine_objects(struct thread *t, unsigned class)
{
    struct free_object *top = load_acquire(&t->magazine_top[class]);
    return top ? (uint32_t)(top - bottom_below(t, class, top)) : 0; /* NULL: not started */
}

/* The objects that a full magazine has at present. */
static uint32_t room_of(struct thread *t, unsigned class)
{
    return (uint32_t)(t->magazine_full[class] - bottom_of(t, class));
}

/* Clears the entry first. The program's own extent hooks may get the object and free it, and then it must not look like
 * the object that was taken out last. */
static void give_to_jemalloc(struct free_object *object, unsigned class)
{
    void *p = object->p;
    object->p = NULL;
    jespan_je_sdallocx(p, class_bytes[class], 0);
}

/* Removes the first `given` objects of a magazine that had `had`. Where these are at least half of them, the others are copied to
 * memory that they do not overlap, so a forked child can do it again. */
static void close_ranks(struct thread *t, unsigned class, uint32_t given, uint32_t had)
{
    struct free_object *bottom = bottom_of(t, class);
    jespan_assert(given <= had);
    memmove(bottom + 1, bottom + 1 + given, (had - given) * sizeof *bottom);
    store_release(&t->magazine_top[class], bottom + (had - given));
    store_release(&t->spill_class, 0);
}

/* The magazine is empty while objects leave it, since the program's own extent hooks or a signal handler may allocate. Returns its
 * bottom. */
static struct free_object *begin_to_give(struct thread *t, unsigned class)
{
    struct free_object *bottom = bottom_of(t, class);
    store_relaxed(&t->spill_given, 0);
    store_release(&t->spill_class, class);
    store_release(&t->magazine_top[class], bottom);
    return bottom;
}

static void give_oldest(struct thread *t, unsigned class, uint32_t n)
{
    struct free_object *bottom = begin_to_give(t, class);
    for (uint32_t i = 1; i <= n; i++) {
        give_to_jemalloc(&bottom[i], class);
        store_release(&t->spill_given, i);
    }
    close_ranks(t, class, n, room_of(t, class));
}

/* Moves all objects from the first magazine to the other one. */
static NOINLINE void leave_first(struct thread *t, unsigned class)
{
    struct free_object *bottom = t->magazine + bottoms.whole[class];
    uint32_t n = room_of(t, class);
    memcpy(bottom + 1, bottom_of(t, class) + 1, n * sizeof *bottom);
    store_release(&t->magazine_top[class], bottom + n);
    t->magazine_full[class] = bottom + magazine_max[class]; /* after the top: magazine_after_fork() */
}

/* ---- Exchange with the depot ---- */

/* Puts the older half of a full magazine into the depot, or all of one that is half full. */
static bool share_oldest(struct thread *t, unsigned class)
{
    uint32_t n = depot_batch_objects(class), objects = magazine_objects(t, class);
    depot_add_run(t->depot_shard, class, magazine_max[class] / 2u);
    if (!n || objects < n)
        return false;
    struct depot_list list = depot_to_put(t->depot_shard, class);
    if (!try_lock(LOCK_DEPOT + list.shard))
        return false;
    bool is_put = depot_put(list, t->depot_shard, class, begin_to_give(t, class) + 1);
    close_ranks(t, class, is_put ? n : 0, objects);
    unlock(LOCK_DEPOT + list.shard);
    return is_put;
}

/* Takes a batch into a magazine, if that is empty. An allocation that got nothing from it may have been refused by a limit. Not
 * while its objects go to jemalloc. The caller has the shard's lock. */
static bool take_batch(struct thread *t, unsigned class, struct depot_list list)
{
    if (magazine_objects(t, class) || load_relaxed(&t->spill_class))
        return false;
    struct free_object *bottom = t->magazine + bottoms.whole[class];
    uint32_t n = depot_take(list, class, bottom + 1);
    if (!n)
        return false;
    bottom[n + 1].p = NULL; /* see magazine_put() */
    store_release(&t->magazine_top[class], bottom + n);
    t->magazine_full[class] = bottom + magazine_max[class];
    return true;
}

static bool try_take_batch(struct thread *t, unsigned class, struct depot_list list)
{
    if (list.shard == DEPOT_SHARDS || !try_lock(LOCK_DEPOT + list.shard))
        return false;
    bool has = take_batch(t, class, list);
    unlock(LOCK_DEPOT + list.shard);
    return has;
}

NOINLINE bool magazine_refill_from_depot(struct thread *t, size_t class)
{
    bool has = try_take_batch(t, (unsigned)class, depot_to_take(t->depot_shard, (unsigned)class));
    if (has)
        magazine_was_empty(t, class);
    return has;
}

/* The older half goes to the depot. After two times in a row, both halves go, and then each half when it is full: the thread may wait
 * next, and keep what is there. */
static bool share(struct thread *t, unsigned class)
{
    uint8_t *spills = &t->magazine_spills[class];
    if (!share_oldest(t, class))
        return false;
    if (*spills < MAGAZINE_SPILLS_MAX - 1)
        ++*spills;
    if (*spills < MAGAZINE_SPILLS_MAX - 1)
        return true;
    struct free_object *half = bottom_of(t, class) + depot_batch_objects(class);
    if (load_relaxed(&t->magazine_top[class]) >= half)
        share_oldest(t, class);
    if (load_relaxed(&t->magazine_top[class]) <= half)
        t->magazine_full[class] = half;
    return true;
}

/* A thread that only frees has no use for what it keeps. Then the magazine gives all it has and keeps nothing, until an allocation finds
 * a magazine of the class empty, on any thread. */
static void spill(struct thread *t, unsigned class)
{
    if (is_first(t, t->magazine_full[class]) && magazine_max[class] > MAGAZINE_FIRST) {
        leave_first(t, class);
        return;
    }
    uint32_t full = room_of(t, class), room = magazine_max[class];
    uint8_t *spills = &t->magazine_spills[class];
    if (*spills == MAGAZINE_SPILLS_MAX || (full < room && !*spills)) { /* an allocation has found one empty */
        *spills = 1;
        t->magazine_full[class] = bottom_of(t, class) + room;
        return;
    }
    if (share(t, class))
        return;
    struct depot_list some = depot_to_empty(class);
    if (some.shard < DEPOT_SHARDS && depot_run_is_long(t->depot_shard, class)) { /* each full magazine takes a batch out */
        give_oldest(t, class, full);
        try_take_batch(t, class, some);
        return;
    }
    if (++*spills == MAGAZINE_SPILLS_MAX) {
        room = 0;
        depot_forget_want(class);
        give_oldest(t, class, full);
    } else if (full == room) {
        give_oldest(t, class, full - full / 2);
    }
    t->magazine_full[class] = bottom_of(t, class) + room; /* not below the top at any moment */
}

NOINLINE void magazine_put_in_full(struct thread *t, size_t class, struct free_object object)
{
    if (magazine_max[class])
        spill(t, class);
    if (!magazine_put(t, class, object))
        give_to_jemalloc(&object, class);
}

/* jemalloc may have got the object at spill_given already, so leak it. */
COLD void magazine_after_fork(struct thread *t)
{
    for (unsigned c = 0; c < CLASSES_MAX && load_relaxed(&t->magazine_top[c]); c++)
        if (is_first(t, t->magazine_full[c]) && !is_first(t, load_relaxed(&t->magazine_top[c])))
            t->magazine_full[c] = bottom_of(t, c) + magazine_max[c];
    unsigned class = load_relaxed(&t->spill_class);
    uint32_t given = load_relaxed(&t->spill_given);
    if (class)
        close_ranks(t, class, given < room_of(t, class) ? given + 1 : given, room_of(t, class));
}

static void empty_class(struct thread *t, unsigned class)
{
    struct free_object *object;
    while ((object = magazine_take(t, class)))
        give_to_jemalloc(object, class);
}

COLD void magazine_empty(struct thread *t)
{
    for (unsigned class = 1; class < CLASSES_MAX && class_bytes[class]; class++)
        empty_class(t, class);
}

/* Only as many batches as it has at first: other threads may go on putting some in. */
static void empty_list(struct thread *t, unsigned class, struct depot_list list)
{
    bool has = true;
    for (uint32_t n = depot_count(list, class); n && has; n--) {
        lock(LOCK_DEPOT + list.shard);
        has = take_batch(t, class, list);
        unlock(LOCK_DEPOT + list.shard);
        empty_class(t, class);
    }
}

COLD void magazine_empty_depot(struct thread *t)
{
    large_give_back();
    for (unsigned class = 1; class < CLASSES_MAX && class_bytes[class]; class++) {
        empty_class(t, class);
        for (unsigned i = 0; i < DEPOT_LISTS; i++)
            empty_list(t, class, depot_list_at(i));
    }
}

static uint64_t bytes_for_arena(struct arena_magazines *m)
{
    uint64_t bytes = 0;
    for (unsigned class = 1; class < CLASS_IN_ARENA; class++) {
        struct free_object *top = load_acquire(&m->top[class]), *bottom = load_relaxed(&m->bottom[class]);
        uint64_t n = ((uintptr_t)top - (uintptr_t)bottom) / sizeof *top;
        bytes += n <= ARENA_MAGAZINE_MAX ? n * class_bytes[class] : 0; /* more: it gets its room just now */
    }
    return bytes;
}

uint64_t magazine_bytes(struct thread *t)
{
    uint64_t bytes = 0;
    for (struct arena_magazines *m = load_acquire(&t->arena_magazines); m; m = m->next)
        bytes += bytes_for_arena(m);
    for (unsigned class = 1; class < CLASSES_MAX && class_bytes[class]; class++)
        bytes += (uint64_t)magazine_objects(t, class) * class_bytes[class];
    return bytes;
}
