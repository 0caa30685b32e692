/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes that a thread has allocated and freed: jemalloc's thread.allocated and thread.deallocated. */
#include "heap/sums.h"
#include "heap/thread_past.h"
#include "jemalloc/binding.h"
#include "malloc/track.h"
#include "span/span.h"
#include "span/tree.h"

/* A new thread may get a block that has counted for other threads before. What it counted then is subtracted. Summing
 * that up takes time with many contexts, so beyond this number it is done only if some thread has asked for such a
 * figure. Otherwise the threads stay together in the list of threads that have ended. */
#define START_CONTEXTS 4096

static _Atomic bool bytes_wanted;

void track_begin_bytes(struct thread *t)
{
    t->publishes = false;
    t->start_is_known = tree_end() <= START_CONTEXTS || load_relaxed(&bytes_wanted);
    if (t->start_is_known) {
        const struct thread_sums sums = sums_of_thread(t, tree_end());
        t->at_start = (struct thread_bytes){sums.alloc_bytes, sums.free_bytes};
        thread_past_add(t, &sums);
    }
    t->lives++;
}

static uint64_t jemalloc_says(const char *name)
{
    uint64_t bytes = 0;
    size_t size = sizeof bytes;
    return jespan_je_mallctl(name, &bytes, &size, NULL, 0) ? 0 : bytes;
}

struct thread_bytes track_thread_bytes(struct thread *t)
{
    store_relaxed(&bytes_wanted, true);
    track_flush_any(t);
    const struct thread_sums sums = sums_of_thread(t, tree_end());
    const struct thread_bytes now = {sums.alloc_bytes, sums.free_bytes};
    if (!t->start_is_known) {
        t->at_start.allocated = now.allocated - jemalloc_says("thread.allocated");
        t->at_start.deallocated = now.deallocated - jemalloc_says("thread.deallocated");
        t->start_is_known = true;
    }
    return (struct thread_bytes){now.allocated - t->at_start.allocated, now.deallocated - t->at_start.deallocated};
}

struct thread_bytes *track_publish_bytes(struct thread *t)
{
    if (!t->publishes) {
        t->published = track_thread_bytes(t);
        t->publishes = true;
        span_review(t);
    }
    return &t->published;
}
