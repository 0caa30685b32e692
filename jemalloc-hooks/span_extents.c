/* SPDX-License-Identifier: BSD-2-Clause */
/* The pages of one span arena. */
#include "span_extents.h"

#include <errno.h>
#include <sys/mman.h>

#include "base/die.h"
#include "base/lock.h"
#include "heap/pagemap.h"
#include "span_policy.h"

#define PAGE HEADER_PAGE_BYTES

static struct extent_arena *not_forked; /* LOCK_ARENAS */

static struct extent_arena *arena_of(extent_hooks_t *hooks)
{
    return (struct extent_arena *)hooks;
}

/* ---- Ranges come and go ---- */

/* Counts bytes as committed, if the limit allows that. It does so before jemalloc has the pages, since other threads do
 * the same at the same time. */
static bool take_from_limit(struct extent_arena *a, size_t bytes)
{
    uint64_t committed = load_relaxed(&a->figures.committed_bytes);
    do {
        uint64_t limit = load_relaxed(&a->limit_bytes);
        if (limit && (committed > limit || bytes > limit - committed)) {
            atomic_fetch_add_explicit(&a->refusals, 1, memory_order_relaxed);
            return false;
        }
    } while (!atomic_compare_exchange_weak(&a->figures.committed_bytes, &committed, committed + bytes));
    return true;
}

/* Whether jemalloc is told that pages are decommitted while they are only purged. */
static bool only_purges(const struct extent_arena *a)
{
    return a->policy.touchable || a->policy.guarded || !extents_decommits();
}

static void apply_policy(struct extent_arena *a, void *start, size_t bytes)
{
    if (span_policy_apply(&a->policy, start, bytes))
        atomic_fetch_add_explicit(&a->policy_errors, 1, memory_order_relaxed);
}

/* Unmaps a part of a range that extents_hooks mapped. */
static void cut_off(uintptr_t start, size_t bytes, unsigned index)
{
    if (bytes) {
        extents_count(&extents_heap, 0, 0, 1); /* for a moment there is one extent more */
        extents_hooks.destroy(&extents_hooks, (void *)start, bytes, true, index);
    }
}

/* Maps a range between two guard pages, which no arena owns and nobody can access. */
static void *map_guarded(struct extent_arena *a, size_t bytes, size_t alignment, bool *zero, bool *commit,
                         unsigned index)
{
    size_t slack = alignment - PAGE, whole = bytes + 2 * PAGE, mapped = whole + slack;
    *commit = true;
    if (mapped < bytes)
        return NULL;
    uintptr_t p = (uintptr_t)extents_hooks.alloc(&extents_hooks, NULL, mapped, PAGE, zero, commit, index);
    if (!p)
        return NULL;
    uintptr_t start = (p + PAGE + slack) & ~(uintptr_t)(alignment - 1), before = start - PAGE, after = start + bytes;
    cut_off(p, before - p, index);
    cut_off(after + PAGE, p + slack - before, index);
    if (pagemap_claim(before, whole, 0)) {
        extents_hooks.destroy(&extents_hooks, (void *)before, whole, true, index);
        return NULL;
    }
    if (mprotect((void *)before, PAGE, PROT_NONE) || mprotect((void *)after, PAGE, PROT_NONE))
        atomic_fetch_add_explicit(&a->policy_errors, 1, memory_order_relaxed);
    return (void *)start;
}

/* Unmaps a range, or the part of it that is left, with the guard pages beside it. */
static void unmap(const struct extent_arena *a, void *address, size_t bytes, bool committed, unsigned index)
{
    uintptr_t start = (uintptr_t)address, end = start + bytes;
    if (a->policy.guarded) {
        start -= pagemap_is_guard(start - PAGE) ? PAGE : 0;
        end += pagemap_is_guard(end) ? PAGE : 0;
    }
    pagemap_disown(start, end - start);
    extents_hooks.destroy(&extents_hooks, (void *)start, end - start, committed, index);
}

/* ---- The hooks ---- */

/* The arena whose limit has just refused to commit a range on this thread. jemalloc keeps that range, and then asks for one more, which
 * the limit would refuse too. So each refused request would map addresses and keep them. Where the next request has another reason,
 * it is refused once, and asked for again (alloc_after_flush()). */
static THREAD_LOCAL const struct extent_arena *refused_by;

static bool was_just_refused(const struct extent_arena *a)
{
    bool was = refused_by == a;
    refused_by = NULL;
    return was;
}

