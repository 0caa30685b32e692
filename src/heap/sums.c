/* SPDX-License-Identifier: BSD-2-Clause */
/* Sums of all threads' counters. */
#include "heap/sums.h"

#include <string.h>

#include "base/clock.h"
#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/state_file.h"
#include "heap/classes.h"
#include "heap/counters.h"
#include "heap/lifetimes.h"
#include "heap/magazine.h"
#include "heap/pagemap.h"
#include "heap/timing.h"

/* ---- Buffered frees ---- */

#define BUFFER_TRIES 64

static uint16_t arena_of(unsigned class, const void *p)
{
    return class < CLASS_IN_ARENA ? 0 : pagemap_arena((uintptr_t)p);
}

/* One attempt to read a thread's free buffer. Returns −1 when the owner was flushing it. Paired with track_flush(): an
 * entry that is read between two equal even sequence numbers was not counted yet. */
static int read_buffer_once(struct thread *t, struct freed freed[FREE_BUFFER_MAX])
{
    uint32_t sequence = load_acquire(&t->free_buffer_sequence);
    if (sequence & 1)
        return -1;
    uint32_t count = load_acquire(&t->free_buffer_count);
    int n = 0;
    for (uint32_t i = load_relaxed(&t->free_buffer_done); i < count && i < FREE_BUFFER_MAX; i++) {
        unsigned class = load_relaxed(&t->free_buffer_class[i]);
        uint32_t tag = free_buffer_tag(t, i);
        if (tag) /* else the object was freed twice; its thread reports that when it flushes */
            freed[n++] = (struct freed){tag, class_bytes[class % CLASSES_MAX], arena_of(class, load_relaxed(&t->free_buffer_object[i]))};
    }
    return sums_stood_still(t, sequence) ? n : -1;
}

int sums_read_buffer(struct thread *t, struct freed freed[FREE_BUFFER_MAX])
{
    for (int i = 0; i < BUFFER_TRIES; i++) {
        int n = read_buffer_once(t, freed);
        if (n >= 0)
            return n;
    }
    return 0;
}

static void add_buffered(struct totals *sum, const struct freed *freed)
{
    sum->free_objects++;
    sum->free_bytes += freed->bytes;
}

uint64_t sums_pending_bytes(void)
{
    uint64_t bytes = depot_bytes();
    struct freed freed[FREE_BUFFER_MAX];
    for (struct thread *t = thread_first(); t; t = thread_next(t)) {
        bytes += magazine_bytes(t);
        for (int n = sums_read_buffer(t, freed); n--;)
            bytes += freed[n].bytes;
    }
    return bytes;
}

/* ---- Counters of one thread ---- */

/* Calls `add` for the counters that the thread has for contexts first … end − 1. */
HOT_INLINE void each_counter(const struct thread *t, uint32_t first, uint32_t end,
                             void (*add)(void *to, uint32_t context, struct counters *), void *to)
{
    for (uint32_t context = first; context < end; context++) {
        struct counters *c = counters_find(t, context);
        if (c)
            add(to, context, c);
        else
            context |= COUNTERS_PER_CHUNK - 1; /* the whole chunk is missing: go on behind it */
    }
}

static void add_frees(struct totals *to, struct counters *c)
{
    to->free_objects += load_acquire(&c->free_objects);
    to->free_bytes += load_acquire(&c->free_bytes);
    to->exits += load_acquire(&c->exits);
    to->temporary_objects += counters_temporary(c);
    struct counters_more *more = counters_used_more(c);
    if (more) {
        to->credited_out_objects += load_acquire(&more->credited_out_objects);
        to->credited_out_bytes += load_acquire(&more->credited_out_bytes);
    }
}

static void add_allocs(struct totals *to, struct counters *c)
{
    to->alloc_objects += load_relaxed(&c->alloc_objects);
    to->alloc_bytes += load_relaxed(&c->alloc_bytes);
    to->alloc_requested_bytes += load_relaxed(&c->alloc_requested_bytes);
    to->enters += load_relaxed(&c->enters);
    struct counters_more *more = counters_used_more(c);
    if (more) {
        to->credited_in_objects += load_relaxed(&more->credited_in_objects);
        to->credited_in_bytes += load_relaxed(&more->credited_in_bytes);
    }
}

/* Times that have ended. */
static void add_times(struct totals *to, struct counters *c)
{
    struct counters_more *more = counters_used_more(c);
    to->busy += load_relaxed(&c->busy);
    to->cpu += load_relaxed(counters_cpu(c));
    if (!more)
        return;
    to->cpu_user += load_relaxed(&more->cpu_user);
    to->cpu_system += load_relaxed(&more->cpu_system);
    to->wall += load_relaxed(&more->wall);
    to->opens += load_relaxed(&more->opens) >> OPENS_SHIFT;
    to->lifetimes += lifetimes_now(c, more);
}

/* ---- Many contexts, all frees before any allocation ---- */

/* Where the sums of contexts go. */
struct range {
    struct totals *sums;
    uint32_t first;
};

