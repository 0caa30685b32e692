/* SPDX-License-Identifier: BSD-2-Clause */
/* One thread's block: everything a thread writes on the hot path, in memory of our own.
 *
 * Blocks are type-stable: never unmapped, so a snapshot may read any of them at any time. A thread that ends hands its
 * block, with the counters' values, to the next new thread: only sums over all blocks mean anything. A block is written
 * by its owner alone; what others read is atomic.
 *
 * A thread without a block (before its first allocation, inside its own registration, after its end) works through
 * `thread_orphan`, under LOCK_ORPHAN.
 */
#ifndef JESPAN_THREAD_H
#define JESPAN_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/cpu_clock.h"

/* One context's figures on one thread: what allocations and enters touch, in one cache line. Monotonic, but for times while
 * they pass: timing.h. */
struct counters {
    _Atomic uint64_t alloc_objects, alloc_bytes, alloc_requested_bytes;
    _Atomic uint64_t free_objects, free_bytes; /* release: a reader that sees a free sees its allocation */
    _Atomic uint64_t enters, exits;
    _Atomic uint64_t busy;
};

/* And what only some contexts have. */
struct counters_more {
    _Atomic uint64_t wall, opens; /* of scopes; OPENS_SHIFT */
    _Atomic uint64_t moved_in_objects, moved_in_bytes;
    _Atomic uint64_t moved_out_objects, moved_out_bytes; /* release, as with free */
    _Atomic uint64_t cpu_system;
    _Atomic uint64_t unused;
};

/* `opens` is the number of scopes opened so far, times this power of two, plus the number of those that are open. */
#define OPENS_SHIFT 16

/* Counters come in chunks, made when a thread first touches one of their contexts. A chunk begins a page, and what a
 * reader does not need to look at lies in the next: see counters.h. */
#define COUNTERS_CHUNK_BITS 5
#define COUNTERS_PER_CHUNK (1u << COUNTERS_CHUNK_BITS)
#define COUNTERS_PAGE_BYTES 4096u
struct counters_chunk {
    struct counters counters[COUNTERS_PER_CHUNK];
    _Atomic uint64_t cpu[COUNTERS_PER_CHUNK]; /* eight to a cache line: written with every enter, but by nobody else */
    _Atomic uint32_t more_used;               /* bit i: more[i] is in use, for good */
    _Alignas(COUNTERS_PAGE_BYTES) struct counters_more more[COUNTERS_PER_CHUNK];
};
typedef _Atomic(struct counters *) counters_chunk_t; /* the first of a chunk */

/* Frees that are not yet counted. */
#define PENDING_MAX 32

/* A freed object that the thread keeps for its next allocation of the class; see magazine.h. */
struct free_object {
    void *p;
    _Atomic uint32_t *slot; /* its header */
};
#define CLASSES_MAX 64
#define MAGAZINE_ENTRIES 1024 /* of all classes together */

/* What is entered on this thread, innermost last. */
enum entry_kind { ENTRY_SPAN, ENTRY_SCOPE, ENTRY_OWNER, ENTRY_ATTACHED, ENTRY_SELF };
struct entry {
    uint64_t key; /* span handle or scope address */
    struct counters *counters; /* the context's, of this thread */
    struct counters *timed;    /* for which time passes: the same, but with ENTRY_OWNER what is below */
    uint32_t context;
    unsigned kind;           /* enum entry_kind, perhaps with ENTRY_MOVED, and a region's arena */
    struct counters *former; /* with ENTRY_MOVED: those of the period in which it was entered, and still is; see age.h */
};
#define ENTRY_MOVED 8u
#define ENTRY_INSIDE 16u /* of a span that is no region: it was opened inside the region whose arena is given */
#define ENTRY_BLOCK 32u  /* of a span that ends with its block, and with its thread */
#define ENTRY_KIND_MASK 7u
#define ENTRY_REGION_SHIFT 16

static inline enum entry_kind entry_kind(const struct entry *entry)
{
    return (enum entry_kind)(entry->kind & ENTRY_KIND_MASK);
}

/* The span arena that an entered region has to itself; 0: it is none. */
static inline uint16_t entry_region(const struct entry *entry)
{
    return entry->kind & ENTRY_INSIDE ? 0 : (uint16_t)(entry->kind >> ENTRY_REGION_SHIFT);
}

/* The span arena of the region that the entered span was opened inside; 0: none, or it is a region itself. */
static inline uint16_t entry_inside(const struct entry *entry)
{
    return entry->kind & ENTRY_INSIDE ? (uint16_t)(entry->kind >> ENTRY_REGION_SHIFT) : 0;
}

#define ENTRIES_INLINE 32

/* Remembers which context a site has below a parent. Valid while that context's generation is what it was. */
struct site_cache_line {
    const void *site;
    const struct site *kept; /* the context's */
    uint32_t parent, context, generation;
};
#define SITE_CACHE_LINES 64

/* What a thread has allocated and freed, in usable bytes: jemalloc's thread.allocated and thread.deallocated. */
struct thread_bytes {
    uint64_t allocated, deallocated;
};

/* Bytes that a thread has charged to a limit, and to all limits above it, and does not use yet: limit.h. */
struct limit_stock {
    _Atomic uint64_t bytes;
    _Atomic uint32_t limit; /* 0: none */
    uint32_t most;          /* that it should be */
};
#define LIMIT_STOCKS 64 /* by the limit's number */

/* Bytes that were charged for an allocation which is not counted yet. */
struct limit_held {
    uint64_t bytes;
    uint32_t context, limit;
};
#define LIMIT_HELD 4 /* an extent hook of the program's own may allocate within an allocation */

