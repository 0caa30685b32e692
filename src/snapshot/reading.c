/* SPDX-License-Identifier: BSD-2-Clause */
/* A reading: the sums of all threads' counters, a chunk of contexts at a time. */
#include "snapshot/reading.h"

#include <string.h>

#include "base/clock.h"
#include "heap/magazine.h"
#include "heap/sums.h"
#include "heap/timing.h"

#define BATCH 8

/* A thread that existed at the beginning, and its free buffer then. */
struct source {
    struct thread *thread;
    counters_chunk_t *chunks;
    uint32_t sequence;
    int n_freed;
};

struct reading {
    uint32_t end, n_sources;
    uint64_t time, patience;
    struct freed *freed; /* the buffered frees of all sources, in their order */
    struct source sources[];
};

#define SOURCE_BYTES (sizeof(struct source) + PENDING_MAX * sizeof(struct freed))

size_t reading_bytes(void)
{
    size_t bytes = sizeof(struct reading);
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        bytes += SOURCE_BYTES;
    return bytes;
}

struct reading *reading_begin(void *memory, size_t bytes, uint32_t end)
{
    struct reading *r = memory;
    size_t room = (bytes - sizeof *r) / SOURCE_BYTES;
    struct freed *freed = (struct freed *)&r->sources[room];
    *r = (struct reading){.end = end, .freed = freed, .time = timing_now(), .patience = sums_patience()};
    for (struct thread *t = thread_first(); t && r->n_sources < room; t = thread_next(t)) {
        struct source *s = &r->sources[r->n_sources++];
        *s = (struct source){.thread = t, .chunks = t->chunks, .sequence = load_acquire(&t->free_buffer_sequence)};
        s->n_freed = sums_read_buffer(t, freed);
        cpu_clock_doubt(&t->cpu);
        freed += s->n_freed;
    }
    return r;
}

uint64_t reading_time(const struct reading *r)
{
    return r->time;
}

/* The same chunk of several threads: sums stay in registers while their counters are added. */
struct batch {
    uint32_t n;
    struct thread *threads[BATCH];
    struct counters *chunks[BATCH];
    const struct counters *next[BATCH]; /* the next chunk of each of these threads */
};

struct sums {
    uint64_t alloc_objects, alloc_bytes, alloc_requested_bytes, free_objects, free_bytes, enters, exits;
};

