/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots that tests of exporters and of the command build by hand, without the library. */
#ifndef JESPAN_TESTS_MADE_SNAPSHOT_H
#define JESPAN_TESTS_MADE_SNAPSHOT_H

#include <stdint.h>

#include "snapshot/snapshot.h"

/* One of: "empty" (0 rows), "small" (a service with a few spans), "twins" (several spans of a name),
 * "hostile" (names that are not text), "chain" (n rows, each below the one before), "rows" (n rows in a bushy tree).
 * NULL for another kind. Free it with made_snapshot_free(). */
struct snapshot *made_snapshot(const char *kind, uint32_t n);

/* Makes a snapshot of these rows, whose strings must stay. The caller sets `epoch` and `retired`. */
struct snapshot *made_snapshot_of(const struct snapshot_row *rows, uint32_t n);
void made_snapshot_free(struct snapshot *s);

#endif
