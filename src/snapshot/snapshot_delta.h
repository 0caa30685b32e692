/* SPDX-License-Identifier: BSD-2-Clause */
/* What one reporter was told so far, and telling it what a snapshot has beyond that.
 *
 * All that was told of live contexts, of those that are gone, and of "(retired)" adds up to the snapshot's sum. A total
 * can be lower than what was told: for a moment while threads count (see snapshot.h), or when the clock's rate is
 * corrected. It counts as unchanged then until it has caught up, so nothing is told twice, and no difference is
 * negative. Memory is bounded by max_contexts. One thread at a time; no lock is held in a callback.
 */
#ifndef JESPAN_LEDGER_H
#define JESPAN_LEDGER_H

#include <stdint.h>

#include "jespan/reporter.h"
#include "snapshot/snapshot.h"

struct snapshot_delta;

/* For contexts numbered below `end`. NULL: no memory. */
struct snapshot_delta *snapshot_delta_make(uint32_t end);
void snapshot_delta_free(struct snapshot_delta *l);

/* All calls of a round but flush(). Snapshots come in the order in which they were taken. Returns 0, or -ENOMEM where
 * labels had to be left out. */
int snapshot_delta_tell(struct snapshot_delta *l, const struct snapshot *s, const struct jespan_reporter *to);

#endif
