/* SPDX-License-Identifier: BSD-2-Clause */
/* The books in the state file. */
#include "base/state_file.h"
#include "heap/magazine.h"
#include "snapshot/books.h"
#include "snapshot/snapshot.h"

#define WATCH(variable) state_watch((const void *)(variable), sizeof *(variable))

/* What reports read. The page map, headers, limits, arenas and the mailbox are left out: other commands read these in a
 * process that lives. */
void snapshot_publish_state(void)
{
    if (!state_is_on())
        return;
    state_watch(&books, sizeof books);
    WATCH(books.contexts);
    WATCH(books.context_lives);
    WATCH(books.context_bases);
    WATCH(books.context_pasts);
    WATCH(books.context_end);
    WATCH(books.retired);
    WATCH(books.peaks);
    state_watch(books.first_thread, offsetof(struct thread, entries_inline));
    state_watch(books.class_bytes, CLASSES_MAX * sizeof *books.class_bytes);
    state_watch(books.magazine_max, CLASSES_MAX * sizeof *books.magazine_max);
    WATCH(books.depot);
    WATCH(books.clock);
    WATCH(books.cpu_clock);
    WATCH(books.times);
    WATCH(books.lifetimes);
    WATCH(books.start_ns);
    WATCH(books.start_unix_ns);
    WATCH(books.frames);
    WATCH(books.frames_end);
    WATCH(books.codes);
    WATCH(books.codes_end);
    WATCH(books.stacks);
    WATCH(books.thread_pasts);
    state_file_publish();
}
