/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of mallctl, read out of another process: spans.* as far as its books have them. The process is not asked, so it may
 * sleep, hang or be stopped. Values have the type of answers of the mailbox (base/mailbox.h). */
#ifndef JESPAN_NAMES_OUTSIDE_H
#define JESPAN_NAMES_OUTSIDE_H

#include <stdbool.h>

#include "base/mailbox.h"
#include "snapshot/snapshot.h"

struct view;

/* `s` is the newest snapshot of the view. Returns 0 or a negative errno:
 *   ENOENT      there is no such context, arena or limit, or the process does not keep that figure
 *   EOPNOTSUPP  the books do not have it: only the process itself can tell, or nobody
 *   EAGAIN      the context was recycled since the snapshot
 *   others      those of view_open() */
int names_outside_get(struct view *view, const struct snapshot *s, const char *name, struct mailbox_answer *answer);

/* Whether the program can be asked for a name that the books do not have. */
bool names_outside_is_asked(const char *name);

/* Calls `found` for each name that fits the pattern (base/parse.h) and has a value, sorted by contexts and arenas. Returns 0 or
 * a negative errno of view_open(). */
typedef void names_outside_found(void *to, const char *name, const struct mailbox_answer *answer);
int names_outside_list(struct view *view, const struct snapshot *s, const char *pattern, names_outside_found *found, void *to);

/* Finds the life of a context's number (span/tree.h), which changes when the number is given to another context.
 * Returns 0, -ENOENT, or another negative errno. */
int names_outside_life(struct view *view, uint32_t id, uint32_t *life);

/* If `name` is "spans.<id>.limit_soft" or "spans.<id>.limit_hard", returns the id; else 0. */
uint32_t names_outside_limited(const char *name);

#endif
