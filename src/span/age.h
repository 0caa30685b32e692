/* SPDX-License-Identifier: BSD-2-Clause */
/* Ages of live memory. With age_period_s, each context has a child context for each period in which it allocated.
 * Headers have the tags of these children. Only snapshots see them: a snapshot adds them to the row of their parent,
 * and tells how much of each period is live. When a period has nothing in use, it is recycled, and its figures become
 * the parent's.
 *
 * A span learns the present period when it is entered. A thread that stays inside learns it when it does something
 * rare. With periods, threads enter only under LOCK_TREE.
 */
#ifndef JESPAN_AGE_H
#define JESPAN_AGE_H

#include <stdint.h>

#include "base/compiler.h"
#include "heap/thread.h"

extern INTERNAL bool age_is_on; /* constant after age_boot() */

/* To be called once. Reads the configuration. */
void age_boot(void);

uint32_t age_find_period(uint32_t context); /* for age_period_of() */

/* The tag for memory that is allocated now in `context`: the child for the present period, or the context itself where
 * ages are not kept or no id is free. Returns 0 when out of memory. Under LOCK_TREE. */
HOT_INLINE uint32_t age_period_of(uint32_t context)
{
    return unlikely(age_is_on) ? age_find_period(context) : context;
}

/* Whether two contexts are periods of the same one. Under LOCK_TREE. */
bool age_is_same_context(uint32_t a, uint32_t b);

/* The end of the present period, as a time of clock_ticks(). */
uint64_t age_period_end(void);

#endif
