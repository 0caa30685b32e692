/* SPDX-License-Identifier: BSD-2-Clause */
/* The pages of one span arena: which pages it has, how many it may have, and how the system treats them.
 *
 * The hooks of a span arena call those of the automatic arenas (extents.h), so its pages are part of the heap's
 * figures. A hook allocates nothing and takes no lock. It fails only where jemalloc's own hook does, or for the limit,
 * or without memory for the page map. jemalloc's own data for the arena lies elsewhere: no policy applies to it, no
 * limit counts it.
 *
 * The parts of a policy, and what they do to pages:
 *     thp         madvise(2): huge pages wherever they fit, or nowhere
 *     dontdump    not in core dumps
 *     dontfork    not copied to a forked child. There the same addresses read as zero from extent_arenas_after_fork()
 *                 on, and objects may be freed. Fork handlers that run earlier must not touch them
 *     locked      never swapped out once they are touched. Freed pages stay in memory for the arena's next objects.
 *                 RLIMIT_MEMLOCK counts all that is mapped. In a forked child they are not locked
 *     guarded     each range has a page without access before and after it, so an access beyond the arena's memory ends
 *                 the program. Addresses are kept, whatever opt.retain says; the memory goes back to the system
 *     numa_node   pages come from this node while it has any
 *     kept        addresses stay the arena's, whatever opt.retain says
 *     touchable   no page of the arena is ever without access, also where the system does not overcommit
 *
 * The limit counts memory: pages that were given back count again only when they are used again. To know that, the
 * hooks tell jemalloc that pages are *decommitted* when they are given back, and when they are new, even where the
 * system does not decommit. So jemalloc calls span_commit() before it uses such pages.
 */
#ifndef JESPAN_SPAN_EXTENTS_H
#define JESPAN_SPAN_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "extents.h"

enum extent_thp { EXTENT_THP_DEFAULT, EXTENT_THP_ALWAYS, EXTENT_THP_NEVER };

#define EXTENT_DECAY_DEFAULT INT64_MIN
struct extent_policy {
    enum extent_thp thp;
    bool dontdump, dontfork, locked, guarded;
    bool kept, touchable;
    int numa_node; /* −1: any */
    int64_t dirty_decay_ms, muzzy_decay_ms; /* jemalloc's; EXTENT_DECAY_DEFAULT: as configured */
};
#define EXTENT_POLICY_DEFAULT                                                                                          \
    {.numa_node = -1, .dirty_decay_ms = EXTENT_DECAY_DEFAULT, .muzzy_decay_ms = EXTENT_DECAY_DEFAULT}

/* Its memory is never moved or freed. Before extent_arena_create() all is zero except id, policy and limit. */
#define EXTENT_AREAS 64
struct extent_arena {
    extent_hooks_t hooks; /* the first member, since a hook gets this address */
    uint16_t id;          /* as pagemap_arena() gives it; 1 or more */
    unsigned index;       /* jemalloc's */
    struct extent_policy policy;
    _Atomic uint64_t limit_bytes; /* most bytes committed; 0: no limit. May change at any time */
    struct extent_figures figures;
    _Atomic uint64_t refusals;      /* requests for pages that the limit refused */
    _Atomic uint64_t policy_errors; /* ranges that the system did not treat as the policy says */
    _Atomic uint64_t areas[EXTENT_AREAS]; /* where its ranges are: numbers of the first and last 2 MiB, 32 bits each */
    struct extent_arena *next;            /* the list of arenas with dontfork */
};

/* Creates jemalloc's arena. Parts of the policy that this system cannot do are named once on stderr and ignored.
 * Returns 0 or a negative errno: -EAGAIN when jemalloc has no memory or no more arenas, -EINVAL for a wrong id or decay
 * time, -ENOTSUP for a jemalloc without experimental.arenas_create_ext. Under LOCK_ARENAS, never from a hook. */
int extent_arena_create(struct extent_arena *a);

/* Calls `each` for every run of pages that the arena has mapped, until it returns a value other than 0. Returns that
 * value. Each page comes once, in rising order. Pages that are mapped meanwhile may be missing. Does not wait. */
int extent_arena_each_range(const struct extent_arena *a, int (*each)(void *arg, uintptr_t start, size_t bytes),
                            void *arg);

/* For the hooks: the arena has mapped a range. Does not wait. In span_areas.c, with extent_arena_each_range(). */
void extent_arena_note_range(struct extent_arena *a, uintptr_t start, size_t bytes);

/* To be called by the child's fork handler, after jemalloc's own handler. */
void extent_arenas_after_fork(void);

#endif
