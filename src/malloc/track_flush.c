/* SPDX-License-Identifier: BSD-2-Clause */
/* Flushing the free buffer of a thread: its frees are counted, and the objects go into magazines.
 *
 * For other threads that read the buffer: free_buffer_sequence is odd while the owner flushes. They then try again
 * (sums.c, limit_claims.c).
 *
 * For a child that is forked in the middle of a flush: free_buffer_done passes an entry when the entry is finished. At
 * the end free_buffer_count becomes 0 first, and then free_buffer_done. So track_abandon() knows where to go on.
 *
 * The program's own extent hooks may free objects during a flush, so free_buffer_count may rise. */
#include "base/die.h"
#include "base/lock.h"
#include "heap/sums.h"
#include "jemalloc/binding.h"
#include "malloc/peak_looks.h"
#include "malloc/probes.h"
#include "malloc/temporary.h"
#include "malloc/track_slow.h"
#include "policy/arena_cache.h"
#include "policy/limits.h"

/* ---- In programs that never had a limit ---- */

/* Counts a context's first free on a thread. Only while there was never a limit. */
static NOINLINE void count_free(struct thread *t, uint32_t context, uint64_t bytes)
{
    struct counters *c = counters_get(t, context);
    if (unlikely(!c)) {
        track_count_frees_orphan(context, 1, bytes);
        return;
    }
    counters_add_free(c, bytes);
    counters_moved(t, context);
}

#define NO_HEADER INT32_MAX /* no header and no tag; 0 is the header of a freed object */

/* All frees of an owner in a row are counted. */
HOT_INLINE void end_owner(struct thread *t, int32_t last)
{
    if (last != NO_HEADER)
        counters_moved(t, (uint32_t)last);
}

/* The counters of the owner of an object. *last is the owner of the object before, and becomes that of this one: as a number, which is
 * also the header if that is not wide. NULL: the free was counted, as the thread had no counters; then *last is none. */
HOT_INLINE struct counters *find_counters(struct thread *t, int32_t header, struct free_object object, size_t class, int32_t *last)
{
    if (unlikely(!header))
        track_die_not_allocated(object.p);
    end_owner(t, *last);
    if (unlikely(header < 0))
        header = (int32_t)tag_of_header((uint16_t)header, load_relaxed(header_more(object.slot, class_is_big(class))));
    struct counters *c = counters_find(t, (uint32_t)header);
    *last = header;
    if (unlikely(!c)) {
        count_free(t, (uint32_t)header, class_bytes[class]);
        *last = NO_HEADER;
    }
    return c;
}

static NOINLINE void put_in_arena(struct thread *t, size_t class, struct free_object object)
{
    peak_looks_moved(t, t->magazine_object_bytes[class]);
    arena_cache_take_back(t, class - CLASS_IN_ARENA, object);
}

/* About half of the magazine goes to jemalloc. */
static NOINLINE void put_in_full(struct thread *t, size_t class, struct free_object object)
{
    peak_looks_moved(t, t->magazine_object_bytes[class] * (magazine_max[class] / 2u + 1u));
    magazine_put_in_full(t, class, object);
}

/* The magazine of a counted object is full, or keeps nothing; or it is one of a span arena. */
HOT_INLINE void put_without_room(struct thread *t, size_t class, struct free_object object)
{
    if (class >= CLASS_IN_ARENA) {
        put_in_arena(t, class, object);
        return;
    }
    if (!magazine_keeps_nothing(t, class)) {
        put_in_full(t, class, object);
        return;
    }
    size_t bytes = t->magazine_object_bytes[class];
    peak_looks_moved(t, bytes);
    jespan_je_sdallocx(object.p, bytes, 0);
}

/* Puts a counted object into its magazine, or gives it to jemalloc. */
HOT_INLINE void put(struct thread *t, size_t class, struct free_object object)
{
    if (unlikely(!magazine_put(t, class, object)))
        put_without_room(t, class, object);
}

