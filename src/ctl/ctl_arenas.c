/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of span arenas: spans.arenas.*, spans.arenas.<i>.*, spans.<id>.arena.
 *
 * Figures of our arena caches and hooks are read live. jemalloc's statistics are as of the last write to spans.epoch
 * or to jemalloc's own `epoch`. They are 0 for an arena that has served no allocation yet. A jemalloc that was built
 * without statistics has none, and the answer is ENOENT.
 */
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "ctl/ctl.h"
#include "heap/pagemap.h"
#include "jemalloc-hooks/extents.h"
#include "jemalloc/binding.h"
#include "policy/arena_cache.h"
#include "policy/arenas.h"
#include "span/tree.h"

static struct span_arena *find(uint32_t id)
{
    return id && id < arenas_end() ? &arenas[id] : NULL;
}

static bool is_ready(const struct span_arena *a)
{
    return load_acquire(&a->state) == ARENA_READY;
}

void ctl_refresh_jemalloc(void)
{
    uint64_t any = 1;
    if (arenas_end() <= 1)
        return;
    extents_pause++;
    jespan_je_mallctl("epoch", NULL, NULL, &any, sizeof any);
    extents_pause--;
}

/* ---- What a span arena is for ---- */

static int arena_name(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    const struct span_arena *a = find(id);
    if (!a)
        return ENOENT;
    lock(LOCK_TREE);
    const char *name = a->site->name;
    unlock(LOCK_TREE);
    return ctl_read(call, &name, sizeof name);
}

/* The value of the label that the arena is for. The arena may be given to another value later, so the caller gets a
 * copy, with its NUL, cut to the caller's buffer. */
static int arena_value(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    const struct span_arena *a = find(id);
    char value[sizeof a->value];
    if (call->new_value || call->new_bytes)
        return EPERM;
    if (!a)
        return ENOENT;
    if (!call->old_bytes)
        return EINVAL;
    lock(LOCK_TREE);
    size_t bytes = strlen(strcpy(value, a->value)) + 1, capacity = call->old ? *call->old_bytes : bytes;
    unlock(LOCK_TREE);
    *call->old_bytes = capacity < bytes ? capacity : bytes;
    if (call->old)
        memcpy(call->old, value, *call->old_bytes);
    return 0;
}

/* jemalloc's number of the arena. */
static int arena_index(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    const struct span_arena *a = find(id);
    return a && is_ready(a) ? ctl_read_u64(call, a->extents.index) : ENOENT;
}

static int arena_contexts(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    const struct span_arena *a = find(id);
    if (!a)
        return ENOENT;
    lock(LOCK_TREE);
    uint64_t value = a->contexts;
    unlock(LOCK_TREE);
    return ctl_read_u64(call, value);
}

/* ---- Figures of our arena caches and hooks ---- */

enum { INUSE_OBJECTS = sizeof(struct arena_sums), INUSE_BYTES };

static int arena_sum(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    if (!find(id))
        return ENOENT;
    struct arena_sums sums = arena_cache_own_sums((uint16_t)id);
    if (self->offset == INUSE_OBJECTS)
        return ctl_read_u64(call, sums.alloc_objects - sums.free_objects);
    if (self->offset == INUSE_BYTES)
        return ctl_read_u64(call, sums.alloc_bytes - sums.free_bytes);
    return ctl_read_u64(call, *(const uint64_t *)((const char *)&sums + self->offset));
}

static int arena_extents(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    struct span_arena *a = find(id);
    return a ? ctl_read_u64(call, load_relaxed((_Atomic uint64_t *)((char *)&a->extents + self->offset))) : ENOENT;
}

static int arena_refusals(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    return find(id) ? ctl_read_u64(call, load_relaxed(&find(id)->refusals)) : ENOENT;
}

static int arena_policy_errors(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    struct span_arena *a = find(id);
    return a ? ctl_read_u64(call, load_relaxed(&a->extents.policy_errors) - load_relaxed(&a->before.policy_errors)) : ENOENT;
}

/* The most bytes of pages that may have memory. 0: no limit. A lower limit takes no memory away. */
static int arena_limit(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    const struct ctl_call read_only = {call->old, call->old_bytes, NULL, 0};
    struct span_arena *a = find(id);
    uint64_t bytes;
    int error = arena_extents(self, id, &read_only);
    if (error || (!call->new_value && !call->new_bytes))
        return error;
    error = ctl_write(call, &bytes, sizeof bytes);
    if (!error)
        store_relaxed(&a->extents.limit_bytes, bytes);
    return error;
}

/* ---- jemalloc's statistics ---- */

static int ask_jemalloc(const struct span_arena *a, const char *name, uint64_t *value)
{
    size_t mib[8], length = sizeof mib / sizeof *mib, bytes, figure = 0;
    bytes = sizeof figure;
    *value = 0;
    if (!is_ready(a))
        return 0;
    int error = jespan_je_mallctlnametomib(name, mib, &length);
    if (!error) {
        mib[2] = a->extents.index;
        error = jespan_je_mallctlbymib(mib, length, &figure, &bytes, NULL, 0);
    }
    *value = figure;
    return error;
}

