/* SPDX-License-Identifier: BSD-2-Clause */
/* The books: a constant with the addresses of all that jespan keeps of a program. docs/state.md describes them.
 *
 * The linker fills the constant, so it costs nothing at start. A note in the program or library that contains jespan
 * (ELF, PT_NOTE) leads to them in any process, also in one that is static, stripped, or hangs.
 */
#ifndef JESPAN_BOOKS_H
#define JESPAN_BOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/cpu_clock.h"
#include "base/figures.h"
#include "base/mailbox.h"
#include "heap/counters.h"
#include "heap/depot.h"
#include "heap/pagemap.h"
#include "heap/thread.h"
#include "policy/arena_cache.h"
#include "policy/arenas.h"
#include "policy/limits.h"
#include "snapshot/alert_figures.h"
#include "snapshot/snapshot.h"
#include "span/events.h"
#include "span/peaks.h"
#include "span/tree.h"
#include "stacks/codes.h"
#include "stacks/stacks.h"

#define BOOKS_MAGIC "jespan\n" /* with its NUL */
#define BOOKS_LAYOUT 12u       /* of struct books itself */
#define BOOKS_NOTE_NAME "jespan"
#define BOOKS_NOTE_TYPE 1u /* the note's content is the books' address less its own: 64 bits */

struct books {
    char magic[8];
    uint32_t layout;
    uint32_t fingerprint; /* of all structures that readers read */
    struct context **contexts;
    struct context_head **context_heads;
    _Atomic uint32_t **context_lives;
    struct totals **context_bases, **context_pasts;
    _Atomic uint32_t *context_end;
    struct contexts_retired *retired;
    const struct peaks *peaks;
    struct thread *first_thread;
    const uint32_t *class_bytes; /* CLASSES_MAX */
    const uint16_t *magazine_max;
    const struct depot *depot;
    const struct clock_state *clock;
    const enum cpu_clock_kind *cpu_clock;
    const bool *times, *lifetimes;
    const uint64_t *start_ns, *start_unix_ns; /* by CLOCK_BOOTTIME, and by CLOCK_REALTIME as it was set then */
    const _Atomic(page_entry_t *) *page_root; /* the page map */
    const uint8_t *class_slab_pages;          /* CLASSES_MAX */
    struct stack_frame **frames;
    _Atomic uint32_t *frames_end;
    struct code **codes;
    _Atomic uint32_t *codes_end;
    struct stacks_stats *stacks;
    const struct thread_pasts *thread_pasts;
    struct mailbox *mailbox;
    _Atomic uint32_t *slow_work;
    struct class_row *size_to_class; /* CLASS_ROWS */
    const struct event_rings *events;
    const _Atomic(struct limit *) *limits; /* by chunk */
    struct span_arena **arenas;
    const struct figure_row *figures, *figures_end; /* of jespan itself: base/figures.h */
    struct snapshot **of_fork; /* fork_base.h */
};

extern const struct books books __asm__("jespan_books");

/* The value that books.fingerprint must have for a reader of this build. */
uint32_t books_fingerprint(void);

/* ---- The fingerprint: a hash of sizes and offsets of members of all structures that readers read ---- */

#define FOLD(before, value) ((uint32_t)((before)*0x9e3779b1u ^ (uint32_t)(value)))
#define FOLD_PLACE(before, type, member) FOLD(before, offsetof(struct type, member))

#define FINGERPRINT_SIZES                                                                                              \
    FOLD(FOLD(FOLD(FOLD(FOLD(FOLD(BOOKS_LAYOUT, sizeof(struct books)), sizeof(struct context)), sizeof(struct totals)),  \
                   sizeof(struct thread)), sizeof(struct counters_chunk)),                                               \
         sizeof(struct site) + (sizeof(struct stack_frame) << 16) + (sizeof(struct stacks_stats) << 24) +              \
             sizeof(struct event_ring) + sizeof(struct event_rings) + sizeof(struct thread_past) +                     \
             (sizeof(struct limit) << 8) + (sizeof(struct span_arena) << 12) + (sizeof(struct arena_cache) << 20) +    \
             sizeof(struct alerts_shown) + (sizeof(struct alert_figures) << 16) +                                      \
             (sizeof(struct depot) << 8) + sizeof(struct depot_batch) +                                                \
             sizeof(struct context_head) + (sizeof(struct code) << 14) + (sizeof(struct peaks) << 4) +                 \
             (sizeof(struct context_peaks) << 10) + sizeof(struct snapshot) + (sizeof(struct snapshot_row) << 12))
#define FINGERPRINT_CONTEXT                                                                                            \
    FOLD_PLACE(FOLD_PLACE(FOLD_PLACE(FOLD_PLACE(FOLD_PLACE(FINGERPRINT_SIZES, context, stack), context, site), context,      \
                          label_integers), context, wall), context, open_spans)
#define FINGERPRINT_THREAD                                                                                             \
    FOLD_PLACE(FOLD_PLACE(FOLD_PLACE(FOLD_PLACE(FOLD_PLACE(FINGERPRINT_CONTEXT, thread, chunks), thread, before), thread, \
                                     cpu), thread, next), thread, arena_caches)
#define FINGERPRINT_BUFFER FOLD(FOLD(FOLD_PLACE(FINGERPRINT_THREAD, thread, moved), FREE_BUFFER_MAX), CLASSES_MAX)
#define BOOKS_FINGERPRINT                                                                                              \
    FOLD(FOLD_PLACE(FOLD_PLACE(FINGERPRINT_BUFFER, counters_chunk, more), counters_chunk, temporary_objects),             \
         LEAF_BITS + (sizeof(struct mailbox) << 8) + sizeof(struct leaf_more))

#endif
