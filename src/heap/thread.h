/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread block: all data that a thread writes on the hot path, in jespan's own memory.
 *
 * Blocks are type-stable: they are never unmapped, so a snapshot may read any block at any time. When a thread ends,
 * the next new thread takes over its block with the values of the counters. So only sums over all blocks have a
 * meaning. Only the owner writes a block. Members that others read are atomic.
 *
 * A thread has no block before its first allocation, while it registers, and after its end. Then it uses
 * `thread_orphan`, under LOCK_ORPHAN.
 */
#ifndef JESPAN_THREAD_H
#define JESPAN_THREAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/cpu_clock.h"
#include "heap/header.h"
#include "heap/tables.h"

/* One context's figures on one thread: those that allocations and enters change, in one cache line. They only grow,
 * except times while they pass: timing.h. */
struct counters {
    _Atomic uint64_t alloc_objects, alloc_bytes, alloc_requested_bytes;
    _Atomic uint64_t free_objects, free_bytes; /* stored with release: a reader that sees a free sees its allocation too */
    _Atomic uint64_t enters, exits;
    _Atomic uint64_t busy;
};

/* The figures that only some contexts have. Blocks write the first two, so these are in one cache line. */
struct counters_more {
    _Alignas(CACHE_LINE_BYTES) _Atomic uint64_t wall; /* of JESPAN() blocks */
    _Atomic uint64_t opens; /* of JESPAN() blocks; see OPENS_SHIFT */
    _Atomic uint64_t credited_in_objects, credited_in_bytes;
    _Atomic uint64_t credited_out_objects, credited_out_bytes; /* stored with release, as frees */
    _Atomic uint64_t cpu_user, cpu_system; /* up to the last reading, where the clock tells them apart */
    _Atomic uint64_t lifetimes, lifetimes_at; /* lifetimes.h */
};

/* `opens` is the number of blocks opened so far, shifted by this, plus the number of blocks that are open. */
#define OPENS_SHIFT 16

/* Counters lie in chunks. A thread allocates a chunk when it first counts for one of its contexts. A chunk begins at a
 * page. The rarer figures lie in its second page, so readers need not touch that: see counters.h. */
#define COUNTERS_CHUNK_BITS 5
#define COUNTERS_PER_CHUNK (1u << COUNTERS_CHUNK_BITS)
#define COUNTERS_PAGE_BYTES 4096u
struct counters_chunk {
    struct counters counters[COUNTERS_PER_CHUNK];
    _Atomic uint64_t cpu[COUNTERS_PER_CHUNK]; /* eight share a cache line: written at each enter, by this thread only */
    _Atomic uint64_t temporary_objects[COUNTERS_PER_CHUNK]; /* malloc/temporary.h. Beside `counters`, since each allocation
                                                             * of a stack may be one: it would be the only one of `more` */
    _Atomic uint32_t more_used;     /* bit i: more[i] is in use, and stays so */
    _Atomic uint32_t has_temporary; /* 1: some temporary_objects are not 0 */
    _Alignas(COUNTERS_PAGE_BYTES) struct counters_more more[COUNTERS_PER_CHUNK];
};
typedef _Atomic(struct counters *) counters_chunk_t; /* the first of a chunk */

/* The size of the free buffer. */
#define FREE_BUFFER_MAX 32

/* An entry of a magazine: a freed object that the thread keeps; see magazine.h. */
struct free_object {
    void *p;
    header_t *slot; /* its header */
};
#define CLASSES_MAX 80
#define CLASS_IN_ARENA (CLASSES_MAX / 2) /* classes.h */
#define MAGAZINE_ENTRIES 2480 /* of all classes together */
#define MAGAZINE_FIRST 15     /* objects of a class in its first magazine: magazine.h */
#define MAGAZINE_FIRST_ENTRIES (CLASS_IN_ARENA * (MAGAZINE_FIRST + 1) + CLASSES_MAX - CLASS_IN_ARENA + 1)

/* The magazines of a thread for one span arena, by class number: policy/arena_cache.h. As in t->magazine, the bottom of each is an
 * entry whose pointer is NULL. Magazines that were never used share one that has room for nothing. */
