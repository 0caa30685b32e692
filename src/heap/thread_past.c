/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that have ended. */
#include "heap/thread_past.h"

#include <string.h>

#include "base/lock.h"
#include "base/meta.h"

struct thread_pasts thread_pasts;

static struct thread_sums difference(const struct thread_sums *now, const struct thread_sums *then)
{
    return (struct thread_sums){.alloc_objects = now->alloc_objects - then->alloc_objects,
                                .alloc_bytes = now->alloc_bytes - then->alloc_bytes,
                                .free_objects = now->free_objects - then->free_objects,
                                .free_bytes = now->free_bytes - then->free_bytes,
                                .busy = now->busy - then->busy,
                                .cpu = now->cpu - then->cpu};
}

static struct thread_past *next_record(uint64_t n)
{
    _Atomic(struct thread_past *) *chunk = &thread_pasts.chunks[n % THREAD_PASTS / THREAD_PASTS_AT_ONCE];
    struct thread_past *records = load_relaxed(chunk);
    if (!records) {
        records = meta_alloc(THREAD_PASTS_AT_ONCE * sizeof *records);
        store_release(chunk, records);
    }
    return records ? &records[n % THREAD_PASTS_AT_ONCE] : NULL;
}

/* Without memory the record is left out, and its threads stay with those of the next one. Paired with readers, who read
 * `n` before the records. */
COLD void thread_past_add(struct thread *t, const struct thread_sums *now)
{
    if (t->lives) {
        lock(LOCK_THREADS);
        uint64_t n = load_relaxed(&thread_pasts.n);
        struct thread_past *past = next_record(n);
        if (past) {
            *past = (struct thread_past){
                .block = t, .sums = difference(now, &t->before), .lives = t->lives, .thread_id = t->thread_id};
            memcpy(past->name, t->name, sizeof past->name);
            store_release(&thread_pasts.n, n + 1);
        }
        unlock(LOCK_THREADS);
        if (!past)
            return;
    }
    t->before = *now;
    t->lives = 0;
}
