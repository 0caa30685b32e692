/* SPDX-License-Identifier: BSD-2-Clause */
/* Exceptions that leave a region.
 *
 * Such an exception may be in the region's arena, with the objects that belong to it. Exceptions that are found there
 * become survivors. Other threads may free theirs meanwhile. If none is found, because it was thrown in an inner region
 * for example, the arena stays until its thread is done with the exceptions that it has now.
 */
#ifndef JESPAN_REGION_EXCEPTIONS_H
#define JESPAN_REGION_EXCEPTIONS_H

#include <stdbool.h>

#include "heap/thread.h"
#include "policy/arenas.h"

/* Whether a thread has left a region of the arena by an exception and is not done with it. */
bool region_has_throwers(const struct span_arena *a);

/* Makes survivors of the exceptions in the arena. If the thread that opened the region has one more exception now than
 * when it opened the region, and this one was found, the arena need not wait for the thread: the exception is a
 * survivor, and is gone when it is freed. Takes LOCK_TREE. */
void region_keep_exceptions(struct thread *t, struct span_arena *a);

/* Under LOCK_TREE. Whether threads with exceptions keep the arena from being released. Only a thread itself finds that
 * it is done with its exceptions, since another could look between two of its steps. */
bool region_waits_for_exceptions(struct thread *t, struct span_arena *a);

/* The thread ends, so it has no exceptions any more. Takes LOCK_TREE. */
void region_end_exceptions(struct thread *t);

#endif
