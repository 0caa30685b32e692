/* SPDX-License-Identifier: BSD-2-Clause */
/* What each stack adds from one snapshot to the next, as period.h has it for contexts. */
#ifndef JESPAN_PERIOD_STACKS_H
#define JESPAN_PERIOD_STACKS_H

#include "snapshot/snapshot.h"

/* What was told of stacks. A zeroed one is empty. */
struct period_stacks {
    struct stack_told *told; /* of all stacks of the last snapshot */
    uint32_t n;
};

/* Makes a list of what stacks have added since the last call, one entry for each context and innermost frame: what was allocated and
 * freed in this time, and what is in use at its end. `rows` are the totals of the period of each row of the snapshot: stacks of a row
 * never have more than these. Returns how many there are, and stores the list in *list, which is to be freed. Or a negative errno: the
 * next call has what this one would have told. */
int64_t period_stacks_next(struct period_stacks *p, const struct snapshot *s, struct snapshot_row *rows, struct snapshot_stack **list);

void period_stacks_free(struct period_stacks *p);

#endif