#define ARENA_MAGAZINE_MAX 252 /* objects of one class */
struct arena_magazines {
    _Atomic(struct free_object *) top[CLASS_IN_ARENA]; /* the newest object, or the bottom */
    struct free_object *full[CLASS_IN_ARENA];          /* the place of the newest object in a full one */
    _Atomic(struct free_object *) bottom[CLASS_IN_ARENA];
    struct arena_magazines *next; /* of the same thread */
};

/* The entries of this thread, innermost last. */
enum entry_kind { ENTRY_SPAN, ENTRY_BLOCK, ENTRY_CREDIT, ENTRY_ATTACHED, ENTRY_SELF };
struct entry {
    uint64_t key; /* handle of the span, or address of the block's variable */
    struct counters *counters; /* those of the context, on this thread */
    struct counters *timed;    /* for which time passes: the same; with ENTRY_CREDIT those of the entry below */
    uint32_t context;
    unsigned kind;           /* enum entry_kind, perhaps with ENTRY_MOVED, and a region's arena */
    struct counters *former; /* with ENTRY_MOVED: those of the period in which it was entered; see age.h */
};
#define ENTRY_MOVED 8u
#define ENTRY_INSIDE 16u /* the span is no region, but was opened inside the region of that arena */
#define ENTRY_REGION_BLOCK 32u /* the span ends with its JESPAN() block, and with its thread */
#define ENTRY_BORROWS 64u      /* a block that has the context of an ancestor, since all numbers of contexts were taken */
#define ENTRY_KIND_MASK 7u
#define ENTRY_REGION_SHIFT 16

static inline enum entry_kind entry_kind(const struct entry *entry)
{
    return (enum entry_kind)(entry->kind & ENTRY_KIND_MASK);
}

/* Whether it is a block, which ends where it began. */
static inline bool entry_is_block(const struct entry *entry)
{
    return entry_kind(entry) == ENTRY_BLOCK || entry_kind(entry) == ENTRY_CREDIT;
}

/* The span arena of an entered region; 0: the entry is no region. */
static inline uint16_t entry_region(const struct entry *entry)
{
    return entry->kind & ENTRY_INSIDE ? 0 : (uint16_t)(entry->kind >> ENTRY_REGION_SHIFT);
}

/* The span arena of the region in which the entered span was opened; 0: none, or the span is a region itself. */
static inline uint16_t entry_inside(const struct entry *entry)
{
    return entry->kind & ENTRY_INSIDE ? (uint16_t)(entry->kind >> ENTRY_REGION_SHIFT) : 0;
}

#define ENTRIES_INLINE 32

/* Caches the context of a site below a parent. Valid while the context has this generation. */
struct site_cache_line {
    const void *site;
    const struct site *kept; /* the site of the context */
    uint32_t parent, context, generation;
    bool is_constant; /* another site cannot have the address: sites_is_constant() */
};
#define SITE_CACHE_LINES 64

/* Usable bytes that a thread allocated and freed: jemalloc's thread.allocated and thread.deallocated. */
struct thread_bytes {
    uint64_t allocated, deallocated;
};

/* The sums of a thread's counters of all contexts. A free counts for the thread that frees. */
struct thread_sums {
    uint64_t alloc_objects, alloc_bytes, free_objects, free_bytes; /* usable bytes */
    uint64_t busy, cpu; /* in ticks; complete only where the thread has ended */
};

/* The addresses of a thread's last allocations, for malloc/temporary.h. NULL: the object is freed, or has no stack. */
#define RECENT_MAX 16u
struct recent_objects {
    const void *p[RECENT_MAX];
    uint32_t next;    /* the place of the next one */
    uint32_t scanned; /* frees in the free buffer that were looked at */
};

/* A stock: bytes that a thread has charged to a limit and its ancestors and has not used yet: limits.h. */
struct limit_stock {
    _Atomic uint64_t bytes;
    _Atomic uint32_t limit; /* 0: none */
    uint32_t most;          /* bytes it should have at most */
};
#define LIMIT_STOCKS 64 /* by the limit's number */

/* Bytes charged for an allocation that is not counted yet. */
struct limit_held {
    uint64_t bytes;
    uint32_t context, limit;
};
#define LIMIT_HELD 4 /* the program's own extent hooks may allocate inside an allocation */

