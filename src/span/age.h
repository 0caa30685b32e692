/* SPDX-License-Identifier: BSD-2-Clause */
/* Ages of live memory: with age_period_s, each context has one context below it for each period in which memory was
 * born, and that is what headers are tagged with. Nobody else sees these: snapshots add them to their parent's row, and
 * say beside it how much is live of which period. When nothing of a period is left, its figures become the parent's own.
 *
 * Periods are known to spans as they are entered, and to threads that stay where they are as they do something rare. All
 * entering is under LOCK_TREE then.
 */
#ifndef JESPAN_AGE_H
#define JESPAN_AGE_H

#include <stdint.h>

#include "base/compiler.h"
#include "heap/thread.h"

extern bool age_is_on; /* constant after age_boot() */

/* Once, by the configuration. */
void age_boot(void);

uint32_t age_find_period(uint32_t context); /* for the next */

/* What memory that is born now in `context` is tagged with: a context below it; the same when there is no room for one, or
 * ages are not kept. Under LOCK_TREE. Returns the id, 0 when out of memory. */
HOT_INLINE uint32_t age_period_of(uint32_t context)
{
    return unlikely(age_is_on) ? age_find_period(context) : context;
}

/* Whether two contexts are periods of the same one. Under LOCK_TREE. */
bool age_is_same_owner(uint32_t a, uint32_t b);

/* When the present period ends, by clock_ticks(). */
uint64_t age_period_end(void);

#endif
