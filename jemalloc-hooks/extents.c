/* SPDX-License-Identifier: BSD-2-Clause */
/* Extent hooks for jemalloc's automatic arenas. */
#include "base/figures.h"
#include "extents.h"

#include <errno.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/meta.h"
#include "heap/pagemap.h"

#define ARENAS_KNOWN 4096 /* jemalloc's arena index has 12 bits */
#define WATCH_WAIT_NS 1000000000u
#define MAX_READINGS 20 /* of jemalloc's figures for one arena */

size_t extents_oversize_bytes = SIZE_MAX;
THREAD_LOCAL unsigned extents_pause;
bool extents_retain;

struct extent_figures extents_heap;
FIGURE_ROW(figure_mapped_bytes, "spans.stats.mapped_bytes", extents_heap.mapped_bytes, FIGURE_SIGNED);
FIGURE_ROW(figure_committed_bytes, "spans.stats.committed_bytes", extents_heap.committed_bytes, FIGURE_SIGNED);
FIGURE_ROW(figure_peak_mapped_bytes, "spans.stats.peak_mapped_bytes", extents_heap.peak_mapped_bytes, FIGURE_SIGNED);
FIGURE_ROW(figure_purged_lazy_bytes, "spans.stats.purged_lazy_bytes", extents_heap.purged_lazy_bytes, FIGURE_SIGNED);
FIGURE_ROW(figure_purged_forced_bytes, "spans.stats.purged_forced_bytes", extents_heap.purged_forced_bytes, FIGURE_SIGNED);
FIGURE_ROW(figure_extents, "spans.stats.extents", extents_heap.extents, FIGURE_SIGNED);
_Atomic uint32_t extents_high_water_events;

static extent_hooks_t *default_hooks;
static bool by_cpu; /* opt.percpu_arena */
static _Atomic bool strangers; /* see extents_note_stranger() */
static _Atomic uint64_t told_peak_bytes;
static _Atomic uint32_t high_water_watchers;

/* One thread installs an arena's hooks and counts what it mapped before. Threads that want to use it meanwhile wait. */
enum { NOT_WATCHED, BEING_WATCHED, WATCHED };
static _Atomic uint32_t watch_state[ARENAS_KNOWN];
static _Atomic uint64_t since_watched_bytes[ARENAS_KNOWN]; /* mapped through the hooks, less unmapped */

static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* ---- The peak ---- */

static COLD void tell_high_water(void)
{
    atomic_fetch_add_explicit(&extents_high_water_events, 1, memory_order_release);
    if (load_relaxed(&high_water_watchers))
        futex_wake_all(&extents_high_water_events);
}

/* If several threads see it at once, one of them reports it. */
static void note_peak(uint64_t mapped)
{
    uint64_t told = load_relaxed(&told_peak_bytes);
    if (mapped > told && mapped - told > HIGH_WATER_STEP(told) &&
        atomic_compare_exchange_strong(&told_peak_bytes, &told, mapped))
        tell_high_water();
}

COLD void extents_watch_high_water(bool on)
{
    atomic_fetch_add(&high_water_watchers, on ? 1 : (uint32_t)-1);
}

void extents_count(struct extent_figures *figures, uint64_t mapped, uint64_t committed, uint64_t extents)
{
    uint64_t now = atomic_fetch_add_explicit(&figures->mapped_bytes, mapped, memory_order_relaxed) + mapped;
    uint64_t peak = load_relaxed(&figures->peak_mapped_bytes);
    add(&figures->committed_bytes, committed);
    add(&figures->extents, extents);
    while (now > peak && !atomic_compare_exchange_weak(&figures->peak_mapped_bytes, &peak, now))
        ;
    if (figures == &extents_heap)
        note_peak(now);
}

/* ---- The hooks ---- */

static void count_of_arena(unsigned arena, uint64_t mapped, uint64_t committed, uint64_t extents)
{
    if (arena < ARENAS_KNOWN)
        add(&since_watched_bytes[arena], mapped);
    extents_count(&extents_heap, mapped, committed, extents);
}

