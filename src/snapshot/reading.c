/* SPDX-License-Identifier: BSD-2-Clause */
/* A reading: the sums of all threads' counters, a chunk of contexts at a time. */
#include "snapshot/reading.h"

#include <string.h>

#include "base/clock.h"
#include "heap/magazine.h"
#include "heap/sums.h"
#include "heap/timing.h"

/* A thread that existed at the beginning, and its free buffer then. */
struct source {
    struct thread *thread;
    counters_chunk_t *chunks;
    const _Atomic uint64_t *moved;
    uint32_t sequence;
    int n_freed;
};

struct reading {
    uint32_t end, n_sources;
    uint64_t time, patience;
    struct freed *freed; /* the buffered frees of all sources, in their order */
    struct source sources[];
};

#define SOURCE_BYTES (sizeof(struct source) + FREE_BUFFER_MAX * sizeof(struct freed))

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
        *s = (struct source){.thread = t, .chunks = t->chunks, .moved = t->moved,
                              .sequence = load_acquire(&t->free_buffer_sequence)};
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

uint64_t reading_moved(const struct reading *r, uint32_t chunk)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->n_sources; i++)
        sum += load_acquire(&r->sources[i].moved[chunk]);
    struct thread *t = r->sources[r->n_sources - 1].thread;
    while ((t = thread_next(t)))
        sum += load_acquire(&t->moved[chunk]);
    return sum;
}

static uint64_t cpu_now(struct thread *t)
{
    return cpu_clock_of(&t->cpu);
}

HOT_INLINE void add_thread(struct totals *sums, struct reading_batch *b, struct thread *t, counters_chunk_t *chunk,
                           bool is_last)
{
    struct counters *counters = load_acquire(chunk);
    if (!counters)
        return;
    const struct counters *next = is_last ? NULL : load_relaxed(chunk + 1);
    b->chunks[b->n] = counters;
    b->threads[b->n] = t;
    b->next[b->n] = next ? next : counters;
    if (++b->n == READING_BATCH) {
        reading_add(sums, b);
        b->n = 0;
    }
}

/* Threads that came after the beginning have no source. They are read too, as they may have allocated what others
 * freed. */
static void add_threads(const struct reading *r, uint32_t first, struct totals *sums)
{
    const struct reading_source own_source = {sums_add_pair, cpu_now, timing_is_on};
    struct reading_batch b = {.of = &own_source};
    uint32_t chunk = first / READING_CHUNK;
    bool is_last = r->end - first <= READING_CHUNK;
    for (uint32_t i = 0; i < r->n_sources; i++)
        add_thread(sums, &b, r->sources[i].thread, &r->sources[i].chunks[chunk], is_last);
    struct thread *t = r->sources[r->n_sources - 1].thread;
    while ((t = thread_next(t)))
        add_thread(sums, &b, t, &t->chunks[chunk], is_last);
    reading_add(sums, &b);
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
    uint64_t pending_bytes = depot_bytes();
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