/* The thread freed something while the pair was read: read it again. */
static NOINLINE void add_moving_pair(struct sums *s, struct counters *c)
{
    struct totals pair = {0};
    sums_add_pair(&pair, c);
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
HOT_INLINE void add_counters_pair(struct sums *s, struct counters *c)
{
    uint64_t free_objects = load_acquire(&c->free_objects), free_bytes = load_acquire(&c->free_bytes);
    uint64_t exits = load_acquire(&c->exits), alloc_objects = load_relaxed(&c->alloc_objects);
    uint64_t alloc_bytes = load_acquire(&c->alloc_bytes), requested_bytes = load_acquire(&c->alloc_requested_bytes);
    uint64_t enters = load_acquire(&c->enters);
    if (unlikely(load_relaxed(&c->free_bytes) != free_bytes)) {
        add_moving_pair(s, c);
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
static void add_batch_pairs(struct totals *to, const struct batch *b)
{
    for (uint32_t i = 0; i < READING_CHUNK; i++, to++) {
        struct sums s = {to->alloc_objects, to->alloc_bytes, to->alloc_requested_bytes,
                         to->free_objects, to->free_bytes, to->enters, to->exits};
        for (uint32_t k = 0; k < b->n; k++) {
            prefetch_read(&b->next[k][i]);
            add_counters_pair(&s, &b->chunks[k][i]);
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

static uint64_t resolve_time(const _Atomic uint64_t *word, struct thread *cpu_of)
{
    uint64_t time = 0;
    for (int i = 0; i < TIME_TRIES; i++) {
        uint64_t says = load_relaxed(word);
        time = timing_is_over(says) ? says : timing_resolve(says, cpu_of ? cpu_clock_of(&cpu_of->cpu) : clock_ticks_after_loads());
        atomic_thread_fence(memory_order_acquire);
        if (load_relaxed(word) == says)
            break;
    }
    return time;
}

static uint64_t time_in(const _Atomic uint64_t *word)
{
    uint64_t says = load_relaxed(word);
    return likely(timing_is_over(says)) ? says : resolve_time(word, NULL);
}

static uint64_t cpu_time_in(const _Atomic uint64_t *word, struct thread *t)
{
    uint64_t says = load_relaxed(word);
    return likely(timing_is_over(says)) ? says : resolve_time(word, t);
}

static uint64_t open_time_in(const struct counters_more *more)
{
    uint64_t time = 0;
    for (int i = 0; i < TIME_TRIES; i++) {
        uint64_t opens = load_relaxed(&more->opens), says = load_relaxed(&more->wall);
        uint64_t n = opens & (((uint64_t)1 << OPENS_SHIFT) - 1);
        if (likely(!n && timing_is_over(says)))
            return says;
        time = timing_resolve_open(says, n, timing_is_on ? clock_ticks_after_loads() : 0);
        atomic_thread_fence(memory_order_acquire);
        if (load_relaxed(&more->wall) == says && load_relaxed(&more->opens) == opens)
            break;
    }
    return time;
}

/* Adds the counters that only some contexts have on a thread. */
static void add_more(struct totals *to, struct counters_more *more)
{
    to->credited_out_objects += load_acquire(&more->credited_out_objects);
    to->credited_out_bytes += load_acquire(&more->credited_out_bytes);
    to->credited_in_objects += load_relaxed(&more->credited_in_objects);
    to->credited_in_bytes += load_relaxed(&more->credited_in_bytes);
    uint64_t opens = load_relaxed(&more->opens);
    to->wall += open_time_in(more);
    to->opens += opens >> OPENS_SHIFT;
    to->cpu_system += load_relaxed(&more->cpu_system);
}

static void add_batch_more(struct totals *to, const struct batch *b)
{
    for (uint32_t k = 0; k < b->n; k++) {
        for (uint32_t left = load_relaxed(&counters_chunk(b->chunks[k])->more_used); left; left &= left - 1) {
            uint32_t i = (uint32_t)__builtin_ctz(left);
            add_more(&to[i], counters_more(&b->chunks[k][i]));
        }
    }
}

static void add_batch_times(struct totals *to, const struct batch *b)
{
    for (uint32_t i = 0; i < READING_CHUNK; i++, to++) {
        uint64_t busy = 0, cpu = 0;
        for (uint32_t k = 0; k < b->n; k++) {
            struct counters *c = &b->chunks[k][i];
            busy += time_in(&c->busy);
            cpu += cpu_time_in(counters_cpu(c), b->threads[k]);
        }
        to->busy += busy;
        to->cpu += cpu;
    }
}

static void add_batch(struct totals *to, const struct batch *b)
{
    add_batch_pairs(to, b);
    add_batch_times(to, b);
    add_batch_more(to, b);
}

HOT_INLINE void add_thread(struct totals *sums, struct batch *b, struct thread *t, counters_chunk_t *chunk,
                           bool is_last)
{
    struct counters *counters = load_acquire(chunk);
    if (!counters)
        return;
    const struct counters *next = is_last ? NULL : load_relaxed(chunk + 1);
    b->chunks[b->n] = counters;
    b->threads[b->n] = t;
    b->next[b->n] = next ? next : counters;
    if (++b->n == BATCH) {
        add_batch(sums, b);
        b->n = 0;
    }
}

/* Threads that came after the beginning have no source. They are read too, as they may have allocated what others
 * freed. */
static void add_threads(const struct reading *r, uint32_t first, struct totals *sums)
{
    struct batch b;
    uint32_t chunk = first / READING_CHUNK;
    bool is_last = r->end - first <= READING_CHUNK;
    b.n = 0;
    for (uint32_t i = 0; i < r->n_sources; i++)
        add_thread(sums, &b, r->sources[i].thread, &r->sources[i].chunks[chunk], is_last);
    struct thread *t = r->sources[r->n_sources - 1].thread;
    while ((t = thread_next(t)))
        add_thread(sums, &b, t, &t->chunks[chunk], is_last);
    add_batch(sums, &b);
}

/* Reads again where it took long: another thread had the processor, and meanwhile others could free much that was read
 * as allocated. */
void reading_chunk(const struct reading *r, uint32_t first, struct totals sums[READING_CHUNK])
{
    for (int i = 0; i < SUMS_TRIES; i++) {
        uint64_t begin = clock_ticks();
        memset(sums, 0, READING_CHUNK * sizeof *sums);
        add_threads(r, first, sums);
        if (clock_ticks_after_loads() - begin <= r->patience)
            break;
    }
    for (uint32_t i = 0; i < READING_CHUNK; i++)
        totals_floor_inuse(&sums[i]);
}

/* Paired with track_flush(): a reader that has read a counter which the flush changed sees the new sequence number
 * too. */
uint64_t reading_end(const struct reading *r, void (*add)(void *to, uint32_t context, uint32_t bytes), void *to)
{
    uint64_t pending_bytes = 0;
    const struct freed *freed = r->freed;
    atomic_thread_fence(memory_order_acquire);
    for (const struct source *s = r->sources; s < r->sources + r->n_sources; s++) {
        const struct freed *end = freed + s->n_freed;
        pending_bytes += magazine_bytes(s->thread);
        bool still_there = load_relaxed(&s->thread->free_buffer_sequence) == s->sequence;
        for (; still_there && freed < end; freed++) {
            pending_bytes += freed->bytes;
            add(to, freed->context, freed->bytes);
        }
        freed = end;
    }
    return pending_bytes;
}
