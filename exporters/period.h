/* SPDX-License-Identifier: BSD-2-Clause */
/* What happened between one snapshot and the next, context by context.
 *
 * A period's totals are those of its time alone; what a context held at its start counts as moved in, so that in use is
 * what it holds at the end, by the same formula as ever (totals.h). outlived_* are those of the end. Nothing is told
 * twice and nothing is lost, as with reporters (snapshot_delta.h): periods add up to the snapshots' sum, contexts that were
 * recycled in "(retired)". A total that goes down counts as unchanged until it has caught up.
 */
#ifndef JESPAN_PERIOD_H
#define JESPAN_PERIOD_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot/snapshot.h"

#define PERIOD_RETIRED UINT32_MAX /* in place of a row */

struct period;

/* Gets a context's totals of the period: where it did anything, or holds anything. `row` indexes the snapshot's rows, or
 * is PERIOD_RETIRED. */
typedef void period_each(void *user, const struct snapshot *s, uint32_t row, const struct totals *totals);

struct period *period_make(void); /* NULL: no memory */
void period_free(struct period *p);

/* What is new in `s`, the next snapshot; the first has all since the program began. Returns 0, or -ENOMEM: then nothing
 * was told, and it is part of the next. */
int period_next(struct period *p, const struct snapshot *s, period_each *each, void *user);

#endif
