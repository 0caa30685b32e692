/* SPDX-License-Identifier: BSD-2-Clause */
/* Live objects of closed spans, by site, those with the most bytes first. */
#ifndef JESPAN_OUTLIVED_H
#define JESPAN_OUTLIVED_H

#include <stddef.h>

#include "jespan/jespan.h"
#include "snapshot/snapshot.h"

/* Writes at most `room` sites that have such objects, and sets *n to the number of all. One caller at a time, with a
 * newer snapshot each time, since growth is since an earlier one. Returns 0 or -ENOMEM. */
int outlived_list(const struct snapshot *s, struct jespan_outlived *list, size_t room, size_t *n);

#endif
