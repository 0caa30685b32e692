/* SPDX-License-Identifier: BSD-2-Clause */
/* Alerts: rules of the configuration about snapshots (the key `alert`).
 *
 * The sidecar looks at each process that it serves. A process without a sidecar looks at itself (alert_watch.c).
 * Nothing here allocates. One thread at a time. */
#ifndef JESPAN_ALERTS_H
#define JESPAN_ALERTS_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "snapshot/alert_figures.h"
#include "snapshot/snapshot.h"

#define ALERTS_PAST 16 /* earlier values of a rule of growth */

/* The state of one rule for one process. A zeroed one is that of a rule that was not looked at yet. */
struct alert_state {
    bool is_over; /* it holds: from a value above the bound until one below seven eighths of it */
    uint8_t n_past, next_past;
    struct {
        uint64_t ns, bytes;
    } past[ALERTS_PAST];
};

/* A rule after a look. */
struct alert_news {
    const char *rule; /* as in the configuration */
    const char *span; /* the pattern for the innermost span's name; NULL: the rule is for all contexts */
    bool holds;
    bool is_new;          /* it has begun to hold */
    uint64_t bytes;       /* the value now */
    uint64_t bound_bytes; /* as the rule has it */
    uint32_t row;         /* the context that has most of it */
    uint64_t row_bytes;   /* 0: no context has any */
};

/* Reads rules, fewer than CONF_STRING_BYTES bytes, into alerts_shown (snapshot/alert_figures.h). Leaves wrong rules out; `wrong` may be
 * NULL. Returns how many rules there are. */
unsigned alerts_read(const char *list, conf_wrong_item *wrong, const char *key);

/* Evaluates all rules with a snapshot taken at `now_ns`. `states`, `figures` and `news` have an element for each rule;
 * `figures` may be NULL. Returns how many rules have begun to hold. */
unsigned alerts_look(struct alert_state *states, struct alert_figures *figures, const struct snapshot *s, uint64_t now_ns,
                     struct alert_news *news);

#endif
