/* SPDX-License-Identifier: BSD-2-Clause */
/* The changes between one snapshot and the next, context by context (snapshot_delta.h).
 *
 * A period's totals are those of its time alone, with two exceptions. What a context held at its start counts as moved
 * in, so that in use is what the context holds at the end, by the same formula as always (totals.h). outlived_* are
 * those of the end. Periods add up to the snapshots' sum; contexts that were recycled are in "(retired)".
 */
#ifndef JESPAN_PERIOD_H
#define JESPAN_PERIOD_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot/snapshot.h"

#define PERIOD_RETIRED UINT32_MAX /* in place of a row */

struct period;

/* Gets the totals of a context that did anything in the period, or holds anything. `row` indexes the snapshot's rows,
 * or is PERIOD_RETIRED. */
typedef void period_each(void *user, const struct snapshot *s, uint32_t row, const struct totals *totals);

struct period *period_make(void); /* NULL: no memory */
void period_free(struct period *p);

/* Calls `each` for what is new in `s`, the next snapshot. The first has all since the program began. Returns 0, or
 * -ENOMEM: then nothing was told, and the next period has it. */
int period_next(struct period *p, const struct snapshot *s, period_each *each, void *user);

#endif
