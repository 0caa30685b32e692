/* SPDX-License-Identifier: BSD-2-Clause */
/* The sums of counters that a view keeps from one snapshot to the next, so that it reads only what may have changed.
 *
 * A thread tells what it changes with counters_moved() (heap/counters.h): a number for each chunk of its counters, which only
 * grows. The *key* of a chunk is the sum of these numbers over all threads and of the lives of its contexts. It is read before
 * the counters. If a key is the same as before, none of its parts has changed.
 *
 * The sums *stand* where a reading saw the same key as the one before, which saw all threads outside of the chunk's contexts:
 *
 * - What was counted outside of an enter and its exit was counted before the number grew. If a reading did not see it, the number
 *   grows after the key was read, so the next key differs.
 * - What was counted after an enter, for which the number had grown before the key was read: the reading sees the enter. If it
 *   does not see the exit, the sums do not stand. If it does, it may have read other counters before they had their last value,
 *   but the next reading comes after the exit, and sees all.
 *
 * A number of a context begins a new life with a base (tree.h), which contains all that was counted until then. So a reading with
 * new lives reads the counters again, and no sum is less than its base.
 *
 * A forked child reads all again: the kernel copies the program's memory page by page while other threads of the parent run. */
#ifndef JESPAN_SUMS_KEPT_H
#define JESPAN_SUMS_KEPT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/totals.h"
#include "snapshot/reading.h"

struct view;

struct kept_chunk {
    uint64_t key;
    uint64_t since; /* the snapshot (its epoch) from which on rows are as the sums say; older ones may have others */
    bool closed; /* the last reading saw all enters with their exits */
    bool stands;
    bool has_open; /* spans of its contexts are open, so their rows change by themselves */
    struct totals sums[READING_CHUNK];
};

/* With fewer counters than this, a snapshot reads all of them, which takes less than a millisecond, and keeps nothing.
 * Tests change it. */
extern uint32_t sums_kept_least;

/* To be called when a reading of contexts below `end` begins, before any of its numbers is read. Returns whether sums are
 * kept. If not, or without memory, kept_chunk() returns NULL. */
bool sums_kept_begin(struct view *view, uint32_t end, uint32_t n_threads);

/* The chunk of contexts from `first` on. */
struct kept_chunk *sums_kept_chunk(const struct view *view, uint32_t first);

/* Whether the sums stand, now that this key was read. If not, they are to be read, and then sums_kept_note() is to be called. */
bool sums_kept_stand(struct kept_chunk *kept, uint64_t key);
void sums_kept_note(struct kept_chunk *kept);

void sums_kept_forget(struct view *view);

#endif