static void add_frees_of(void *range, uint32_t context, struct counters *c)
{
    const struct range *to = range;
    add_frees(&to->sums[context - to->first], c);
}

static void add_rest_of(void *range, uint32_t context, struct counters *c)
{
    const struct range *to = range;
    add_allocs(&to->sums[context - to->first], c);
    add_times(&to->sums[context - to->first], c);
}

static void add_frees_of_block(struct range *to, struct thread *t, uint32_t end)
{
    struct freed freed[FREE_BUFFER_MAX];
    each_counter(t, to->first, end, add_frees_of, to);
    for (int i = sums_read_buffer(t, freed); i--;)
        if (freed[i].context >= to->first && freed[i].context < end)
            add_buffered(&to->sums[freed[i].context - to->first], &freed[i]);
}

void sums_read_block(struct totals *sums, struct thread *t, uint32_t first, uint32_t end)
{
    struct range to = {sums, first};
    memset(sums, 0, (end - first) * sizeof *sums);
    add_frees_of_block(&to, t, end);
    atomic_thread_fence(memory_order_acquire);
    each_counter(t, first, end, add_rest_of, &to);
}

void sums_read(struct totals *sums, uint32_t first, uint32_t end)
{
    struct range to = {sums, first};
    memset(sums, 0, (end - first) * sizeof *sums);
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        add_frees_of_block(&to, t, end);
    atomic_thread_fence(memory_order_acquire);
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        each_counter(t, first, end, add_rest_of, &to);
}

/* Calls `add` for the counters that the thread has for contexts first … end − 1. `more_used` is 1 where the rarer ones are in use. */
HOT_INLINE void each_chunk(const struct thread *t, uint32_t first, uint32_t end,
                           void (*add)(struct inuse *, struct counters *, uint32_t more_used), struct inuse *to)
{
    for (uint32_t id = first, next; id < end; id = next) {
        next = (id | (COUNTERS_PER_CHUNK - 1)) + 1;
        struct counters *c = counters_find(t, id);
        if (!c)
            continue;
        uint32_t used = load_acquire(&counters_chunk(c)->more_used) >> counters_index(c);
        for (uint32_t i = 0; i < (next < end ? next : end) - id; i++)
            add(&to[id - first + i], &c[i], used >> i & 1);
    }
}

static void subtract_frees(struct inuse *to, struct counters *c, uint32_t more_used)
{
    to->objects -= load_acquire(&c->free_objects);
    to->bytes -= load_acquire(&c->free_bytes);
    to->inside -= load_acquire(&c->exits);
    if (!more_used)
        return;
    to->objects -= load_acquire(&counters_more(c)->credited_out_objects);
    to->bytes -= load_acquire(&counters_more(c)->credited_out_bytes);
}

static void add_allocated(struct inuse *to, struct counters *c, uint32_t more_used)
{
    to->objects += load_relaxed(&c->alloc_objects);
    to->bytes += load_relaxed(&c->alloc_bytes);
    to->inside += load_relaxed(&c->enters);
    if (more_used) {
        struct counters_more *more = counters_more(c);
        to->objects += load_relaxed(&more->credited_in_objects);
        to->bytes += load_relaxed(&more->credited_in_bytes);
        to->opens += load_relaxed(&more->opens) >> OPENS_SHIFT;
    }
}

static void subtract_buffer(struct inuse *to, struct thread *t, uint32_t first, uint32_t end)
{
    struct freed freed[FREE_BUFFER_MAX];
    for (int i = sums_read_buffer(t, freed); i--;)
        if (freed[i].context >= first && freed[i].context < end) {
            to[freed[i].context - first].objects--;
            to[freed[i].context - first].bytes -= freed[i].bytes;
        }
}

void sums_read_inuse(struct inuse *to, uint32_t first, uint32_t end)
{
    memset(to, 0, (end - first) * sizeof *to);
    for (struct thread *t = thread_first(); t; t = thread_next(t)) {
        each_chunk(t, first, end, subtract_frees, to);
        subtract_buffer(to, t, first, end);
    }
    atomic_thread_fence(memory_order_acquire);
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        each_chunk(t, first, end, add_allocated, to);
}

/* ---- Pairs ---- */

#define PAIR_TRIES 8
#define PATIENCE_NS 20000
#define PATIENCE_THREAD_NS 1000

static bool has_freed_since(struct counters *c, const struct totals *then)
{
    struct counters_more *more = counters_used_more(c);
    atomic_thread_fence(memory_order_acquire);
    return load_relaxed(&c->free_bytes) != then->free_bytes ||
           (more && load_relaxed(&more->credited_out_bytes) != then->credited_out_bytes);
}

void sums_add_pair(struct totals *sum, struct counters *c)
{
    struct totals pair;
    for (int i = 0; i < PAIR_TRIES; i++) {
        pair = (struct totals){0};
        add_frees(&pair, c);
        atomic_thread_fence(memory_order_acquire);
        add_allocs(&pair, c);
        if (!has_freed_since(c, &pair))
            break;
    }
    totals_add(sum, &pair);
}

static void add_pair_of(void *sum, uint32_t context, struct counters *c)
{
    (void)context;
    sums_add_pair(sum, c);
}

