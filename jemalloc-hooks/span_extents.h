/* SPDX-License-Identifier: BSD-2-Clause */
/* One span arena's pages: whose they are, how many there may be, and how the system shall treat them.
 *
 * The hooks of a span arena stand on those of the automatic ones (extents.h), so its pages are part of the heap's
 * figures. As there, a hook allocates nothing, takes no lock and, but for the limit and the page map's memory, fails
 * only when jemalloc's own would. jemalloc's bookkeeping for the arena lies elsewhere: no policy touches it, no limit
 * counts it.
 *
 * What a policy is about, and what jemalloc does with such pages:
 *     thp         madvise(2): huge pages wherever they fit, or nowhere
 *     dontdump    not in core dumps
 *     dontfork    not copied to a forked child. There the same addresses read as zero, and objects may be freed, from
 *                 extent_arenas_after_fork() on; what a fork handler that runs before it touches of them is not there
 *     locked      never swapped out, from when they are first touched. Freed pages stay in memory for the arena's next
 *                 objects, and RLIMIT_MEMLOCK counts all that is mapped. A forked child has them unlocked
 *     guarded     each range has a page before and after it that nobody can touch, so what runs off the arena's memory
 *                 ends the program. Its addresses are kept, whatever opt.retain says; the memory goes back
 *     numa_node   pages come from this node while it has any
 *     kept        addresses stay the arena's, whatever opt.retain says
 *     touchable   no page of the arena is ever without access, also where the system does not overcommit
 *
 * The limit is one for memory: pages that were given back do not count until they are used again. For that jemalloc hears that its
 * free pages are *decommitted* when they are given back, and new ones before they are used, where the system would do nothing of
 * the kind; so it asks span_commit() for each page before it is used.
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
    int numa_node; /* -1: any */
    int64_t dirty_decay_ms, muzzy_decay_ms; /* jemalloc's; EXTENT_DECAY_DEFAULT: as configured */
};
#define EXTENT_POLICY_DEFAULT                                                                                          \
    {.numa_node = -1, .dirty_decay_ms = EXTENT_DECAY_DEFAULT, .muzzy_decay_ms = EXTENT_DECAY_DEFAULT}

/* Stays where it is, for good. Zero but for id, policy and limit before extent_arena_create(). */
#define EXTENT_AREAS 64
struct extent_arena {
    extent_hooks_t hooks; /* first: a hook is handed this address */
    uint16_t id;          /* as pagemap_arena() gives it; 1 or more */
    unsigned index;       /* jemalloc's */
    struct extent_policy policy;
    _Atomic uint64_t limit_bytes; /* committed at most, 0: any number. May change at any time */
    struct extent_figures figures;
    _Atomic uint64_t refusals;      /* times that pages would have passed the limit */
    _Atomic uint64_t policy_errors; /* ranges that the system did not treat as the policy says */
    _Atomic uint64_t areas[EXTENT_AREAS]; /* where its ranges are: first and last 2 MiB, 32 bits each */
    struct extent_arena *next;            /* among those with dontfork */
};

/* Creates jemalloc's arena for it. What of the policy this system does not do is said once on stderr and left. Returns
 * 0 or a negative errno: -EAGAIN when jemalloc has no memory or no more arenas, -EINVAL (id, decay times), -ENOTSUP for
 * a jemalloc without experimental.arenas_create_ext. Under LOCK_ARENAS, never from a hook. */
int extent_arena_create(struct extent_arena *a);

/* Calls `each` for every run of pages that the arena has mapped, until it returns other than 0, which is returned. Each
 * page comes once, in rising order; what is mapped meanwhile may be missing. Waits for nobody. */
int extent_arena_each_range(const struct extent_arena *a, int (*each)(void *arg, uintptr_t start, size_t bytes),
                            void *arg);

/* For pthread_atfork, in the child, after jemalloc's own handler. */
void extent_arenas_after_fork(void);

#endif