void track_flush(struct thread *t)
{
    uint32_t sequence = load_relaxed(&t->free_buffer_sequence);
    int32_t last = NO_HEADER;
    struct counters *c = NULL; /* of the owner `last`: objects that are freed together tend to have the same owner */
    store_relaxed(&t->free_buffer_sequence, sequence + 1);
    atomic_thread_fence(memory_order_release); /* the sequence is odd before any header or counter changes; see sums.c */
    for (size_t i = load_relaxed(&t->free_buffer_done); i < load_relaxed(&t->free_buffer_count);) {
        void *p = load_relaxed(&t->free_buffer_object[i]);
        header_t *slot = load_relaxed(&t->free_buffer_slot[i]);
        size_t class = load_relaxed(&t->free_buffer_class[i]);
        int32_t header = header_signed(slot);
        store_relaxed(slot, 0);
        if (likely(header == last) || likely(c = find_counters(t, header, (struct free_object){p, slot}, class, &last)))
            counters_add_free(c, t->magazine_object_bytes[class]);
        put(t, class, (struct free_object){p, slot});
        store_release(&t->free_buffer_done, (uint32_t)++i);
    }
    end_owner(t, last);
    store_relaxed(&t->free_buffer_count, 0);
    store_release(&t->free_buffer_done, 0);
    store_release(&t->free_buffer_sequence, sequence + 2);
}

/* ---- With limits ---- */

static COLD void count_free_uncharged(uint32_t context, uint64_t bytes)
{
    lock(LOCK_ORPHAN);
    track_add_frees(counters_orphan(context), 1, bytes);
    counters_moved(&thread_orphan, context);
    unlock(LOCK_ORPHAN);
}

/* In a section: claims that were made for the buffer's former content do not count. */
HOT_INLINE void begin_claims(struct thread *t, uint32_t sequence)
{
    if (load_relaxed(&t->claimed_sequence) != sequence) {
        store_relaxed(&t->claimed, 0);
        store_relaxed(&t->claimed_sequence, sequence);
    }
}

/* Counts the buffered free at `i`, and uncharges it unless another thread did so already (limits_claim_all()). For wide headers, and
 * without memory for counters. */
static NOINLINE void count_buffered(struct thread *t, uint32_t i, uint32_t sequence, header_t *slot, unsigned class)
{
    uint32_t tag = header_get(slot, class_is_big(class));
    struct counters *c = counters_get(t, tag); /* before the section, in which nothing may be allocated */
    uint32_t section = limits_begin(t);
    begin_claims(t, sequence);
    size_t usable = class_bytes[class];
    bool is_claimed = i < load_relaxed(&t->claimed);
    store_relaxed(&t->counted, i + 1);
    store_relaxed(slot, 0);
    if (likely(c)) {
        counters_add_free(c, usable);
        counters_moved(t, tag);
    }
    if (likely(!is_claimed))
        limits_give(t, limits_of(tag), usable);
    limits_end(t, section);
    if (unlikely(!c))
        count_free_uncharged(tag, usable);
}

/* Whether the buffered free at `i` has this header, which is not 0. */
HOT_INLINE bool continues_run(struct thread *t, uint32_t i, int32_t header)
{
    return i < load_relaxed(&t->free_buffer_count) && header_signed(load_relaxed(&t->free_buffer_slot[i])) == header;
}

/* Puts a counted object into its magazine, also one for a span arena. False: it has no room, or other work is due; nothing has
 * changed. */
HOT_INLINE bool put_in_section(struct thread *t, size_t class, struct free_object object)
{
    if (likely(class < CLASS_IN_ARENA))
        return magazine_put(t, class, object);
    return likely(peak_looks_try_moved(t, t->magazine_object_bytes[class])) &&
           arena_cache_try_take_back(t, class - CLASS_IN_ARENA, object);
}

/* Counts the buffered frees from `i` on that have this header, in one section, and puts the objects into their magazines. The bytes
 * that no other thread claimed are uncharged together. A section must not call jemalloc, so it ends with an object whose magazine
 * is full. Returns the index behind the last of them. */
