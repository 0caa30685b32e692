/* SPDX-License-Identifier: BSD-2-Clause */
/* What is entered on a thread, and the context that follows from it. The public span API is in span_api.c. */
#ifndef JESPAN_SPAN_H
#define JESPAN_SPAN_H

#include "thread.h"
#include "tree.h"

/* Makes `context` the one outside any span on this thread, in place of the former base. Takes LOCK_TREE.
 * Returns 0 or -ENOMEM. */
int span_set_base(struct thread *t, uint32_t context);

/* The base for a thread of this name. Returns 0 or -ENOMEM. */
int span_set_base_by_name(struct thread *t, const char *name);

/* Leaves everything that is entered, and the base. For a thread that ends. */
void span_leave_all(struct thread *t);

/* Enters `context`, a live one that cannot be recycled now. Returns 0 or -ENOMEM. */
int span_push(struct thread *t, enum entry_kind kind, uint64_t key, uint32_t context);

/* From here to span_leave_self() the thread's allocations are jespan's own. Return 0 or -ENOMEM; nothing to leave then. */
int span_enter_self(struct thread *t);
void span_leave_self(struct thread *t);

/* Counts that the thread is inside `context`. NULL: no memory. */
struct counters *span_count_enter(struct thread *t, uint32_t context);

/* Takes the entry at `index` out, counts the exit and makes current what is innermost now. */
void span_remove(struct thread *t, uint32_t index);

/* The innermost entry of that kind and key; −1 when there is none. */
int64_t span_find(const struct thread *t, enum entry_kind kind, uint64_t key);

#endif
