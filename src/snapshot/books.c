/* SPDX-License-Identifier: BSD-2-Clause */
/* The books of this process, and the note that leads to them. */
#include "snapshot/books.h"

#include "heap/classes.h"
#include "heap/magazine.h"
#include "heap/timing.h"
#include "snapshot/books_fingerprint.h"
#include "snapshot/snapshot.h"
#include "span/events.h"

const struct books books = {
    .magic = BOOKS_MAGIC,
    .layout = BOOKS_LAYOUT,
    .fingerprint = BOOKS_FINGERPRINT,
    .contexts = &contexts,
    .context_lives = &context_lives,
    .context_bases = &context_bases,
    .context_pasts = &context_pasts,
    .context_end = &tree_next_id,
    .retired = &contexts_retired,
    .first_thread = &thread_orphan,
    .class_bytes = class_bytes,
    .magazine_max = magazine_max,
    .clock = &clock_state,
    .cpu_clock = &cpu_clock_wanted,
    .times = &timing_is_on,
    .start_ns = &snapshot_start_ns,
    .page_root = page_root,
    .class_slab_pages = class_slab_pages,
    .frames = &stack_frames,
    .frames_end = &stack_frames_end,
    .stacks = &stacks_stats,
    .thread_pasts = &thread_pasts,
    .mailbox = &mailbox,
    .slow_work = &slow_work,
    .events = &event_rings,
};

/* A note has a name and a content, both padded to 4 bytes. */
__asm__(".pushsection .note.jespan, \"a\", @note\n"
        ".balign 4\n"
        ".long 7, 8, 1\n"
        ".asciz \"jespan\"\n"
        ".balign 4\n"
        "1: .quad jespan_books - 1b\n"
        ".popsection\n");
_Static_assert(sizeof BOOKS_NOTE_NAME == 7 && BOOKS_NOTE_TYPE == 1, "the note says so");