static void bound_extent(const void *start, size_t bytes)
{
    pagemap_bound((uintptr_t)start);
    pagemap_bound((uintptr_t)start + bytes);
}

static void *hook_alloc(extent_hooks_t *hooks, void *address, size_t size, size_t alignment, bool *zero, bool *commit,
                        unsigned arena)
{
    (void)hooks;
    void *p = default_hooks->alloc(default_hooks, address, size, alignment, zero, commit, arena);
    if (p) {
        pagemap_unbound_all((uintptr_t)p, (uintptr_t)p + size);
        bound_extent(p, size);
        count_of_arena(arena, size, *commit ? size : 0, 1);
    }
    return p;
}

/* Uncounts the range before it is unmapped, since another thread may get it at once. Counts it again where the default
 * hook refuses, as it always does with opt.retain. */
static bool hook_dalloc(extent_hooks_t *hooks, void *address, size_t size, bool committed, unsigned arena)
{
    (void)hooks;
    if (extents_retain || !default_hooks->dalloc)
        return true;
    pagemap_release((uintptr_t)address, size);
    pagemap_unbound_all((uintptr_t)address, (uintptr_t)address + size);
    count_of_arena(arena, -(uint64_t)size, committed ? -(uint64_t)size : 0, (uint64_t)-1);
    bool refused = default_hooks->dalloc(default_hooks, address, size, committed, arena);
    if (refused) {
        bound_extent(address, size);
        count_of_arena(arena, size, committed ? size : 0, 1);
    }
    return refused;
}

static void hook_destroy(extent_hooks_t *hooks, void *address, size_t size, bool committed, unsigned arena)
{
    (void)hooks;
    pagemap_release((uintptr_t)address, size);
    pagemap_unbound_all((uintptr_t)address, (uintptr_t)address + size);
    count_of_arena(arena, -(uint64_t)size, committed ? -(uint64_t)size : 0, (uint64_t)-1);
    if (default_hooks->destroy)
        default_hooks->destroy(default_hooks, address, size, committed, arena);
}

static bool hook_commit(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length, unsigned arena)
{
    (void)hooks;
    bool refused = !default_hooks->commit || default_hooks->commit(default_hooks, address, size, offset, length, arena);
    if (!refused)
        add(&extents_heap.committed_bytes, length);
    return refused;
}

static bool hook_decommit(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length,
                          unsigned arena)
{
    (void)hooks;
    if (!default_hooks->decommit)
        return true;
    pagemap_release((uintptr_t)address + offset, length);
    bool refused = default_hooks->decommit(default_hooks, address, size, offset, length, arena);
    if (!refused)
        add(&extents_heap.committed_bytes, -(uint64_t)length);
    return refused;
}

static bool hook_purge_lazy(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length,
                            unsigned arena)
{
    (void)hooks;
    pagemap_release((uintptr_t)address + offset, length);
    bool refused = !default_hooks->purge_lazy ||
                   default_hooks->purge_lazy(default_hooks, address, size, offset, length, arena);
    if (!refused)
        add(&extents_heap.purged_lazy_bytes, length);
    return refused;
}

static bool hook_purge_forced(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length,
                              unsigned arena)
{
    (void)hooks;
    pagemap_release((uintptr_t)address + offset, length);
    bool refused = !default_hooks->purge_forced ||
                   default_hooks->purge_forced(default_hooks, address, size, offset, length, arena);
    if (!refused)
        add(&extents_heap.purged_forced_bytes, length);
    return refused;
}

static bool hook_split(extent_hooks_t *hooks, void *address, size_t size, size_t size_a, size_t size_b, bool committed,
                       unsigned arena)
{
    (void)hooks;
    bool refused = !default_hooks->split ||
                   default_hooks->split(default_hooks, address, size, size_a, size_b, committed, arena);
    if (!refused) {
        bound_extent(address, size_a);
        pagemap_bound((uintptr_t)address + size);
        add(&extents_heap.extents, 1);
    }
    return refused;
}