/* What a thread does at each allocation and free. It then takes the slow sides. */
#define NOTES_BYTES 1u     /* adds up its bytes for a program that reads them by their address */
#define NOTES_LIFETIMES 2u /* lifetimes.h */

struct thread {
    /* Hot. */
    uint32_t tag;              /* of the current context */
    _Atomic uint32_t free_buffer_count;
    struct counters *current;  /* the current context's */
    _Atomic(_Atomic(struct free_object *) *) taken_from; /* one of magazine_top: the last object came from there */
    uint64_t tables_seen; /* the value of tables_changes when the entries above the tops were forgotten: magazine.h */
    counters_chunk_t *chunks;  /* by context / COUNTERS_PER_CHUNK */
    _Atomic uint64_t *moved;   /* the same: grows when a counter of the chunk may have changed; see counters_moved() */
    /* Odd while the free buffer is flushed. A reader discards what it read if this changed meanwhile. */
    _Atomic uint32_t free_buffer_sequence;
    _Atomic uint32_t free_buffer_done; /* entries flushed so far; not 0 only during a flush, and after a fork in one */
    _Atomic(void *) free_buffer_none; /* NULL: the newest object of an empty buffer, see free_buffer_newest() */
    _Atomic(void *) free_buffer_object[FREE_BUFFER_MAX];
    _Atomic(header_t *) free_buffer_slot[FREE_BUFFER_MAX]; /* its header */
    _Atomic uint8_t free_buffer_class[FREE_BUFFER_MAX]; /* CLASS_IN_ARENA higher for objects of span arenas */
    _Atomic(struct free_object *) magazine_top[CLASSES_MAX]; /* the newest object; or the bottom, which is none */
    struct free_object *magazine_full[CLASSES_MAX];          /* the place of the newest object in a full magazine */
    uint8_t magazine_spills[CLASSES_MAX]; /* times that it was full since an allocation found it empty; up to a few */
    uint64_t magazine_object_bytes[CLASSES_MAX];             /* class_bytes: one addition leads there from the top */
    /* The magazine that gives its older objects away, 0: none; and the objects that it has given so far. */
    _Atomic uint32_t spill_class, spill_given;

    /* Spans. */
    struct counters *timed; /* for which time passes */
    struct cpu_clock cpu;
    uint64_t cpu_at_fork;
    struct counters *base_counters;
    uint32_t base; /* the base context */
    uint32_t attached_on, attached_on_generation; /* the base context when something was attached outside spans last */
    uint32_t depth, capacity;
    struct entry *entries;
    void *label_draft; /* allocated when first used */
    struct label_cache *label_cache; /* allocated when first used: span/label_cache.h */
    uint64_t sampler_draws;
    bool sampler_asking; /* inside the program's sampler */

    /* Allocation policy. Allocated when first needed. */
    _Atomic(struct arena_cache **) arena_caches; /* by number of span arena: arena_cache.h */
    _Atomic(struct arena_magazines *) arena_magazines; /* those in arena_caches */
    struct arena_cache *taken_in; /* an object came from there last, of this class; NULL: none did. Regions do not count */
    uint32_t taken_class;
    struct site_cache_line *policy_sites; /* as site_cache, for contexts with an allocation policy */
    uint32_t invalidations_seen;       /* the value of thread_invalidations that it saw last */
    uint16_t region;      /* the arena of the region in which it allocates now; 0: none. See span_review() */
    uint32_t regions_entered; /* number of entries that are regions */

    struct table_cache tables; /* header tables for pages that change their class */

    /* Rarely used. */
    uint32_t slow_events, next_name_check /* 0: it was renamed */, names;
    _Atomic bool is_renamed; /* by another thread */
    uint8_t depot_shard;     /* where it exchanges freed objects: depot.h */
    uint64_t peak_moved; /* bytes since it made a look for peaks due: malloc/peak_looks.h */
    /* Objects of middle classes in the free buffer: their bytes, and the buffer's sequence then, made odd. */
    uint32_t middle_bytes, middle_sequence;
    uint64_t peak_asks_at; /* when it may ask again whether there is time for one; 0: at once */
    struct thread_sums before;     /* what the block had counted when the first of `lives` began */
    uint32_t lives;                /* threads since then: more than one where the sums between them are unknown */
    int thread_id;                 /* of the kernel */
    uint64_t period_end; /* the end of the period of its new memory: age.h */
    struct thread_bytes at_start;  /* the counters' values when this thread got the block, if `start_is_known` */
    struct thread_bytes published; /* with NOTES_BYTES: kept up to date for a program that reads it by its address */
    bool start_is_known;
    uint8_t notes; /* NOTES_* */
    bool guard_due;             /* one of its next allocations is to be guarded: guard/guard_sample.h */
    char name[16];

