/* SPDX-License-Identifier: BSD-2-Clause */
/* Span arenas: which contexts share one, which one serves others next, and jemalloc's arena behind each. */
#include "policy/arenas.h"

#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/figures.h"
#include "base/lock.h"
#include "base/meta.h"
#include "conf/conf.h"
#include "heap/pagemap.h"
#include "jemalloc-hooks/extents.h"
#include "jemalloc/binding.h"
#include "policy/arena_cache.h"
#include "span/tree.h"

struct span_arena *arenas;
static _Atomic uint32_t n_arenas; /* [0] included; LOCK_TREE */
static _Atomic uint64_t refused;
FIGURE_ROW(figure_arenas, "spans.stats.arenas", n_arenas, FIGURE_LESS_1);
FIGURE_ROW(figure_count, "spans.arenas.count", n_arenas, FIGURE_LESS_1);
FIGURE_ROW(figure_refused, "spans.stats.arenas_refused", refused, FIGURE_NUMBER);

/* ---- Arenas ---- */

static bool is_for(const struct span_arena *a, const struct site *site, const char *value)
{
    return a->site == site && !a->region && !strcmp(a->value, value);
}

/* An arena that no context has, with the same properties and no live object, can serve another site. */
static bool can_serve(uint16_t arena, const struct site *site)
{
    const struct span_arena *a = &arenas[arena];
    if (a->region || a->contexts || memcmp(&a->site->arena, &site->arena, sizeof site->arena))
        return false;
    struct arena_sums sums = arena_cache_sums(arena);
    return sums.alloc_objects == sums.free_objects;
}

/* The arena has no live object, so what was allocated is what was freed. A thread may still be counting a free, so the
 * sum of frees is not read. */
static void begin_figures(uint16_t arena)
{
    struct span_arena *a = &arenas[arena];
    struct arena_sums sums = arena_cache_sums(arena);
    store_relaxed(&a->before.objects, sums.alloc_objects);
    store_relaxed(&a->before.bytes, sums.alloc_bytes);
    store_relaxed(&a->before.policy_errors, load_relaxed(&a->extents.policy_errors));
    store_relaxed(&a->refusals, 0);
    store_relaxed(&a->extents.figures.peak_mapped_bytes, load_relaxed(&a->extents.figures.mapped_bytes));
}

void arenas_rename(uint16_t arena, const struct site *site)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    if (arenas[arena].site != site)
        begin_figures(arena);
    arenas[arena].site = site;
}

static void name_arena(uint32_t id, const struct site *site, const char *value)
{
    struct span_arena *a = &arenas[id];
    if (id < load_relaxed(&n_arenas))
        begin_figures((uint16_t)id);
    a->site = site;
    jespan_assert(strlen(value) < sizeof a->value);
    strcpy(a->value, value);
    store_relaxed(&a->extents.limit_bytes, site->arena.limit_bytes);
    if (id == load_relaxed(&n_arenas)) {
        store_relaxed(&a->state, ARENA_NAMED);
        store_release(&n_arenas, id + 1);
    }
}

static uint32_t find_unused(const struct site *site)
{
    uint32_t id = 1, end = load_relaxed(&n_arenas);
    while (id < end && !can_serve((uint16_t)id, site))
        id++;
    return id;
}

/* Takes arenas with the same properties and no live object from contexts that no thread is in. Arenas that serve all
 * contexts without an arena for their label are left. The search walks over the counters of the contexts with such
 * arenas, so a search that found nothing is not repeated for a while. */
