/* SPDX-License-Identifier: BSD-2-Clause */
/* What outlived its span, by site: the top offenders. */
#ifndef JESPAN_OUTLIVED_H
#define JESPAN_OUTLIVED_H

#include <stddef.h>

#include "jespan/jespan.h"
#include "snapshot/snapshot.h"

/* Writes the first `room` sites with such memory, those with the most bytes first, and sets *n to how many there are. One
 * caller at a time, who gives a newer snapshot each time: growth is since an earlier one. Returns 0 or -ENOMEM. */
int outlived_list(const struct snapshot *s, struct jespan_outlived *list, size_t room, size_t *n);

#endif
