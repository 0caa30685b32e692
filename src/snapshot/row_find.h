/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds contexts of a snapshot by path.
 *
 * A path is names of spans from the outer to the inner one, as far as they are needed: "request > cache". A name may be a
 * pattern, and may have labels: "cache{tenant=blue,shard=*}". */
#ifndef JESPAN_ROW_FIND_H
#define JESPAN_ROW_FIND_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot/snapshot.h"

#define ROW_PATH_BYTES 2048 /* with its NUL. No span fits a longer path */

/* NULL: the path can be read. Else why not. */
const char *row_path_wrong(const char *path);

/* Whether the row is a span at which the path ends. Needs no memory. */
bool row_fits(const struct snapshot *s, uint32_t row, const char *path);

/* Whether the row, or one above it, fits. */
bool row_is_within(const struct snapshot *s, uint32_t row, const char *path);

#endif
