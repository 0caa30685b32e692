/* SPDX-License-Identifier: BSD-2-Clause */
/* Large objects that were freed. */
#include "heap/large.h"

#include <stdint.h>
#include <string.h>

#include "base/die.h"
#include "base/lock.h"
#include "heap/depot.h"
#include "jemalloc/binding.h"

#define BYTES_MAX ((uint64_t)4 << 20)
#define OBJECTS_MAX 64u
#define MOVED_MAX 8u /* objects that go at a time */

#define LEAST_LOG 15u /* of LARGE_LEAST */
#define CLASSES 20u   /* four for each doubling, as jemalloc's */
_Static_assert(LARGE_LEAST == (size_t)1 << LEAST_LOG && LARGE_MOST == LARGE_LEAST << CLASSES / 4, "a place in `wanted` for each class");

/* Objects of a class are kept if so many allocations have found none, less the objects that went to jemalloc again without being used. So
 * it is for a program that allocates and frees again and again, and not for one that only grows. */
#define WANTED_MIN 4
#define WANTED_MAX 16

static struct {
    uint32_t n;
    uint32_t usable[OBJECTS_MAX]; /* that was kept longest comes first */
    void *objects[OBJECTS_MAX];
} kept; /* LOCK_LARGE */

static _Atomic uint8_t wanted[CLASSES]; /* any thread may write; one that does so at the same time may be forgotten */

static _Atomic uint8_t *wanted_of(size_t usable)
{
    unsigned log = 63 - (unsigned)__builtin_clzl(usable - 1);
    return &wanted[(log - LEAST_LOG) * 4 + ((usable - 1) >> (log - 2) & 3)];
}

static void add_wanted(size_t usable, int more)
{
    int n = load_relaxed(wanted_of(usable)) + more;
    if (n >= 0 && n <= WANTED_MAX)
        store_relaxed(wanted_of(usable), (uint8_t)n);
}

static uint64_t kept_bytes(void)
{
    return load_relaxed(&depot.bytes[DEPOT_LARGE].now);
}

static void set_bytes(uint64_t bytes)
{
    store_relaxed(&depot.bytes[DEPOT_LARGE].now, bytes);
}

/* Removes n objects from this place on. */
static void remove_from(uint32_t at, uint32_t n)
{
    uint32_t after = kept.n - at - n;
    for (uint32_t i = at; i < at + n; i++)
        set_bytes(kept_bytes() - kept.usable[i]);
    memmove(&kept.usable[at], &kept.usable[at + n], after * sizeof *kept.usable);
    memmove(&kept.objects[at], &kept.objects[at + n], after * sizeof *kept.objects);
    kept.n -= n;
}

static void *take(size_t usable)
{
    for (uint32_t i = kept.n; i-- > 0;)
        if (kept.usable[i] == usable) {
            void *p = kept.objects[i];
            remove_from(i, 1);
            return p;
        }
    return NULL;
}

void *large_take(size_t usable)
{
    jespan_assert(large_is_kept(usable));
    void *p = NULL;
    if (kept_bytes() && try_lock(LOCK_LARGE)) {
        p = take(usable);
        unlock(LOCK_LARGE);
    }
    if (!p)
        add_wanted(usable, 1);
    return p;
}

/* How many of those that were kept longest are to go, so that there is room. */
static uint32_t too_many(size_t usable)
{
    uint64_t bytes = kept_bytes() + usable;
    uint32_t n = kept.n == OBJECTS_MAX;
    for (uint32_t i = 0; i < n; i++)
        bytes -= kept.usable[i];
    for (; bytes > BYTES_MAX; n++)
        bytes -= kept.usable[n];
    return n;
}

struct moved {
    uint32_t n;
    uint32_t usable[MOVED_MAX];
    void *objects[MOVED_MAX];
};

static void move_first(struct moved *to, uint32_t n)
{
    to->n = n;
    memcpy(to->usable, kept.usable, n * sizeof *kept.usable);
    memcpy(to->objects, kept.objects, n * sizeof *kept.objects);
    remove_from(0, n);
}

static void free_moved(const struct moved *m)
{
    for (uint32_t i = 0; i < m->n; i++)
        jespan_je_sdallocx(m->objects[i], m->usable[i], 0);
}

/* Returns whether it keeps the object. Those that go are to be freed without the lock. If more would have to go for this one, it is not
 * kept, but the next one may be. */
static bool keep(void *p, size_t usable, struct moved *gone)
{
    if (load_relaxed(&depot.is_closed))
        return false;
    uint32_t n = too_many(usable), goes = n < MOVED_MAX ? n : MOVED_MAX;
    for (uint32_t i = 0; i < goes; i++)
        add_wanted(kept.usable[i], -1);
    move_first(gone, goes);
    if (goes < n)
        return false;
    kept.usable[kept.n] = (uint32_t)usable;
    kept.objects[kept.n++] = p;
    set_bytes(kept_bytes() + usable);
    return true;
}

void large_give(void *p, size_t usable)
{
    jespan_assert(large_is_kept(usable));
    struct moved gone;
    gone.n = 0; /* to clear all of it would take longer than the rest */
    bool is_kept = load_relaxed(wanted_of(usable)) >= WANTED_MIN && try_lock(LOCK_LARGE);
    if (is_kept) {
        is_kept = keep(p, usable, &gone);
        unlock(LOCK_LARGE);
    }
    if (!is_kept)
        jespan_je_sdallocx(p, usable, 0);
    free_moved(&gone);
}

COLD bool large_give_back(void)
{
    bool any = false;
    struct moved gone;
    do {
        if (!lock_if_possible(LOCK_LARGE))
            return any;
        move_first(&gone, kept.n < MOVED_MAX ? kept.n : MOVED_MAX);
        unlock(LOCK_LARGE);
        free_moved(&gone);
        any |= gone.n;
    } while (gone.n == MOVED_MAX);
    return any;
}
