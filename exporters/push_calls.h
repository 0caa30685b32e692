/* SPDX-License-Identifier: BSD-2-Clause */
/* A period's figures with the calls that allocated: what stacks have is added to a digest below the spans, call by call. */
#ifndef JESPAN_PUSH_CALLS_H
#define JESPAN_PUSH_CALLS_H

#include <stdbool.h>

#include "calls.h"
#include "digest.h"
#include "period.h"
#include "period_stacks.h"

struct push_calls {
    struct snapshot period; /* the snapshot, with the figures of the period */
    struct snapshot_row *rows;
    struct snapshot_stack *stacks;
    struct totals retired;
    bool has_calls;
    struct calls calls; /* if there are any */
};

/* Ends a period. Returns 0 or -ENOMEM: then nothing was told, and the next period has it. Free it in any case. The snapshot must outlive
 * it. */
int push_calls_make(struct push_calls *c, struct period *period, struct period_stacks *stacks, const struct snapshot *s);

/* Makes calls of the stacks. Without them, or without memory, all is with the spans. */
void push_calls_find(struct push_calls *c);

/* Asks the host for names. Returns whether it looks for any, so that it may be asked again. */
bool push_calls_lack_names(struct push_calls *c, const struct service_host *host);

/* Adds everything to the digest, with the names that there are. To be called once. */
void push_calls_add(struct push_calls *c, const struct service_host *host, struct digest *digest);

void push_calls_free(struct push_calls *c);

#endif
