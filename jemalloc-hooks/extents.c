/* SPDX-License-Identifier: BSD-2-Clause */
/* Extent hooks on jemalloc's automatic arenas. */
#include "extents.h"

#include <stdbool.h>

#include "../src/compiler.h"
#include "../src/headers.h"
#include "binding.h"

#define ARENAS_KNOWN 4096 /* jemalloc's arena index has 12 bits */

size_t extents_oversize_bytes = SIZE_MAX;
THREAD_LOCAL unsigned extents_pause;

static extent_hooks_t *default_hooks;
static _Atomic uint64_t mapped_bytes, committed_bytes;
static _Atomic bool watched[ARENAS_KNOWN];

static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static void *hook_alloc(extent_hooks_t *hooks, void *address, size_t size, size_t alignment, bool *zero, bool *commit,
                        unsigned arena)
{
    (void)hooks;
    void *p = default_hooks->alloc(default_hooks, address, size, alignment, zero, commit, arena);
    if (p) {
        add(&mapped_bytes, size);
        add(&committed_bytes, *commit ? size : 0);
    }
    return p;
}

/* Un-accounts before the range is given back, since another thread may get it at once; accounts again when it was
 * refused. */
static bool hook_dalloc(extent_hooks_t *hooks, void *address, size_t size, bool committed, unsigned arena)
{
    (void)hooks;
    if (!default_hooks->dalloc)
        return true;
    headers_release((uintptr_t)address, size);
    add(&mapped_bytes, -(uint64_t)size);
    add(&committed_bytes, committed ? -(uint64_t)size : 0);
    bool refused = default_hooks->dalloc(default_hooks, address, size, committed, arena);
    if (refused) {
        add(&mapped_bytes, size);
        add(&committed_bytes, committed ? size : 0);
    }
    return refused;
}

static void hook_destroy(extent_hooks_t *hooks, void *address, size_t size, bool committed, unsigned arena)
{
    (void)hooks;
    headers_release((uintptr_t)address, size);
    add(&mapped_bytes, -(uint64_t)size);
    add(&committed_bytes, committed ? -(uint64_t)size : 0);
    if (default_hooks->destroy)
        default_hooks->destroy(default_hooks, address, size, committed, arena);
}

static bool hook_commit(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length, unsigned arena)
{
    (void)hooks;
    bool refused = !default_hooks->commit || default_hooks->commit(default_hooks, address, size, offset, length, arena);
    if (!refused)
        add(&committed_bytes, length);
    return refused;
}

static bool hook_decommit(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length,
                          unsigned arena)
{
    (void)hooks;
    if (!default_hooks->decommit)
        return true;
    headers_release((uintptr_t)address + offset, length);
    bool refused = default_hooks->decommit(default_hooks, address, size, offset, length, arena);
    if (!refused)
        add(&committed_bytes, -(uint64_t)length);
    return refused;
}

static bool hook_purge_lazy(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length,
                            unsigned arena)
{
    (void)hooks;
    headers_release((uintptr_t)address + offset, length);
    return !default_hooks->purge_lazy ||
           default_hooks->purge_lazy(default_hooks, address, size, offset, length, arena);
}

static bool hook_purge_forced(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length,
                              unsigned arena)
{
    (void)hooks;
    headers_release((uintptr_t)address + offset, length);
    return !default_hooks->purge_forced ||
           default_hooks->purge_forced(default_hooks, address, size, offset, length, arena);
}

static bool hook_split(extent_hooks_t *hooks, void *address, size_t size, size_t size_a, size_t size_b, bool committed,
                       unsigned arena)
{
    (void)hooks;
    return !default_hooks->split ||
           default_hooks->split(default_hooks, address, size, size_a, size_b, committed, arena);
}

static bool hook_merge(extent_hooks_t *hooks, void *a, size_t size_a, void *b, size_t size_b, bool committed,
                       unsigned arena)
{
    (void)hooks;
    return !default_hooks->merge || default_hooks->merge(default_hooks, a, size_a, b, size_b, committed, arena);
}

static extent_hooks_t our_hooks = {
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

/* "arena.<i>.extent_hooks". Returns what was there, NULL when that cannot be asked. */
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

COLD void extents_watch_arena(unsigned index)
{
    if (!default_hooks || index >= ARENAS_KNOWN || load_relaxed(&watched[index]))
        return;
    store_relaxed(&watched[index], true);
    if (exchange_hooks(index, NULL) == default_hooks)
        exchange_hooks(index, &our_hooks);
}

static uint64_t arena_figure(const char *name, unsigned index)
{
    size_t mib[4], length = 4, value = 0, bytes = sizeof value;
    if (jespan_je_mallctlnametomib(name, mib, &length))
        return 0;
    mib[2] = index;
    return jespan_je_mallctlbymib(mib, length, &value, &bytes, NULL, 0) ? 0 : value;
}

/* Of an arena that was in use before its hooks came: what it has mapped counts too. */
static COLD void count_former_extents(unsigned index)
{
    uint64_t epoch = 1;
    jespan_je_mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    uint64_t mapped = arena_figure("stats.arenas.0.mapped", index);
    add(&mapped_bytes, mapped);
    add(&committed_bytes, mapped);
}

COLD void extents_watch_thread(void)
{
    unsigned index;
    size_t bytes = sizeof index;
    if (jespan_je_mallctl("thread.arena", &index, &bytes, NULL, 0) == 0)
        extents_watch_arena(index);
}

COLD void extents_watch_pointer(const void *p)
{
    unsigned index;
    size_t bytes = sizeof index;
    if (extents_pause)
        return;
    if (jespan_je_mallctl("arenas.lookup", &index, &bytes, &p, sizeof p) || index >= ARENAS_KNOWN ||
        load_relaxed(&watched[index]))
        return;
    extents_watch_arena(index);
    count_former_extents(index);
}

COLD void extents_boot(void)
{
    size_t bytes = sizeof extents_oversize_bytes;
    const char *percpu = "disabled";
    size_t percpu_bytes = sizeof percpu;
    default_hooks = exchange_hooks(0, NULL);
    if (jespan_je_mallctl("opt.oversize_threshold", &extents_oversize_bytes, &bytes, NULL, 0) ||
        !extents_oversize_bytes)
        extents_oversize_bytes = SIZE_MAX;
    /* With an arena for each CPU a thread uses any of them: look at every page's. */
    jespan_je_mallctl("opt.percpu_arena", &percpu, &percpu_bytes, NULL, 0);
    if (percpu[0] != 'd')
        extents_oversize_bytes = 0;
    /* Its own bookkeeping for this thread has made jemalloc map extents for arena 0 already. */
    extents_watch_arena(0);
    count_former_extents(0);
}

uint64_t extents_mapped_bytes(void)
{
    return load_relaxed(&mapped_bytes);
}

uint64_t extents_committed_bytes(void)
{
    return load_relaxed(&committed_bytes);
}
