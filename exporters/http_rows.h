/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of a snapshot as a tree: sums, and the choice of those that hold most. */
#ifndef JESPAN_HTTP_ROWS_H
#define JESPAN_HTTP_ROWS_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot/snapshot.h"

/* Sums the figures of each row and all its descendants. Rows in a circle keep their own figures. False: no memory. */
bool http_rows_sum(const struct snapshot *s, struct totals *sums);

/* Chooses the `limit` rows with the largest keys, and their ancestors. *room is how many rows may be chosen, and becomes how many
 * more may be. A row for which there is no room with its ancestors is left out. False: no memory. */
bool http_rows_choose(const struct snapshot *s, const struct totals *sums, uint64_t (*key)(const struct totals *sum), uint32_t limit,
                      uint32_t *room, bool *chosen);

#endif