static bool hook_merge(extent_hooks_t *hooks, void *a, size_t size_a, void *b, size_t size_b, bool committed,
                       unsigned arena)
{
    (void)hooks;
    bool refused =
        !default_hooks->merge || default_hooks->merge(default_hooks, a, size_a, b, size_b, committed, arena);
    if (!refused) {
        bound_extent(a, size_a + size_b);
        pagemap_unbound((uintptr_t)b);
        add(&extents_heap.extents, (uint64_t)-1);
    }
    return refused;
}

extent_hooks_t extents_hooks = {
    .alloc = hook_alloc,
    .dalloc = hook_dalloc,
    .destroy = hook_destroy,
    .commit = hook_commit,
    .decommit = hook_decommit,
    .purge_lazy = hook_purge_lazy,
    .purge_forced = hook_purge_forced,
    .split = hook_split,
    .merge = hook_merge,
};

/* Asks jemalloc's own hook, with a page of ours. */
bool extents_decommits(void)
{
    static _Atomic int known; /* 1: no, 2: yes */
    if (load_relaxed(&known))
        return load_relaxed(&known) == 2;
    void *page = default_hooks && default_hooks->decommit ? meta_map(HEADER_PAGE_BYTES) : NULL;
    bool can = page && !default_hooks->decommit(default_hooks, page, HEADER_PAGE_BYTES, 0, HEADER_PAGE_BYTES, 0);
    meta_unmap(page, HEADER_PAGE_BYTES);
    store_relaxed(&known, can ? 2 : 1);
    return can;
}

/* Reads and sets "arena.<i>.extent_hooks". Returns the hooks before, or NULL where they cannot be read. */
static extent_hooks_t *exchange_hooks(unsigned index, extent_hooks_t *new_hooks)
{
    size_t mib[3], length = 3, bytes = sizeof(extent_hooks_t *);
    extent_hooks_t *old = NULL;
    if (jespan_je_mallctlnametomib("arena.0.extent_hooks", mib, &length))
        return NULL;
    mib[1] = index;
    if (jespan_je_mallctlbymib(mib, length, &old, &bytes, new_hooks ? &new_hooks : NULL, new_hooks ? bytes : 0))
        return NULL;
    return old;
}

static uint64_t arena_figure(const char *name, unsigned index)
{
    size_t mib[4], length = 4, value = 0, bytes = sizeof value;
    if (jespan_je_mallctlnametomib(name, mib, &length))
        return 0;
    mib[2] = index;
    return jespan_je_mallctlbymib(mib, length, &value, &bytes, NULL, 0) ? 0 : value;
}

static uint64_t jemallocs_count(unsigned index)
{
    uint64_t epoch = 1;
    jespan_je_mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    uint64_t pages = arena_figure("stats.arenas.0.pactive", index) + arena_figure("stats.arenas.0.pdirty", index) +
                     arena_figure("stats.arenas.0.pmuzzy", index);
    return pages * binding_page_bytes() + arena_figure("stats.arenas.0.retained", index);
}

static uint64_t former_bytes(unsigned index)
{
    uint64_t since = load_relaxed(&since_watched_bytes[index]);
    return jemallocs_count(index) - since;
}

/* Counts what an arena mapped before it got the hooks. With opt.percpu_arena other threads may map meanwhile, so the
 * figure is read until it is the same twice. Mappings that take longer than that are missed. jemalloc walks over all
 * arenas for each reading. */
static COLD void count_former_extents(unsigned index)
{
    uint64_t former = former_bytes(index), last = ~former;
    for (int i = 0; by_cpu && former != last && i < MAX_READINGS; i++) {
        last = former;
        former = former_bytes(index);
    }
    extents_count(&extents_heap, former, former, former ? 1 : 0);
}

