/* SPDX-License-Identifier: BSD-2-Clause */
/* Thread blocks: the list of all of them, and which threads have one. */
#include "heap/thread.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/die.h"
#include "base/figures.h"
#include "base/futex.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/state_file.h"
#include "heap/depot.h"

THREAD_LOCAL struct thread_fast thread_fast;
THREAD_LOCAL struct thread *thread_current;
THREAD_LOCAL enum thread_state thread_state;
struct thread thread_orphan;
_Atomic uint32_t thread_invalidations;
_Atomic uint32_t thread_ends;
_Atomic bool thread_ends_awaited;

static pthread_key_t end_key;
static size_t directory_bytes;
static struct thread *last = &thread_orphan; /* LOCK_THREADS */
static struct thread *free_blocks;           /* LOCK_THREADS */
static _Atomic uint32_t live_count, block_count = 1;
FIGURE_ROW(figure_threads, "spans.stats.threads", live_count, FIGURE_NUMBER);

/* Both have a word for each chunk of counters. */
static void set_directories(struct thread *t, char *memory)
{
    t->chunks = (counters_chunk_t *)memory;
    t->moved = (_Atomic uint64_t *)(memory + directory_bytes);
}

int thread_boot(uint32_t max_contexts, void (*ended)(struct thread *))
{
    directory_bytes = max_contexts / COUNTERS_PER_CHUNK * sizeof(counters_chunk_t);
    set_directories(&thread_orphan, meta_map(2 * directory_bytes));
    if (!thread_orphan.chunks)
        return -ENOMEM;
    state_watch(thread_orphan.chunks, directory_bytes);
    return -pthread_key_create(&end_key, (void (*)(void *))(uintptr_t)ended);
}

COLD void thread_copy_to_state(const struct thread *t)
{
    if (!state_is_on())
        return;
    STATE_COPY(t->chunks);
    STATE_COPY(t->cpu);
    state_copy(&t->before, (size_t)((const char *)(&t->thread_id + 1) - (const char *)&t->before));
    STATE_COPY(t->name);
    STATE_COPY(t->next);
    STATE_COPY(t->live);
}

static struct thread *make_block(void)
{
    jespan_assert(lock_is_held(LOCK_THREADS));
    struct thread *t = meta_alloc(sizeof *t);
    if (!t)
        return NULL;
    /* With a state file, each mapping is a segment of it, and there are only so many. */
    bool is_part = state_is_on() && 2 * directory_bytes <= META_CHUNK_BYTES;
    set_directories(t, is_part ? meta_alloc(2 * directory_bytes) : meta_map(2 * directory_bytes));
    if (!t->chunks)
        return NULL; /* the block's few KiB are lost */
    if (!is_part)
        state_watch(t->chunks, directory_bytes);
    t->entries = t->entries_inline;
    t->capacity = ENTRIES_INLINE;
    t->depot_shard = (uint8_t)(load_relaxed(&block_count) % DEPOT_SHARDS);
    STATE_COPY(t->chunks);
    store_release(&last->next, t);
    STATE_COPY(last->next);
    last = t;
    atomic_fetch_add_explicit(&block_count, 1, memory_order_relaxed);
    return t;
}

struct thread *thread_acquire_block(void)
{
    lock(LOCK_THREADS);
    struct thread *t = free_blocks;
    if (t)
        free_blocks = t->next_free;
    else
        t = make_block();
    if (t) {
        store_relaxed(&t->live, true);
        t->self = &thread_fast;
    }
    unlock(LOCK_THREADS);
    if (!t)
        return NULL;
    atomic_fetch_add_explicit(&live_count, 1, memory_order_relaxed);
    /* This may allocate. The thread is registering, so the orphan counts that. If it fails, the block is lost when the
     * thread ends. */
    pthread_setspecific(end_key, t);
    return t;
}

void thread_release_block(struct thread *t)
{
    if (pthread_getspecific(end_key) == t)
        pthread_setspecific(end_key, NULL);
    lock(LOCK_THREADS);
    jespan_assert(load_relaxed(&t->live) && !t->depth);
    store_relaxed(&t->live, false);
    t->self = NULL;
    t->next_free = free_blocks;
    free_blocks = t;
    thread_copy_to_state(t);
    unlock(LOCK_THREADS);
    atomic_fetch_sub_explicit(&live_count, 1, memory_order_relaxed);
}

/* A thread whose first allocation comes in the last round of its destructors ends without calling us. Its thread_fast
 * may be unmapped by now, or another thread's. */
static bool is_still_its_own(const struct thread *t)
{
    return futex_is_mapped(t->self) && load_relaxed(&t->self->other) == t;
}

static void clear_alloc(struct thread_fast *fast)
{
    store_relaxed(&fast->alloc, NULL);
    store_relaxed(&fast->alloc_unsampled, NULL);
    store_relaxed(&fast->alloc_stacks, NULL);
}