static void *span_alloc(extent_hooks_t *hooks, void *address, size_t size, size_t alignment, bool *zero, bool *commit,
                        unsigned index)
{
    struct extent_arena *a = arena_of(hooks);
    if (a->policy.guarded && address)
        return NULL; /* jemalloc then asks without an address */
    bool is_used = *commit, purges = only_purges(a);
    if (is_used ? !take_from_limit(a, size) : was_just_refused(a))
        return NULL;
    *commit = is_used || purges;
    void *p = a->policy.guarded ? map_guarded(a, size, alignment, zero, commit, index)
                                : extents_hooks.alloc(&extents_hooks, address, size, alignment, zero, commit, index);
    if (p && pagemap_claim((uintptr_t)p, size, a->id)) {
        unmap(a, p, size, *commit, index);
        p = NULL;
    }
    if (!p) {
        extents_count(&a->figures, 0, is_used ? -(uint64_t)size : 0, 0);
        return NULL;
    }
    if (!is_used && *commit) { /* jemalloc is told that it is not committed */
        extents_count(&extents_heap, 0, -(uint64_t)size, 0);
        *commit = false;
    }
    extents_count(&a->figures, size, 0, 1);
    extent_arena_note_range(a, (uintptr_t)p, size);
    apply_policy(a, p, size);
    return p;
}

static bool span_dalloc(extent_hooks_t *hooks, void *address, size_t size, bool committed, unsigned index)
{
    struct extent_arena *a = arena_of(hooks);
    pagemap_disown((uintptr_t)address, size);
    extents_count(&a->figures, -(uint64_t)size, committed ? -(uint64_t)size : 0, (uint64_t)-1);
    bool refused = extents_hooks.dalloc(&extents_hooks, address, size, committed, index);
    if (refused) {
        int error = pagemap_claim((uintptr_t)address, size, a->id);
        jespan_assert(!error); /* the page map has leaves for this range */
        (void)error;
        extents_count(&a->figures, size, committed ? size : 0, 1);
    }
    return refused;
}

static void span_destroy(extent_hooks_t *hooks, void *address, size_t size, bool committed, unsigned index)
{
    struct extent_arena *a = arena_of(hooks);
    extents_count(&a->figures, -(uint64_t)size, committed ? -(uint64_t)size : 0, (uint64_t)-1);
    unmap(a, address, size, committed, index);
}

/* Where the system does not overcommit, the range may have new pages, which need the policy. */
static bool span_commit(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length, unsigned index)
{
    struct extent_arena *a = arena_of(hooks);
    if (!take_from_limit(a, length)) {
        refused_by = a;
        return true;
    }
    if (only_purges(a)) {
        extents_count(&extents_heap, 0, length, 0);
        return false;
    }
    bool refused = extents_hooks.commit(&extents_hooks, address, size, offset, length, index);
    if (refused)
        extents_count(&a->figures, 0, -(uint64_t)length, 0);
    else
        apply_policy(a, (char *)address + offset, length);
    return refused;
}

/* The pages read as zeroes when they are committed again. */
static bool purge_only(struct extent_arena *a, void *address, size_t size, size_t offset, size_t length, unsigned index)
{
    if (extents_hooks.purge_forced(&extents_hooks, address, size, offset, length, index))
        return true;
    atomic_fetch_add(&a->figures.purged_forced_bytes, length);
    extents_count(&extents_heap, 0, -(uint64_t)length, 0);
    return false;
}

static bool span_decommit(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length,
                          unsigned index)
{
    struct extent_arena *a = arena_of(hooks);
    bool refused = only_purges(a) ? purge_only(a, address, size, offset, length, index)
                               : extents_hooks.decommit(&extents_hooks, address, size, offset, length, index);
    if (!refused)
        extents_count(&a->figures, 0, -(uint64_t)length, 0);
    return refused;
}

static bool span_purge_lazy(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length,
                            unsigned index)
{
    bool refused = extents_hooks.purge_lazy(&extents_hooks, address, size, offset, length, index);
    if (!refused)
        atomic_fetch_add(&arena_of(hooks)->figures.purged_lazy_bytes, length);
    return refused;
}

static bool span_purge_forced(extent_hooks_t *hooks, void *address, size_t size, size_t offset, size_t length,
                              unsigned index)
{
    bool refused = extents_hooks.purge_forced(&extents_hooks, address, size, offset, length, index);
    if (!refused)
        atomic_fetch_add(&arena_of(hooks)->figures.purged_forced_bytes, length);
    return refused;
}

