/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions: which spans have which arena, and the threads that are inside. */
#include "policy/regions.h"

#include <string.h>

#include "base/die.h"
#include "base/exceptions.h"
#include "base/figures.h"
#include "base/forked.h"
#include "base/futex.h"
#include "base/lock.h"
#include "policy/arena_cache.h"
#include "span/tree.h"

struct regions_counters regions_counters;
FIGURE_ROW(figure_released, "spans.stats.regions_released", regions_counters.released, FIGURE_NUMBER);
FIGURE_ROW(figure_released_objects, "spans.stats.regions_released_objects", regions_counters.released_objects, FIGURE_NUMBER);
FIGURE_ROW(figure_released_bytes, "spans.stats.regions_released_bytes", regions_counters.released_bytes, FIGURE_NUMBER);
FIGURE_ROW(figure_shared, "spans.stats.regions_shared", regions_counters.shared, FIGURE_NUMBER);
FIGURE_ROW(figure_set_aside, "spans.stats.regions_set_aside", regions_counters.set_aside, FIGURE_NUMBER);
FIGURE_ROW(figure_survivors, "spans.stats.regions_survivors", regions_counters.survivors, FIGURE_NUMBER);
FIGURE_ROW(figure_lost, "spans.stats.regions_lost", regions_counters.lost, FIGURE_NUMBER);

/* ---- Fork ----
 * A child has no thread that could finish a release. So fork waits for releases that are under way, and releases that
 * begin wait for fork. Each side writes its own variable, at_work or forks, and then reads the other; both are
 * sequentially consistent, so at least one side sees the other. */

static WRITTEN_AT_FORK _Atomic uint32_t at_work, forks;
static THREAD_LOCAL uint32_t at_work_here;

void regions_begin(void)
{
    if (at_work_here++)
        return;
    for (;;) {
        atomic_fetch_add(&at_work, 1);
        uint32_t n = atomic_load(&forks);
        if (likely(!n))
            return;
        if (atomic_fetch_sub(&at_work, 1) == 1)
            futex_wake_all(&at_work);
        futex_wait(&forks, n, UINT64_MAX);
    }
}

void regions_end(void)
{
    jespan_assert(at_work_here);
    if (--at_work_here)
        return;
    if (atomic_fetch_sub(&at_work, 1) == 1 && unlikely(atomic_load(&forks)))
        futex_wake_all(&at_work);
}

static COLD void wait_for_releases(void)
{
    uint32_t own = at_work_here != 0; /* a signal handler in a release may fork */
    atomic_fetch_add(&forks, 1);
    for (uint32_t n = atomic_load(&at_work); n != own; n = atomic_load(&at_work))
        futex_wait(&at_work, n, UINT64_MAX);
    at_work_here++; /* so that a release in a fork handler does not wait */
}

COLD void regions_after_fork_in_parent(void)
{
    at_work_here--;
    atomic_fetch_sub(&forks, 1);
    futex_wake_all(&forks);
}

/* ---- Spans that have an arena ---- */

static bool is_like(const struct span_arena *a, const struct site *site)
{
    return a->region && a->site && !memcmp(&a->site->arena, &site->arena, sizeof site->arena);
}

static uint16_t find_idle(const struct site *site)
{
    for (uint32_t id = 1; id < arenas_end(); id++)
        if (is_like(&arenas[id], site) && region_is_idle(&arenas[id]))
            return (uint16_t)id;
    return 0;
}

/* The arena of the site with the fewest users. */
static uint16_t find_shared(const struct site *site)
{
    uint32_t best = 0;
    for (uint32_t id = 1; id < arenas_end(); id++)
        if (is_like(&arenas[id], site) && arenas[id].site == site && arenas[id].users &&
            (!best || arenas[id].users < arenas[best].users))
            best = id;
    return (uint16_t)best;
}

/* The index of the context in `homes`, or a free index; -1: there is none. */
static int find_home(const struct span_arena *a, uint32_t context)
{
    int free = -1;
    for (int i = ARENA_HOMES - 1; i >= 0; i--) {
        if (a->home_users[i] && load_relaxed(&a->homes[i]) == context)
            return i;
        if (!a->home_users[i])
            free = i;
    }
    return free;
}

/* If there are too many, the context is left out. Objects that are credited to it then count as survivors, which is
 * safe. */
static void add_home(struct span_arena *a, uint32_t context)
{
    int i = find_home(a, context);
    if (i < 0)
        return;
    a->home_users[i]++;
    store_relaxed(&a->homes[i], context);
}

static void remove_home(struct span_arena *a, uint32_t context)
{
    for (int i = 0; i < ARENA_HOMES; i++)
        if (a->home_users[i] && (load_relaxed(&a->homes[i]) & ~ARENA_HOME_BORROWED) == context) {
            if (!--a->home_users[i])
                store_relaxed(&a->homes[i], 0);
            return;
        }
}

void regions_move(uint16_t arena, uint32_t from, uint32_t to)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    remove_home(&arenas[arena], from);
    add_home(&arenas[arena], to);
}

static void forget_homes(struct span_arena *a)
{
    for (int i = 0; i < ARENA_HOMES; i++) {
        a->home_users[i] = 0;
        store_relaxed(&a->homes[i], 0);
    }
}

static void begin_region(struct span_arena *a, struct thread *t)
{
    a->opened++;
    region_kept_begin(a->kept);
    a->opened_by = t;
    a->level = exceptions_level();
    a->is_thrown_through = false;
    for (int i = 0; i < ARENA_THROWERS; i++)
        a->thrown_by[i] = NULL;
    forget_homes(a);
}