HOT_INLINE uint32_t flush_run(struct thread *t, uint32_t i, uint32_t sequence, int32_t header, struct counters *c)
{
    struct free_object object;
    size_t class;
    bool is_put;
    uint64_t given = 0;
    uint32_t section = limits_begin(t);
    begin_claims(t, sequence);
    do {
        object = (struct free_object){load_relaxed(&t->free_buffer_object[i]), load_relaxed(&t->free_buffer_slot[i])};
        class = load_relaxed(&t->free_buffer_class[i]);
        uint64_t usable = t->magazine_object_bytes[class];
        given += i >= load_relaxed(&t->claimed) ? usable : 0;
        store_relaxed(&t->counted, i + 1);
        store_relaxed(object.slot, 0);
        counters_add_free(c, usable);
        is_put = put_in_section(t, class, object);
        if (unlikely(!is_put))
            break;
        store_release(&t->free_buffer_done, ++i);
    } while (continues_run(t, i, header));
    counters_moved(t, (uint32_t)header);
    if (likely(given))
        limits_give(t, limits_of((uint32_t)header), given);
    limits_end(t, section);
    if (unlikely(!is_put)) {
        put_without_room(t, class, object);
        store_release(&t->free_buffer_done, ++i);
    }
    return i;
}

/* As track_flush(), and uncharges the frees from limits. */
static void flush_with_limits(struct thread *t)
{
    uint32_t sequence = load_relaxed(&t->free_buffer_sequence);
    jespan_assert(!(sequence & 1)); /* no flush within a flush */
    store_relaxed(&t->free_buffer_sequence, sequence + 1);
    atomic_thread_fence(memory_order_release);
    for (uint32_t i = load_relaxed(&t->free_buffer_done); i < load_relaxed(&t->free_buffer_count);) {
        void *p = load_relaxed(&t->free_buffer_object[i]);
        header_t *slot = load_relaxed(&t->free_buffer_slot[i]);
        unsigned class = load_relaxed(&t->free_buffer_class[i]);
        int32_t header = header_signed(slot);
        if (unlikely(!header))
            track_die_not_allocated(p);
        struct counters *c = likely(header > 0) ? counters_get(t, (uint32_t)header) : NULL; /* not within the section: it may allocate */
        if (likely(c)) {
            i = flush_run(t, i, sequence, header, c);
            continue;
        }
        count_buffered(t, i, sequence, slot, class);
        put(t, class, (struct free_object){p, slot});
        store_release(&t->free_buffer_done, ++i);
    }
    store_relaxed(&t->free_buffer_count, 0);
    store_release(&t->free_buffer_done, 0);
    store_release(&t->free_buffer_sequence, sequence + 2);
}

/* ---- What else a flush does ---- */

/* Pointers, so that programs without limits, and flushes that do nothing first, need no branch. `track_flush_chosen` is
 * `plain_flush` or do_first_and_flush(). It is only exchanged for what it should have been, so the first limit, which changes both, is
 * never undone. */
static flush_function do_first_and_flush;
static flush_function *_Atomic plain_flush = track_flush;
flush_function *_Atomic track_flush_chosen = track_flush;
static _Atomic unsigned flush_first; /* enum flush_first, added up */

COLD void track_begin_limits(void)
{
    store_release(&plain_flush, flush_with_limits);
    store_release(&track_flush_chosen, flush_with_limits);
}

static bool choose_flush(void)
{
    bool does = atomic_load(&flush_first);
    flush_function *plain = load_acquire(&plain_flush), *expected = does ? plain : do_first_and_flush;
    atomic_compare_exchange_strong(&track_flush_chosen, &expected, does ? do_first_and_flush : plain);
    return does;
}

COLD void track_let_flush(enum flush_first what, bool does)
{
    if (does)
        atomic_fetch_or(&flush_first, what);
    else
        atomic_fetch_and(&flush_first, ~(unsigned)what);
    if (!choose_flush())
        choose_flush(); /* another thread may have wanted something between the two steps of the first call */
}

static COLD void do_first_and_flush(struct thread *t)
{
    unsigned first = load_relaxed(&flush_first);
    if (first & FLUSH_LOOKS)
        peak_looks_now();
    for (uint32_t i = load_relaxed(&t->free_buffer_done); first & FLUSH_PROBES && i < load_relaxed(&t->free_buffer_count); i++)
        probes_free(load_relaxed(&t->free_buffer_object[i]), free_buffer_tag(t, i));
    if (first & FLUSH_TEMPORARY)
        temporary_before_flush(t);
    load_acquire(&plain_flush)(t);
}

void track_flush_any(struct thread *t)
{
    load_relaxed(&track_flush_chosen)(t);
}

void thread_cache_flush(struct thread *t)
{
    track_flush_any(t);
    magazine_empty(t);
    arena_cache_flush_thread(t);
}