    /* Registry, under LOCK_THREADS. */
    _Atomic(struct thread *) next; /* all blocks; never changes once set */
    struct thread *next_free;
    _Atomic bool live;
    struct thread_fast *self; /* the address of its thread_fast; NULL where no thread has the block */

    /* Limits. The sequence is odd while the thread changes its counters and its charges: limits_begin(). */
    _Atomic uint32_t limits_sequence;
    _Atomic bool maybe_hot;        /* it may be inside an allocation that began before it saw the last invalidation */
    _Atomic bool limits_unsettled; /* limits_set() could not settle its charges: limits_settle() */
    bool event_due;                /* a slow event was postponed: alloc_policy.c */
    bool ring_is_refused;          /* there was none left for this thread's events */
    /* For the flush with this free_buffer_sequence: the frees counted so far, and the frees uncharged so far. */
    _Atomic uint32_t claimed_sequence, counted, claimed;
    uint32_t n_held;
    struct limit_held held[LIMIT_HELD];

    /* Stacks: span/stack_context.h. NULL: its allocations are not credited to stacks now. */
    struct thread_stacks *stacks, *stacks_kept;
    struct recent_objects recent;
    struct counters *stack_counters; /* those of `stack_tag`: what its last allocation was credited to, if that was a stack */
    uint32_t stack_tag;
    uint64_t until_sample; /* bytes until the next sample: the allocation that reaches this number is the sample */

    /* Events: span/events.c. `ring` is the block's; `events` is NULL until this thread has entered a span. */
    struct event_ring *events, *ring;
    uint64_t began; /* in ticks: when the thread's time began */

    struct guard_thread *guard; /* NULL: nothing is guarded */

    /* The large arrays. They lie last, so a forked child that writes the members above copies one page. Many threads write to the
     * beginnings of the first two only. */
    struct entry entries_inline[ENTRIES_INLINE];
    struct free_object magazine_first[MAGAZINE_FIRST_ENTRIES];
    struct site_cache_line site_cache[SITE_CACHE_LINES];
    struct limit_stock stocks[LIMIT_STOCKS];
    struct free_object magazine[MAGAZINE_ENTRIES];
};

/* The object that came into the free buffer last, where `n` is free_buffer_count. */
HOT_INLINE void *free_buffer_newest(const struct thread *t, size_t n)
{
    const _Atomic(void *) *before = (const void *)((const char *)t + offsetof(struct thread, free_buffer_none));
    return load_relaxed(&before[n]);
}
/* The place of the header that belongs to that object. One address with a displacement takes fewer instructions than two
 * with an index. */
HOT_INLINE _Atomic(header_t *) *free_buffer_slot_beside(_Atomic(void *) *object)
{
    return (void *)((char *)object + offsetof(struct thread, free_buffer_slot) - offsetof(struct thread, free_buffer_object));
}

_Static_assert(offsetof(struct thread, free_buffer_object) == offsetof(struct thread, free_buffer_none) + sizeof(void *),
               "the first object follows at once");

enum thread_state { THREAD_NEW, THREAD_REGISTERING, THREAD_ENDED };

/* The calling thread's block, for the hot paths. NULL where the thread must take the slow path: it has no block yet, or
 * something that it has entered has an allocation policy, or may have one (span_review()). */
struct thread_fast {
    _Atomic(struct thread *) alloc;
    _Atomic(struct thread *) alloc_unsampled; /* where `alloc` is NULL because samples of stacks are taken, and for nothing else */
    _Atomic(struct thread *) alloc_stacks;    /* the same where all stacks are taken */
    _Atomic(struct thread *) free;            /* as `other`, but NULL where all stacks are taken */
    _Atomic(struct thread *) other;           /* enters and exits; stacks do not matter for these */
};
extern THREAD_LOCAL struct thread_fast thread_fast;