uint64_t sums_patience(void)
{
    return clock_ns_to_ticks(PATIENCE_NS + (uint64_t)PATIENCE_THREAD_NS * thread_count(), clock_scale());
}

/* Reads again when the thread flushed its buffer meanwhile, so a free that moves from the buffer to a counter is seen
 * once. */
static void add_thread(struct totals *sum, struct thread *t, uint32_t first, uint32_t end)
{
    struct totals of_thread;
    struct freed freed[FREE_BUFFER_MAX];
    for (int i = 0; i < PAIR_TRIES; i++) {
        uint32_t sequence = load_acquire(&t->free_buffer_sequence);
        of_thread = (struct totals){0};
        each_counter(t, first, end, add_pair_of, &of_thread);
        for (int n = sums_read_buffer(t, freed); n--;)
            if (freed[n].context >= first && freed[n].context < end)
                add_buffered(&of_thread, &freed[n]);
        if (sums_stood_still(t, sequence))
            break;
    }
    totals_add(sum, &of_thread);
}

/* The sum of contexts first … end − 1. */
static struct totals sum_up(uint32_t first, uint32_t end)
{
    struct totals sum;
    uint64_t patience = sums_patience();
    for (int i = 0; i < SUMS_TRIES; i++) {
        uint64_t begin = clock_ticks();
        sum = (struct totals){0};
        for (struct thread *t = thread_first(); t; t = thread_next(t))
            add_thread(&sum, t, first, end);
        if (clock_ticks_after_loads() - begin <= patience)
            break;
    }
    totals_floor_inuse(&sum);
    return sum;
}

struct totals sums_of(uint32_t context)
{
    return sum_up(context, context + 1);
}

struct totals sums_of_all(uint32_t n)
{
    return sum_up(0, n);
}

/* No other thread writes, so each chunk is added up in one go. */
static void add_chunk(struct thread_sums *sum, const struct counters_chunk *chunk)
{
    struct thread_sums s = *sum;
    for (uint32_t i = 0; i < COUNTERS_PER_CHUNK; i++) {
        const struct counters *c = &chunk->counters[i];
        s.alloc_objects += load_relaxed(&c->alloc_objects);
        s.alloc_bytes += load_relaxed(&c->alloc_bytes);
        s.free_objects += load_relaxed(&c->free_objects);
        s.free_bytes += load_relaxed(&c->free_bytes);
        s.busy += load_relaxed(&c->busy);
        s.cpu += load_relaxed(&chunk->cpu[i]);
    }
    *sum = s;
}

struct thread_sums sums_of_thread(const struct thread *t, uint32_t n)
{
    struct thread_sums sum = {0};
    for (uint32_t context = 0; context < n; context += COUNTERS_PER_CHUNK) {
        struct counters *c = counters_find(t, context);
        if (c)
            add_chunk(&sum, counters_chunk(c));
    }
    return sum;
}

/* ---- Memory for counters ---- */

static struct meta_array orphan_chunks; /* of struct counters_chunk */

int counters_boot(uint32_t max_contexts)
{
    return meta_array_begin(&orphan_chunks, ((size_t)max_contexts + COUNTERS_PER_CHUNK - 1) / COUNTERS_PER_CHUNK *
                                               sizeof(struct counters_chunk));
}

COLD bool counters_grow_orphan(uint32_t end)
{
    uint32_t chunks = (end + COUNTERS_PER_CHUNK - 1) / COUNTERS_PER_CHUNK;
    return meta_array_grow(&orphan_chunks, chunks * sizeof(struct counters_chunk));
}

COLD struct counters *counters_make(struct thread *t, uint32_t context)
{
    struct counters_chunk *chunk = state_counters(sizeof *chunk);
    if (!chunk)
        chunk = meta_alloc(sizeof *chunk);
    if (!chunk)
        return NULL;
    store_release(&t->chunks[context >> COUNTERS_CHUNK_BITS], chunk->counters);
    STATE_COPY(t->chunks[context >> COUNTERS_CHUNK_BITS]);
    return &chunk->counters[context & (COUNTERS_PER_CHUNK - 1)];
}

/* The file has the chunk only where the chunk lies in it. */
static COLD struct counters *begin_orphan_chunk(uint32_t number)
{
    struct counters_chunk *in_file = state_counters(sizeof *in_file);
    struct counters_chunk *chunk = in_file ? in_file : &((struct counters_chunk *)orphan_chunks.start)[number];
    store_release(&thread_orphan.chunks[number], chunk->counters);
    if (in_file)
        STATE_COPY(thread_orphan.chunks[number]);
    return chunk->counters;
}

COLD struct counters *counters_orphan(uint32_t context)
{
    jespan_assert(lock_is_held(LOCK_ORPHAN));
    uint32_t number = context >> COUNTERS_CHUNK_BITS;
    struct counters *chunk = load_relaxed(&thread_orphan.chunks[number]);
    if (!chunk)
        chunk = begin_orphan_chunk(number);
    return &chunk[context & (COUNTERS_PER_CHUNK - 1)];
}