#define RECLAIM_AGAIN_NS 10000000u
static COLD bool reclaim(const struct site *site)
{
    static uint64_t again_ns; /* LOCK_TREE */
    uint64_t now = clock_ns(CLOCK_MONOTONIC_COARSE);
    bool any = false;
    if (now < again_ns)
        return false;
    for (uint32_t id = 1; id < load_relaxed(&n_arenas); id++) {
        struct arena_sums sums = arena_cache_sums((uint16_t)id);
        bool is_for_all = arenas[id].site->arena.by_label && !arenas[id].value[0];
        arenas[id].wanted = !arenas[id].region && !is_for_all && !memcmp(&arenas[id].site->arena, &site->arena, sizeof site->arena) &&
                            sums.alloc_objects == sums.free_objects;
        any |= arenas[id].wanted;
    }
    any = any && arenas_take_from_contexts();
    again_ns = any ? 0 : now + RECLAIM_AGAIN_NS;
    return any;
}

/* The number of the arena for a site and a label's value, which is made if there is none; 0: there is no room for
 * it. */
static uint16_t find_arena(const struct site *site, const char *value)
{
    uint32_t end = load_relaxed(&n_arenas), id;
    for (id = 1; id < end; id++)
        if (is_for(&arenas[id], site, value))
            return (uint16_t)id;
    id = find_unused(site);
    if (id > conf.max_arenas && reclaim(site))
        id = find_unused(site);
    if (id > conf.max_arenas)
        return 0;
    name_arena(id, site, value);
    return (uint16_t)id;
}

static bool make_table(void)
{
    if (!arenas && conf.max_arenas) {
        arenas = meta_map((conf.max_arenas + 1) * sizeof *arenas);
        store_relaxed(&n_arenas, 1);
    }
    return arenas;
}

/* The value of the label with this key; "" if there is none. */
static const char *value_of(const struct label_set *labels, const char *key)
{
    struct label_text label;
    for (unsigned i = 0; key && labels_each(labels, i, &label); i++)
        if (!strcmp(label.key, key))
            return label.value;
    return "";
}

/* Returns the arena for the label's value. If there is no room for it, returns the arena for all values. */
static uint16_t arena_for(const struct site *site, const struct label_set *labels)
{
    const char *value = value_of(labels, site->arena.by_label);
    uint16_t arena = make_table() ? find_arena(site, value) : 0;
    if (!arena && value[0] && arenas)
        arena = find_arena(site, "");
    if (!arena)
        arenas_count_refused();
    return arena;
}

void arenas_count_refused(void)
{
    atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
}

void arenas_count_refusals(uint16_t arena, uint64_t n)
{
    atomic_fetch_add_explicit(&arenas[arena].refusals, n, memory_order_relaxed);
}

uint16_t arenas_make_region(const struct site *site)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    uint32_t id = make_table() ? load_relaxed(&n_arenas) : 0;
    if (!id || id > conf.max_arenas)
        return 0;
    arenas[id].region = true;
    pagemap_keep_tables((uint16_t)id);
    arenas[id].extents.id = (uint16_t)id;
    name_arena(id, site, "");
    return (uint16_t)id;
}

uint16_t arenas_share(uint16_t arena)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    if (arena)
        arenas[arena].contexts++;
    return arena;
}

uint16_t arenas_join(const struct site *site, const struct label_set *labels, uint16_t inherited)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    uint16_t arena = inherited && !(arenas[inherited].site->arena.flags & JESPAN_ARENA_ALONE) ? inherited : 0;
    if (site->arena.flags & JESPAN_ARENA_NONE)
        arena = 0;
    else if (site->arena.flags & JESPAN_ARENA)
        arena = arena_for(site, labels);
    return arenas_share(arena);
}

void arenas_leave(uint16_t arena)
{
    jespan_assert(lock_is_held(LOCK_TREE) && (!arena || arenas[arena].contexts));
    if (arena)
        arenas[arena].contexts--;
}

uint32_t arenas_end(void)
{
    return load_acquire(&n_arenas);
}

/* Arenas that others made by extent_arena_create() do not count. */
uint16_t arenas_find(const void *p)
{
    uint16_t arena = pagemap_arena((uintptr_t)p);
    return arena < arenas_end() ? arena : 0;
}

