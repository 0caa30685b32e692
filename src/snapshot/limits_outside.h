/* SPDX-License-Identifier: BSD-2-Clause */
/* The limits of another process, read from outside. */
#ifndef JESPAN_LIMITS_OUTSIDE_H
#define JESPAN_LIMITS_OUTSIDE_H

#include <stdint.h>

#include "snapshot/view.h"

struct limit_outside {
    uint32_t row; /* of the snapshot: the context that has the limit */
    uint64_t soft_bytes, hard_bytes; /* 0: none */
    uint64_t refusals;
};

/* Calls `found` for each limit whose context is in `s`, the newest snapshot of the view. Returns 0 or a negative errno of
 * view_open(). */
typedef void limits_outside_found(void *to, const struct limit_outside *limit);
int limits_outside_list(struct view *view, const struct snapshot *s, limits_outside_found *found, void *to);

#endif