uint16_t regions_open(struct thread *t, const struct site *site, uint32_t context, bool borrowed)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    uint16_t arena = find_idle(site);
    if (!arena)
        arena = arenas_make_region(site);
    if (!arena) {
        arena = find_shared(site);
        regions_count(&regions_counters.shared, arena != 0);
    }
    if (arena) {
        arenas_rename(arena, site);
        if (arenas[arena].users++)
            arenas[arena].opened_by = NULL;
        else
            begin_region(&arenas[arena], t);
        add_home(&arenas[arena], context | (borrowed ? ARENA_HOME_BORROWED : 0));
    }
    return arena;
}

void regions_cancel(uint16_t arena, uint32_t context)
{
    jespan_assert(lock_is_held(LOCK_TREE) && arenas[arena].users);
    arenas[arena].users--;
    remove_home(&arenas[arena], context);
}

/* Returns true if the arena has no user any more. The caller then owns it. */
static bool ends(struct span_arena *a)
{
    if (a->users || a->inside)
        return false;
    forget_homes(a);
    a->busy = true;
    return true;
}

/* Under LOCK_TREE. Notes that an exception takes the thread out of a span, or that its handler does: the exception may
 * be in the arena as long as it lives. If more than ARENA_THROWERS threads do so at once, the last entry becomes the
 * orphan, and the arena is never released. */
static void note_exceptions(struct thread *t, struct span_arena *a)
{
    struct exceptions_level now = exceptions_level(), then = a->opened_by == t ? a->level : (struct exceptions_level){0, 0};
    if (likely(now.uncaught <= then.uncaught && (!now.caught || now.caught == then.caught)))
        return;
    a->is_thrown_through = true;
    for (int i = 0; i < ARENA_THROWERS; i++)
        if (!a->thrown_by[i] || a->thrown_by[i] == t || i == ARENA_THROWERS - 1) {
            a->thrown_by[i] = a->thrown_by[i] && a->thrown_by[i] != t ? &thread_orphan : t;
            return;
        }
}

bool regions_close(struct thread *t, uint16_t arena, uint32_t context)
{
    struct span_arena *a = &arenas[arena];
    jespan_assert(lock_is_held(LOCK_TREE) && a->users);
    a->users--;
    remove_home(a, context);
    if (t)
        note_exceptions(t, a);
    return ends(a);
}

void regions_enter(struct thread *t, uint16_t arena)
{
    struct span_arena *a = &arenas[arena];
    struct thread *owner = load_relaxed(&a->owner);
    jespan_assert(lock_is_held(LOCK_TREE));
    a->inside++;
    if (!owner)
        store_relaxed(&a->owner, t);
    a->owner_depth += !owner || owner == t;
    if (!owner)
        arena_cache_take_place(t, arena);
}

bool regions_leave(struct thread *t, uint16_t arena)
{
    struct span_arena *a = &arenas[arena];
    jespan_assert(lock_is_held(LOCK_TREE) && a->inside);
    a->inside--;
    note_exceptions(t, a);
    if (load_relaxed(&a->owner) == t && !--a->owner_depth) {
        arena_cache_leave_place(t, arena);
        store_relaxed(&a->owner, NULL);
    }
    return ends(a);
}

COLD void regions_before_fork(struct thread *self)
{
    wait_for_releases();
    if (!self)
        return;
    for (uint32_t id = 1; id < arenas_end(); id++)
        if (load_relaxed(&arenas[id].owner) == self)
            arena_cache_end_region(self, (uint16_t)id);
}

void region_forget_thrower(struct span_arena *a, int i)
{
    a->thrown_by[i] = NULL;
    store_relaxed(&a->aside_objects, UINT64_MAX); /* so that regions_tidy() looks at the arena */
}

/* In a forked child. The parent's tcaches must not be used: see before_fork() in boot.c. */
static COLD void stay_inside(struct thread *self, struct span_arena *a)
{
    a->tcache_flags = 0;
    if (load_relaxed(&a->owner) != self) {
        store_relaxed(&a->owner, NULL);
        a->owner_depth = 0;
        region_kept_abandon(a->kept);
    }
    a->inside = 0;
    for (int i = 0; i < ARENA_THROWERS; i++)
        if (a->thrown_by[i] && a->thrown_by[i] != self)
            region_forget_thrower(a, i);
    arena_cache_leave_place(self, a->extents.id);
    for (uint32_t i = 0; self && i < self->depth; i++)
        if (entry_region(&self->entries[i]) == a->extents.id)
            a->inside++;
}

COLD void regions_after_fork(struct thread *self)
{
    at_work_here--;
    atomic_store(&at_work, at_work_here != 0);
    atomic_store(&forks, 0);
    for (uint32_t id = 1; id < arenas_end(); id++) {
        if (arenas[id].region)
            stay_inside(self, &arenas[id]);
        if (!at_work_here) /* another thread that was about to fork may have had it: regions_cool_idle() */
            arenas[id].busy = false;
    }
}

/* ---- Figures ---- */

void regions_count_lost(void)
{
    regions_count(&regions_counters.lost, 1);
}

struct regions_stats regions_stats(void)
{
    const struct regions_counters *c = &regions_counters;
    return (struct regions_stats){
        load_relaxed(&c->released), load_relaxed(&c->released_objects), load_relaxed(&c->released_bytes),
        load_relaxed(&c->shared), load_relaxed(&c->set_aside), load_relaxed(&c->survivors), load_relaxed(&c->lost)};
}