struct arenas_stats arenas_stats(void)
{
    uint32_t end = arenas_end();
    return (struct arenas_stats){end ? end - 1 : 0, load_relaxed(&refused), arena_cache_fallbacks()};
}

bool arenas_is_home(uint16_t arena, uint32_t context)
{
    uint32_t homes[ARENA_HOMES];
    for (int i = 0; i < ARENA_HOMES; i++)
        homes[i] = load_relaxed(&arenas[arena].homes[i]);
    for (uint32_t id = tree_whole(context); id; id = id > CONTEXT_ID_UNSAMPLED ? contexts[id].parent : 0) {
        for (int i = 0; i < ARENA_HOMES; i++)
            if (homes[i] == id)
                return true;
        if (contexts[id].site->arena.flags & JESPAN_ARENA_REGION)
            return false;
    }
    return false;
}

bool arenas_is_regions(unsigned index)
{
    for (uint32_t id = 1, end = arenas_end(); id < end; id++)
        if (arenas[id].region && load_acquire(&arenas[id].state) == ARENA_READY && arenas[id].extents.index == index)
            return true;
    return false;
}

/* ---- jemalloc's arenas ---- */

void arenas_call(const char *name, const struct span_arena *a)
{
    size_t mib[3], length = 3;
    if (jespan_je_mallctlnametomib(name, mib, &length))
        return;
    mib[1] = a->extents.index;
    jespan_je_mallctlbymib(mib, length, NULL, NULL, NULL, 0);
}

static struct extent_policy policy_of(const struct span_arena *a)
{
    const struct jespan_arena *wanted = &a->site->arena;
    uint32_t flags = wanted->flags;
    bool decay = flags & JESPAN_ARENA_DECAY;
    return (struct extent_policy){
        .thp = flags & JESPAN_ARENA_HUGE ? EXTENT_THP_ALWAYS : flags & JESPAN_ARENA_NOHUGE ? EXTENT_THP_NEVER : EXTENT_THP_DEFAULT,
        .dontdump = flags & JESPAN_ARENA_DONTDUMP,
        .dontfork = flags & JESPAN_ARENA_DONTFORK,
        .locked = flags & JESPAN_ARENA_LOCKED,
        .guarded = flags & JESPAN_ARENA_GUARDED,
        .kept = a->region,
        .touchable = a->region || flags & JESPAN_ARENA_WIPED,
        .numa_node = flags & JESPAN_ARENA_NUMA ? wanted->numa_node : -1,
        .dirty_decay_ms = decay ? wanted->dirty_decay_ms : EXTENT_DECAY_DEFAULT,
        .muzzy_decay_ms = decay ? wanted->muzzy_decay_ms : EXTENT_DECAY_DEFAULT,
    };
}

#define RETRY_NS 1000000000u

static void make_it(struct span_arena *a, uint64_t now)
{
    int error = extent_arena_create(&a->extents);
    if (!error) {
        a->flags = (int)MALLOCX_ARENA(a->extents.index);
        store_release(&a->state, ARENA_READY);
        return;
    }
    if (!load_relaxed(&a->again_ns))
        arenas_count_refused();
    store_relaxed(&a->again_ns, now + RETRY_NS);
}

COLD bool arenas_make_ready(uint16_t arena)
{
    struct span_arena *a = &arenas[arena];
    uint64_t now = clock_ns(CLOCK_MONOTONIC_COARSE);
    if (now < load_relaxed(&a->again_ns) || extents_pause) /* inside jemalloc, this thread may hold what making an arena waits for */
        return false;
    lock(LOCK_ARENAS);
    if (load_relaxed(&a->state) == ARENA_NAMED && now >= load_relaxed(&a->again_ns)) {
        a->extents.id = arena;
        a->extents.policy = policy_of(a);
        make_it(a, now);
    }
    unlock(LOCK_ARENAS);
    return load_relaxed(&a->state) == ARENA_READY;
}