/* Waits once, for a limited time, since in a forked child the other thread does not exist. */
static COLD void wait_for_other(unsigned index)
{
    uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + WATCH_WAIT_NS;
    while (load_acquire(&watch_state[index]) == BEING_WATCHED)
        if (!futex_wait(&watch_state[index], BEING_WATCHED, until_ns))
            store_release(&watch_state[index], WATCHED);
}

/* Threads install hooks on an arena before they use it. So an arena without hooks has mapped nothing, unless there are
 * strangers: threads without a block. A stranger that comes too late to be seen here finds the hooks. */
static bool is_unused(bool beforehand)
{
    atomic_thread_fence(memory_order_seq_cst);
    return beforehand && !by_cpu && !load_relaxed(&strangers);
}

void extents_note_stranger(void)
{
    if (load_relaxed(&strangers))
        return;
    store_relaxed(&strangers, true);
    atomic_thread_fence(memory_order_seq_cst);
}

/* Setting the hooks of an automatic arena that does not exist creates the arena. jemalloc then maps the arena's own
 * data with the first hooks that it got. So the arena gets the default hooks first. */
static COLD void install_hooks(unsigned index, bool beforehand)
{
    extent_hooks_t *hooks = exchange_hooks(index, NULL);
    if (hooks == default_hooks) {
        exchange_hooks(index, default_hooks);
        exchange_hooks(index, &extents_hooks);
        if (!is_unused(beforehand))
            count_former_extents(index);
    }
    if (!hooks)
        extents_note_stranger(); /* the arena does not exist, but jemalloc may create it now */
    store_release(&watch_state[index], hooks ? WATCHED : NOT_WATCHED);
    futex_wake_all(&watch_state[index]);
}

static COLD void watch(unsigned index, bool beforehand)
{
    uint32_t state = NOT_WATCHED;
    if (!default_hooks || index >= ARENAS_KNOWN || load_acquire(&watch_state[index]) == WATCHED)
        return;
    if (atomic_compare_exchange_strong(&watch_state[index], &state, BEING_WATCHED))
        install_hooks(index, beforehand);
    else if (state == BEING_WATCHED)
        wait_for_other(index);
}

COLD void extents_watch_arena(unsigned index)
{
    if (!extents_pause)
        watch(index, true);
}

COLD void extents_leave_arena(unsigned index)
{
    if (index < ARENAS_KNOWN)
        store_relaxed(&watch_state[index], WATCHED);
}

COLD void extents_watch_thread(void)
{
    unsigned index;
    size_t bytes = sizeof index;
    if (jespan_je_mallctl("thread.arena", &index, &bytes, NULL, 0) == 0)
        watch(index, true);
}

COLD void extents_watch_pointer(const void *p)
{
    unsigned index;
    size_t bytes = sizeof index;
    if (extents_pause)
        return;
    if (!jespan_je_mallctl("arenas.lookup", &index, &bytes, &p, sizeof p))
        watch(index, false);
}

COLD void extents_boot(void)
{
    size_t bytes = sizeof extents_oversize_bytes;
    const char *percpu = "disabled";
    size_t percpu_bytes = sizeof percpu;
    size_t retain_bytes = sizeof extents_retain;
    default_hooks = exchange_hooks(0, NULL);
    jespan_je_mallctl("opt.retain", &extents_retain, &retain_bytes, NULL, 0);
    if (jespan_je_mallctl("opt.oversize_threshold", &extents_oversize_bytes, &bytes, NULL, 0) ||
        !extents_oversize_bytes)
        extents_oversize_bytes = SIZE_MAX;
    /* With an arena for each CPU, a thread uses any of them, so the arena of each object is looked up. */
    jespan_je_mallctl("opt.percpu_arena", &percpu, &percpu_bytes, NULL, 0);
    by_cpu = percpu[0] != 'd';
    if (by_cpu)
        extents_oversize_bytes = 0;
    /* jemalloc has mapped extents for arena 0 already, for its own data of this thread. */
    watch(0, false);
}
