/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks while a rule of `alert` holds (the key `alert_stacks`), in one process.
 *
 * The mode is changed only where nobody else has changed it since: what a user sets by hand stays. */
#ifndef JESPAN_ALERT_STACKS_H
#define JESPAN_ALERT_STACKS_H

#include <stdbool.h>

#include "report/alerts.h"
#include "stacks/stacks.h"

/* A zeroed one is that of a process in which nothing was set. */
struct alert_stacks {
    char set[STACK_MODE_BYTES], before[STACK_MODE_BYTES]; /* what was set last, and before that; "": conf.stacks */
};

/* Finds out which mode to set after a look. `now` is the mode of the process; it may be the one before the last that was set,
 * as a process may be told late. Returns false if nothing is to be set. If the caller sets `mode`, it notes that. */
bool alert_stacks_wants(const struct alert_stacks *a, const struct alert_news *news, unsigned n, const char *now,
                        char mode[STACK_MODE_BYTES]);
void alert_stacks_note(struct alert_stacks *a, const char *mode);

#endif