enum jemalloc_figure { ACTIVE, DIRTY, MUZZY, RESIDENT, RETAINED, CACHED, FRAGMENTATION };

static int ask_pages(const struct span_arena *a, const char *name, uint64_t *bytes)
{
    int error = ask_jemalloc(a, name, bytes);
    *bytes *= binding_page_bytes();
    return error;
}

static uint64_t live_bytes(const struct span_arena *a)
{
    struct arena_sums sums = arena_cache_sums((uint16_t)(a - arenas));
    return sums.alloc_bytes - sums.free_bytes;
}

/* jemalloc counts the objects in the threads' caches as allocated. */
static int ask_cached(const struct span_arena *a, uint64_t *bytes)
{
    uint64_t small, large, live = live_bytes(a);
    int error = ask_jemalloc(a, "stats.arenas.0.small.allocated", &small);
    if (!error)
        error = ask_jemalloc(a, "stats.arenas.0.large.allocated", &large);
    *bytes = error || small + large < live ? 0 : small + large - live;
    return error;
}

/* The part of the active pages that holds no live object, in millionths. */
static int ask_fragmentation(const struct span_arena *a, uint64_t *millionths)
{
    uint64_t active, live = live_bytes(a);
    int error = ask_pages(a, "stats.arenas.0.pactive", &active);
    *millionths = error || active <= live ? 0 : (active - live) * 1000000 / active;
    return error;
}

static int ask_figure(const struct span_arena *a, size_t figure, uint64_t *value)
{
    switch ((enum jemalloc_figure)figure) {
    case ACTIVE:
        return ask_pages(a, "stats.arenas.0.pactive", value);
    case DIRTY:
        return ask_pages(a, "stats.arenas.0.pdirty", value);
    case MUZZY:
        return ask_pages(a, "stats.arenas.0.pmuzzy", value);
    case RESIDENT:
        return ask_jemalloc(a, "stats.arenas.0.resident", value);
    case RETAINED:
        return ask_jemalloc(a, "stats.arenas.0.retained", value);
    case CACHED:
        return ask_cached(a, value);
    default:
        return ask_fragmentation(a, value);
    }
}

static int arena_jemalloc(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    const struct span_arena *a = find(id);
    uint64_t value;
    int error = a ? ask_figure(a, self->offset, &value) : ENOENT;
    return error ? error : ctl_read_u64(call, value);
}

/* ---- The tables ---- */

static int arenas_count(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    return ctl_read_u64(call, arenas_stats().arenas);
}

int ctl_context_arena(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    lock(LOCK_TREE);
    bool live = tree_is_live(id) && !tree_is_part(contexts[id].kind);
    uint64_t value = live ? load_relaxed(&context_heads[id].arena) : 0;
    unlock(LOCK_TREE);
    return live ? ctl_read_u64(call, value) : ENOENT;
}

const struct ctl_name ctl_arenas_names[] = {{"count", arenas_count, 0}, {0}};

#define SUM(name) {#name, arena_sum, offsetof(struct arena_sums, name)}
#define EXTENTS(name, member) {#name, arena_extents, offsetof(struct extent_arena, member)}
static const struct ctl_name arena_names[] = {
    {"name", arena_name, 0},
    {"value", arena_value, 0},
    {"index", arena_index, 0},
    {"contexts", arena_contexts, 0},
    {"inuse_objects", arena_sum, INUSE_OBJECTS},
    {"inuse_bytes", arena_sum, INUSE_BYTES},
    SUM(alloc_objects),
    SUM(alloc_bytes),
    SUM(free_objects),
    SUM(free_bytes),
    {"cached_bytes", arena_jemalloc, CACHED},
    {"active_bytes", arena_jemalloc, ACTIVE},
    {"dirty_bytes", arena_jemalloc, DIRTY},
    {"muzzy_bytes", arena_jemalloc, MUZZY},
    {"retained_bytes", arena_jemalloc, RETAINED},
    {"resident_bytes", arena_jemalloc, RESIDENT},
    {"fragmentation_ppm", arena_jemalloc, FRAGMENTATION},
    EXTENTS(mapped_bytes, figures.mapped_bytes),
    EXTENTS(committed_bytes, figures.committed_bytes),
    EXTENTS(peak_mapped_bytes, figures.peak_mapped_bytes),
    EXTENTS(extents, figures.extents),
    {"limit_bytes", arena_limit, offsetof(struct extent_arena, limit_bytes)},
    {"refusals", arena_refusals, 0},
    {"policy_errors", arena_policy_errors, 0},
    {0},
};
const struct ctl_group ctl_arenas_groups[] = {{NULL, arena_names, NULL}, {0}};