struct thread {
    /* Hot. */
    uint32_t tag;              /* of the current context */
    _Atomic uint32_t free_buffer_count;
    struct counters *current;  /* the current context's */
    counters_chunk_t *chunks;  /* by context / COUNTERS_PER_CHUNK */
    /* Odd while pending is being processed; a reader discards what it read when this changed. */
    _Atomic uint32_t free_buffer_sequence;
    _Atomic uint32_t free_buffer_done; /* how many of them are through; 0 but during processing and after a fork in it */
    _Atomic(void *) free_buffer_object[PENDING_MAX];
    _Atomic(_Atomic uint32_t *) free_buffer_slot[PENDING_MAX]; /* its header */
    _Atomic uint8_t free_buffer_class[PENDING_MAX]; /* CLASS_IN_ARENA higher: a span arena's */
    _Atomic(struct free_object *) magazine_top[CLASSES_MAX]; /* the newest object, or the bottom, which is none */
    struct free_object *magazine_end[CLASSES_MAX];           /* the newest object of a full one */
    struct free_object magazine[MAGAZINE_ENTRIES];
    _Atomic uint32_t spill_class, spill_given; /* a magazine that is being halved, 0 for none */

    /* Spans. */
    struct counters *timed; /* for which time passes */
    struct cpu_clock cpu;
    uint64_t cpu_at_fork;
    struct counters *base_counters;
    uint32_t base; /* the context outside any span */
    uint32_t depth, capacity;
    struct entry *entries;
    struct entry entries_inline[ENTRIES_INLINE];
    struct site_cache_line site_cache[SITE_CACHE_LINES];
    void *label_draft; /* made when first used */
    uint64_t sampler_draws;
    bool sampler_asking; /* in the program's sampler */

    /* What governs its allocations; made when first needed. */
    _Atomic(struct arena_cache **) arena_caches; /* by span arena: arenas.h */
    struct site_cache_line *policy_sites; /* as site_cache, of contexts with an allocation policy */
    uint32_t invalidations_seen;       /* the thread_invalidations that it has seen */
    uint16_t region;      /* the arena of the region that it allocates in now; 0: none. span_review() */
    uint32_t regions_entered; /* entries that are regions */

    /* Now and then. */
    uint32_t slow_events, next_name_check;
    uint64_t period_end; /* of the period that its memory is born in: age.h */
    struct thread_bytes at_start;  /* what the block's counters had when this thread got it, if `start_is_known` */
    struct thread_bytes published; /* if `publishes`: kept up to date, for a program that reads it by its address */
    bool start_is_known, publishes;
    char name[16];

    /* Registry, under LOCK_THREADS. */
    _Atomic(struct thread *) next; /* all blocks; never changes once set */
    struct thread *next_free;
    _Atomic bool live;
    _Atomic(struct thread *) *self; /* its thread_fast; NULL: none, as nobody has the block */

    /* Limits. The sequence is odd while the thread changes its counters and what is charged for them: limits_begin(). */
    _Atomic uint32_t limits_sequence;
    _Atomic bool maybe_hot;        /* it may be in the middle of an allocation that began before it was last invalidations_seen */
    _Atomic bool limits_unsettled; /* limits_set() found it so: limits_settle() */
    bool event_due;                /* a slow event was put off: alloc_policy.c */
    /* Of the frees that wait with this free_buffer_sequence: so many are counted, so many uncharged already. */
    _Atomic uint32_t claimed_sequence, counted, claimed;
    uint32_t n_held;
    struct limit_held held[LIMIT_HELD];
    struct limit_stock stocks[LIMIT_STOCKS];
};

enum thread_state { THREAD_NEW, THREAD_REGISTERING, THREAD_ENDED };

/* The calling thread's block, for the hot path. NULL where there is something to be looked at first: it has no block yet, or
 * what it has entered has an allocation policy, or may have one (span_review()). */
extern THREAD_LOCAL _Atomic(struct thread *) thread_fast;

/* The same, with an allocation policy or without. */
extern THREAD_LOCAL struct thread *thread_current;

extern THREAD_LOCAL enum thread_state thread_state;
extern struct thread thread_orphan;

/* Once, before anything else here. `ended` runs on each thread with a block as it ends. Returns 0 or -ENOMEM. */
int thread_boot(uint32_t max_contexts, void (*ended)(struct thread *));

/* Gives the calling thread a block, with old counters perhaps, nothing entered, no context. NULL: no memory. */
struct thread *thread_acquire_block(void);
/* Gives it back. The caller has undone what was entered. */
void thread_release_block(struct thread *t);

/* Makes every thread look anew at what governs it, before it next allocates, frees, enters or leaves. What it is to find must
 * be there before. A thread that was on the fast ways until now is marked `maybe_hot`. */
void thread_invalidate_all(void);
void thread_invalidate_all_locked(void); /* under LOCK_THREADS */
extern _Atomic uint32_t thread_invalidations;

/* Grows as threads end, with a wake-up of who waits for it; only while that is asked for. */
extern _Atomic uint32_t thread_ends;
extern _Atomic bool thread_ends_awaited;

/* Every block there ever was, the orphan's first; follow with thread_next(). */
static inline struct thread *thread_first(void)
{
    return &thread_orphan;
}

static inline struct thread *thread_next(const struct thread *t)
{
    return load_acquire(&t->next);
}

/* Threads that have a block now. */
uint32_t thread_count(void);

/* In a forked child: calls `abandon` for each block whose thread does not exist here, and frees the block. */
void thread_after_fork(void (*abandon)(struct thread *));

#endif
