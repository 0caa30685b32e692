/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells one reporter what a snapshot has beyond what it was told before (snapshot_delta.h): contexts that came and
 * went, and figures that changed. Memory is bounded by max_contexts. One thread at a time; no lock is held in a
 * callback. */
#ifndef JESPAN_REPORTER_TELL_H
#define JESPAN_REPORTER_TELL_H

#include <stdint.h>

#include "jespan/reporter.h"
#include "snapshot/snapshot.h"

/* The figures that a reporter was told so far. */
struct reporter_told;

/* For contexts numbered below `end`. NULL: no memory. */
struct reporter_told *reporter_told_make(uint32_t end);
void reporter_told_free(struct reporter_told *r);

/* Makes all calls of a round except flush(). Snapshots come in the order in which they were taken. Returns 0, or
 * -ENOMEM where labels had to be left out. */
int reporter_tell(struct reporter_told *r, const struct snapshot *s, const struct jespan_reporter *to);

#endif