/* On the calling thread, which takes samples of stacks, all stacks, or none. `other` is NULL only if `alloc` is. */
static inline void thread_fast_set(struct thread *alloc, struct thread *other, bool takes_samples, bool takes_all)
{
    store_relaxed(&thread_fast.alloc, takes_samples || takes_all ? NULL : alloc);
    store_relaxed(&thread_fast.alloc_unsampled, takes_samples ? alloc : NULL);
    store_relaxed(&thread_fast.alloc_stacks, takes_all ? alloc : NULL);
    store_relaxed(&thread_fast.free, takes_all ? NULL : other);
    store_relaxed(&thread_fast.other, other);
}

/* The calling thread's block, whether it has an allocation policy or not. NULL where it has none. */
extern THREAD_LOCAL struct thread *thread_current;

extern THREAD_LOCAL enum thread_state thread_state;
extern struct thread thread_orphan;

/* To be called once, before all other functions of this file. `ended` runs on each thread with a block when it ends.
 * Returns 0 or -ENOMEM. */
int thread_boot(uint32_t max_contexts, void (*ended)(struct thread *));

/* Gives the calling thread a block. It may have old counters, but has no entries and no context. Returns NULL when out
 * of memory. */
struct thread *thread_acquire_block(void);
/* Gives the block back. The caller has removed all entries. */
void thread_release_block(struct thread *t);

/* Makes every thread look at its allocation policies again, before it next allocates, frees, enters or leaves. The
 * caller has made its changes before. A thread that used the fast path until now is marked `maybe_hot`. */
void thread_invalidate_all(void);
void thread_invalidate_all_locked(void); /* under LOCK_THREADS */

/* The same for the calling thread alone, before it next allocates: all else stays fast. Safe in a signal handler. */
void thread_make_alloc_review(struct thread *t);
extern INTERNAL _Atomic uint32_t thread_invalidations;

/* While `thread_ends_awaited`, thread_ends grows when a thread ends, and those who wait for it are woken. */
extern _Atomic uint32_t thread_ends;
extern _Atomic bool thread_ends_awaited;

/* Brings the copy of a block in the state file up to date: all that readers need of it, except objects that wait in its free
 * buffer and its magazines. */
void thread_copy_to_state(const struct thread *t);

/* The first of all blocks that ever were, which is the orphan. thread_next() gives the others. */
static inline struct thread *thread_first(void)
{
    return &thread_orphan;
}

static inline struct thread *thread_next(const struct thread *t)
{
    return load_acquire(&t->next);
}

/* The number of threads that have a block now. */
uint32_t thread_count(void);

/* The number of all blocks, with those that no thread has now, and the orphan. */
uint32_t thread_blocks(void);

/* In a forked child: calls `abandon` for each block whose thread does not exist here, and frees the block. */
void thread_after_fork(void (*abandon)(struct thread *));

/* ---- Threads that have ended, for readers from outside ---- */

/* A thread block outlives its thread, and the next thread takes it over. Then what the block has counted until then is
 * added to this list, which keeps the newest THREAD_PASTS. Readers take no lock: they copy `n`, then records, then `n`
 * again, and drop the records that were overwritten meanwhile. */

struct thread_past {
    struct thread *block;
    struct thread_sums sums;
    uint32_t lives; /* threads in it; more than one: what each did is unknown */
    int thread_id;  /* these are of the last one */
    char name[16];
};

#define THREAD_PASTS_AT_ONCE 512u
#define THREAD_PASTS (32 * THREAD_PASTS_AT_ONCE)

struct thread_pasts {
    _Atomic uint64_t n; /* records ever added; record i is at i % THREAD_PASTS */
    _Atomic(struct thread_past *) chunks[THREAD_PASTS / THREAD_PASTS_AT_ONCE];
};

extern struct thread_pasts thread_pasts;

/* To be called by the calling thread, which has the block from now on, or has another name. What other threads of this process
 * read of it under LOCK_THREADS are `lives`, `before`, `thread_id` and `name`. */
void thread_introduce(struct thread *t, int thread_id);
void thread_rename(struct thread *t, const char name[16]);

/* Called by a thread that takes over a block, before it counts anything. `now` is what the block has counted. */
void thread_past_add(struct thread *t, const struct thread_sums *now);

#endif
