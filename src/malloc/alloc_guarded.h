/* SPDX-License-Identifier: BSD-2-Clause */
/* Guarded objects: guard/guard.h. */
#ifndef JESPAN_ALLOC_GUARDED_H
#define JESPAN_ALLOC_GUARDED_H

#include <stddef.h>

#include "heap/thread.h"

/* Returns a guarded object, which is counted; NULL if it cannot be guarded, or if the context has an allocation policy. To
 * be called when guard_sample_wants() one. */
void *alloc_guarded(struct thread *t, size_t size, int flags);

#endif
