/* SPDX-License-Identifier: BSD-2-Clause */
/* Adds up one chunk of several threads. */
#include "snapshot/reading.h"

#include "base/clock.h"
#include "heap/lifetimes.h"
#include "heap/timing.h"

/* Sums stay in registers while the counters of several threads are added. */
struct sums {
    uint64_t alloc_objects, alloc_bytes, alloc_requested_bytes, free_objects, free_bytes, enters, exits;
};

/* The thread freed something while the pair was read: read it again. */
static NOINLINE void add_moving_pair(struct sums *s, struct counters *c, reading_pair_function *read_pair)
{
    struct totals pair = {0};
    read_pair(&pair, c);
    s->alloc_objects += pair.alloc_objects;
    s->alloc_bytes += pair.alloc_bytes;
    s->alloc_requested_bytes += pair.alloc_requested_bytes;
    s->free_objects += pair.free_objects;
    s->free_bytes += pair.free_bytes;
    s->enters += pair.enters;
    s->exits += pair.exits;
}

/* As sums_add_pair(), but in registers. Most pairs stand still, so reading the frees once more is all the care they
 * need. */
HOT_INLINE void add_counters_pair(struct sums *s, struct counters *c, reading_pair_function *read_pair)
{
    uint64_t free_objects = load_acquire(&c->free_objects), free_bytes = load_acquire(&c->free_bytes);
    uint64_t exits = load_acquire(&c->exits), alloc_objects = load_relaxed(&c->alloc_objects);
    uint64_t alloc_bytes = load_acquire(&c->alloc_bytes), requested_bytes = load_acquire(&c->alloc_requested_bytes);
    uint64_t enters = load_acquire(&c->enters);
    if (unlikely(load_relaxed(&c->free_bytes) != free_bytes)) {
        add_moving_pair(s, c, read_pair);
        return;
    }
    s->alloc_objects += alloc_objects;
    s->alloc_bytes += alloc_bytes;
    s->alloc_requested_bytes += requested_bytes;
    s->free_objects += free_objects;
    s->free_bytes += free_bytes;
    s->enters += enters;
    s->exits += exits;
}

/* Fetches the next chunk of each thread meanwhile, into the second-level cache, as it is more than the first holds. */
static void add_pairs(struct totals *to, const struct reading_batch *b)
{
    for (uint32_t i = 0; i < READING_CHUNK; i++, to++) {
        struct sums s = {to->alloc_objects, to->alloc_bytes, to->alloc_requested_bytes,
                         to->free_objects, to->free_bytes, to->enters, to->exits};
        for (uint32_t k = 0; k < b->n; k++) {
            prefetch_read(&b->next[k][i]);
            add_counters_pair(&s, &b->chunks[k][i], b->of->read_pair);
        }
        to->alloc_objects = s.alloc_objects;
        to->alloc_bytes = s.alloc_bytes;
        to->alloc_requested_bytes = s.alloc_requested_bytes;
        to->free_objects = s.free_objects;
        to->free_bytes = s.free_bytes;
        to->enters = s.enters;
        to->exits = s.exits;
    }
}

/* A word of time that is passing is completed by the clock (timing.h). The clock is read after the word, because the
 * time may have begun after the reading did. If the word has changed afterwards, the time had ended before the clock
 * was read, perhaps long before, as this thread may have been preempted in between: then both are read again. Time
 * passes for one context of a thread, or for few, so this is rare. */
#define TIME_TRIES 64

static uint64_t resolve_time(const _Atomic uint64_t *word, reading_clock_function *cpu_now, struct thread *t)
{
    uint64_t time = 0;
    for (int i = 0; i < TIME_TRIES; i++) {
        uint64_t says = load_relaxed(word);
        time = timing_is_over(says) ? says : timing_resolve(says, cpu_now ? cpu_now(t) : clock_ticks_after_loads());
        atomic_thread_fence(memory_order_acquire);
        if (load_relaxed(word) == says)
            break;
    }
    return time;
}

static uint64_t time_in(const _Atomic uint64_t *word)
{
    uint64_t says = load_relaxed(word);
    return likely(timing_is_over(says)) ? says : resolve_time(word, NULL, NULL);
}

static uint64_t cpu_time_in(const _Atomic uint64_t *word, reading_clock_function *cpu_now, struct thread *t)
{
    uint64_t says = load_relaxed(word);
    return likely(timing_is_over(says)) ? says : resolve_time(word, cpu_now, t);
}

static uint64_t open_time_in(const struct counters_more *more, bool times)
{
    uint64_t time = 0;
    for (int i = 0; i < TIME_TRIES; i++) {
        uint64_t opens = load_relaxed(&more->opens), says = load_relaxed(&more->wall);
        uint64_t n = opens & (((uint64_t)1 << OPENS_SHIFT) - 1);
        if (likely(!n && timing_is_over(says)))
            return says;
        time = timing_resolve_open(says, n, times ? clock_ticks_after_loads() : 0);
        atomic_thread_fence(memory_order_acquire);
        if (load_relaxed(&more->wall) == says && load_relaxed(&more->opens) == opens)
            break;
    }
    return time;
}

/* Adds the counters that only some contexts have on a thread. */
static void add_more(struct totals *to, struct counters *c, struct counters_more *more, bool times)
{
    to->credited_out_objects += load_acquire(&more->credited_out_objects);
    to->credited_out_bytes += load_acquire(&more->credited_out_bytes);
    to->credited_in_objects += load_relaxed(&more->credited_in_objects);
    to->credited_in_bytes += load_relaxed(&more->credited_in_bytes);
    to->lifetimes += lifetimes_now(c, more);
    uint64_t opens = load_relaxed(&more->opens);
    to->wall += open_time_in(more, times);
    to->opens += opens >> OPENS_SHIFT;
    to->cpu_user += load_relaxed(&more->cpu_user);
    to->cpu_system += load_relaxed(&more->cpu_system);
}

static void add_all_more(struct totals *to, const struct reading_batch *b)
{
    for (uint32_t k = 0; k < b->n; k++) {
        for (uint32_t left = load_relaxed(&counters_chunk(b->chunks[k])->more_used); left; left &= left - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(left);
            add_more(&to[i], &b->chunks[k][i], counters_more(&b->chunks[k][i]), b->of->times);
        }
    }
}

static void add_times(struct totals *to, const struct reading_batch *b)
{
    for (uint32_t i = 0; i < READING_CHUNK; i++, to++) {
        uint64_t busy = 0, cpu = 0;
        for (uint32_t k = 0; k < b->n; k++) {
            struct counters *c = &b->chunks[k][i];
            busy += time_in(&c->busy);
            cpu += cpu_time_in(counters_cpu(c), b->of->cpu_now, b->threads[k]);
        }
        to->busy += busy;
        to->cpu += cpu;
    }
}

static void add_temporary(struct totals *to, const struct reading_batch *b)
{
    for (uint32_t k = 0; k < b->n; k++)
        for (uint32_t i = 0; i < READING_CHUNK && load_relaxed(&counters_chunk(b->chunks[k])->has_temporary); i++)
            to[i].temporary_objects += counters_temporary(&b->chunks[k][i]);
}

void reading_add(struct totals sums[READING_CHUNK], const struct reading_batch *b)
{
    add_pairs(sums, b);
    add_times(sums, b);
    add_all_more(sums, b);
    add_temporary(sums, b);
}