static bool span_split(extent_hooks_t *hooks, void *address, size_t size, size_t size_a, size_t size_b, bool committed,
                       unsigned index)
{
    bool refused = extents_hooks.split(&extents_hooks, address, size, size_a, size_b, committed, index);
    if (!refused)
        extents_count(&arena_of(hooks)->figures, 0, 0, 1);
    return refused;
}

static bool span_merge(extent_hooks_t *hooks, void *a, size_t size_a, void *b, size_t size_b, bool committed,
                       unsigned index)
{
    bool refused = extents_hooks.merge(&extents_hooks, a, size_a, b, size_b, committed, index);
    if (!refused)
        extents_count(&arena_of(hooks)->figures, 0, 0, (uint64_t)-1);
    return refused;
}

/* Where a hook is NULL, jemalloc acts as if it had refused. */
static extent_hooks_t hooks_for(const struct extent_policy *policy)
{
    return (extent_hooks_t){
        .alloc = span_alloc,
        .dalloc = !extents_retain && !policy->guarded && !policy->kept ? span_dalloc : NULL,
        .destroy = span_destroy,
        .commit = span_commit,
        .decommit = policy->locked ? NULL : span_decommit,
        .purge_lazy = policy->locked ? NULL : span_purge_lazy,
        .purge_forced = policy->locked ? NULL : span_purge_forced,
        .split = span_split,
        .merge = span_merge,
    };
}

/* ---- The arena ---- */

/* jemalloc's arena_config_t. */
struct arena_config {
    extent_hooks_t *hooks;
    bool metadata_use_hooks;
};

static int create(struct extent_arena *a)
{
    struct arena_config config = {.hooks = &a->hooks, .metadata_use_hooks = false};
    size_t bytes = sizeof a->index;
    int error = jespan_je_mallctl("experimental.arenas_create_ext", &a->index, &bytes, &config, sizeof config);
    return error == ENOENT || error == EINVAL ? -ENOTSUP : -error;
}

static int set_decay(unsigned index, const char *name, int64_t ms)
{
    size_t mib[3], length = 3;
    ssize_t value = (ssize_t)ms;
    if (ms == EXTENT_DECAY_DEFAULT)
        return 0;
    if (jespan_je_mallctlnametomib(name, mib, &length))
        return -ENOTSUP;
    mib[1] = index;
    return jespan_je_mallctlbymib(mib, length, NULL, NULL, &value, sizeof value) ? -EINVAL : 0;
}

static void destroy(unsigned index)
{
    size_t mib[3], length = 3;
    if (jespan_je_mallctlnametomib("arena.0.destroy", mib, &length))
        return;
    mib[1] = index;
    jespan_je_mallctlbymib(mib, length, NULL, NULL, NULL, 0);
}

/* Freed locked pages are never purged, so they stay dirty for ever. */
static int set_decays(const struct extent_arena *a)
{
    int64_t dirty = a->policy.locked ? -1 : a->policy.dirty_decay_ms;
    int error = set_decay(a->index, "arena.0.dirty_decay_ms", dirty);
    return error ? error : set_decay(a->index, "arena.0.muzzy_decay_ms", a->policy.muzzy_decay_ms);
}

static int create_with_decays(struct extent_arena *a)
{
    int error = create(a);
    if (error)
        return error;
    error = set_decays(a);
    if (error)
        destroy(a->index);
    else
        extents_leave_arena(a->index);
    return error;
}

COLD int extent_arena_create(struct extent_arena *a)
{
    jespan_assert(lock_is_held(LOCK_ARENAS));
    if (!a->id)
        return -EINVAL;
    extents_decommits(); /* asks now, so that no hook needs to */
    a->hooks = hooks_for(&a->policy);
    extents_pause++; /* jemalloc may start a thread of its own */
    int error = create_with_decays(a);
    extents_pause--;
    if (error)
        return error;
    span_policy_try(&a->policy);
    if (a->policy.dontfork) {
        a->next = not_forked;
        not_forked = a;
    }
    return 0;
}

/* ---- Fork ---- */

/* jemalloc still uses these addresses in the child, so they must be mapped. */
static int bring_back(void *arena, uintptr_t start, size_t bytes)
{
    struct extent_arena *a = arena;
    void *p = mmap((void *)start, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == (void *)start)
        apply_policy(a, p, bytes);
    else
        atomic_fetch_add_explicit(&a->policy_errors, 1, memory_order_relaxed);
    return 0;
}

COLD void extent_arenas_after_fork(void)
{
    if (!not_forked)
        return;
    int saved = errno;
    for (struct extent_arena *a = not_forked; a; a = a->next)
        extent_arena_each_range(a, bring_back, a);
    errno = saved;
}
