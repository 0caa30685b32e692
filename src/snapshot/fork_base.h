/* SPDX-License-Identifier: BSD-2-Clause */
/* What a forked child had at the fork, of which its parent reports. The child keeps a snapshot of that (snapshot_note_fork()). */
#ifndef JESPAN_FORK_BASE_H
#define JESPAN_FORK_BASE_H

#include "snapshot/snapshot.h"
#include "snapshot/view.h"

/* Changes a snapshot that nobody else uses, of a forked child, so that its cumulative figures are those at the fork. Nothing is changed
 * where the child keeps none, or cannot be read: the figures then are those of the snapshot. */
void fork_base_apply(struct view *view, struct snapshot *s);

#endif
