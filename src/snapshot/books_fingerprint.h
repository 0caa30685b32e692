/* SPDX-License-Identifier: BSD-2-Clause */
/* A number that changes with the layout of the structures that readers read: a hash of sizes and offsets of members. */
#ifndef JESPAN_BOOKS_FINGERPRINT_H
#define JESPAN_BOOKS_FINGERPRINT_H

#include <stddef.h>

#include "snapshot/books.h"

#define FOLD(before, value) ((uint32_t)((before)*0x9e3779b1u ^ (uint32_t)(value)))
#define FOLD_PLACE(before, type, member) FOLD(before, offsetof(struct type, member))

#define FINGERPRINT_SIZES                                                                                              \
    FOLD(FOLD(FOLD(FOLD(FOLD(FOLD(BOOKS_LAYOUT, sizeof(struct books)), sizeof(struct context)), sizeof(struct totals)),  \
                   sizeof(struct thread)), sizeof(struct counters_chunk)),                                               \
         sizeof(struct site) + (sizeof(struct stack_frame) << 16) + (sizeof(struct stacks_stats) << 24) +              \
             sizeof(struct event_ring) + sizeof(struct event_rings) + sizeof(struct thread_past))
#define FINGERPRINT_CONTEXT                                                                                            \
    FOLD_PLACE(FOLD_PLACE(FOLD_PLACE(FOLD_PLACE(FOLD_PLACE(FINGERPRINT_SIZES, context, stack), context, site), context,      \
                          label_integers), context, wall), context, open_spans)
#define FINGERPRINT_THREAD                                                                                             \
    FOLD_PLACE(FOLD_PLACE(FOLD_PLACE(FOLD_PLACE(FINGERPRINT_CONTEXT, thread, chunks), thread, before), thread,           \
                          cpu), thread, next)
#define BOOKS_FINGERPRINT                                                                                              \
    FOLD(FOLD_PLACE(FOLD_PLACE(FOLD(FOLD(FINGERPRINT_THREAD, FREE_BUFFER_MAX), CLASSES_MAX), counters_chunk, more),       \
                    counters_more, cpu_system), LEAF_BITS + (sizeof(struct mailbox) << 8))

#endif