/* False: the thread is on the slow path already. */
static bool clear(struct thread_fast *fast)
{
    bool was_hot = atomic_exchange_explicit(&fast->other, NULL, memory_order_acq_rel);
    clear_alloc(fast);
    store_relaxed(&fast->free, NULL);
    return was_hot;
}

void thread_make_alloc_review(struct thread *t)
{
    t->invalidations_seen--;
    clear_alloc(&thread_fast);
}

/* Sets thread_fast of all threads to NULL. Where it is NULL already, the thread has ended, or it is on the slow path,
 * where it reads thread_invalidations.
 *
 * Paired with span_review(), which stores its answer and then reads thread_invalidations. */
COLD void thread_invalidate_all_locked(void)
{
    jespan_assert(lock_is_held(LOCK_THREADS));
    atomic_fetch_add_explicit(&thread_invalidations, 1, memory_order_seq_cst);
    for (struct thread *t = thread_next(thread_first()); t; t = thread_next(t))
        if (t->self && is_still_its_own(t) && clear(t->self))
            store_release(&t->maybe_hot, true);
    /* A thread may have reviewed itself while a part of its thread_fast was cleared. So it does it again. */
    atomic_fetch_add_explicit(&thread_invalidations, 1, memory_order_release);
}

COLD void thread_invalidate_all(void)
{
    lock(LOCK_THREADS);
    thread_invalidate_all_locked();
    unlock(LOCK_THREADS);
}

uint32_t thread_count(void)
{
    return load_relaxed(&live_count);
}

uint32_t thread_blocks(void)
{
    return load_relaxed(&block_count);
}

COLD void thread_after_fork(void (*abandon)(struct thread *))
{
    for (struct thread *t = thread_next(thread_first()); t; t = thread_next(t)) {
        if (t == thread_current || !load_relaxed(&t->live))
            continue;
        abandon(t);
        t->tables.busy = false; /* its tables stay for the next owner of the block: to give them back, the child would copy their pages */
        thread_release_block(t);
    }
}

/* ---- Threads that have ended, for readers from outside ---- */

struct thread_pasts thread_pasts;

/* Raised to 0, as timing_resolve() does: a short thread may begin and end on two processors, whose clocks differ by some ticks. */
static uint64_t time_between(uint64_t then, uint64_t now)
{
    return (int64_t)(now - then) < 0 ? 0 : now - then;
}

static struct thread_sums difference(const struct thread_sums *now, const struct thread_sums *then)
{
    return (struct thread_sums){.alloc_objects = now->alloc_objects - then->alloc_objects,
                                .alloc_bytes = now->alloc_bytes - then->alloc_bytes,
                                .free_objects = now->free_objects - then->free_objects,
                                .free_bytes = now->free_bytes - then->free_bytes,
                                .busy = time_between(then->busy, now->busy),
                                .cpu = time_between(then->cpu, now->cpu)};
}

static struct thread_past *next_record(uint64_t n)
{
    _Atomic(struct thread_past *) *chunk = &thread_pasts.chunks[n % THREAD_PASTS / THREAD_PASTS_AT_ONCE];
    struct thread_past *records = load_relaxed(chunk);
    if (!records) {
        records = meta_alloc(THREAD_PASTS_AT_ONCE * sizeof *records);
        store_release(chunk, records);
        STATE_COPY(*chunk);
    }
    return records ? &records[n % THREAD_PASTS_AT_ONCE] : NULL;
}

/* Without memory the record is left out, and its threads stay with those of the next one. Paired with readers, who read
 * `n` before the records. */
COLD void thread_past_add(struct thread *t, const struct thread_sums *now)
{
    bool is_kept = true;
    lock(LOCK_THREADS);
    if (t->lives) {
        uint64_t n = load_relaxed(&thread_pasts.n);
        struct thread_past *past = next_record(n);
        if (past) {
            *past = (struct thread_past){
                .block = t, .sums = difference(now, &t->before), .lives = t->lives, .thread_id = t->thread_id};
            memcpy(past->name, t->name, sizeof past->name);
            store_release(&thread_pasts.n, n + 1);
            STATE_COPY(*past);
            STATE_COPY(thread_pasts.n);
        }
        is_kept = past;
    }
    if (is_kept) {
        t->before = *now;
        t->lives = 0;
    }
    unlock(LOCK_THREADS);
}

COLD void thread_introduce(struct thread *t, int thread_id)
{
    lock(LOCK_THREADS);
    t->lives++;
    t->thread_id = thread_id;
    t->name[0] = '\0';
    unlock(LOCK_THREADS);
}

COLD void thread_rename(struct thread *t, const char name[16])
{
    lock(LOCK_THREADS);
    memcpy(t->name, name, sizeof t->name);
    unlock(LOCK_THREADS);
}
