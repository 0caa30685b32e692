/* SPDX-License-Identifier: BSD-2-Clause */
/* Alerts: rules of the configuration about snapshots (the key `alert`).
 *
 * The sidecar looks at each process that it serves. A process without a sidecar looks at itself (alert_watch.c).
 * Nothing here allocates. One thread at a time. */
#ifndef JESPAN_ALERTS_H
#define JESPAN_ALERTS_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot/snapshot.h"

#define ALERTS_MOST 32
#define ALERTS_PAST 16 /* earlier values of a rule of growth */

/* The state of one rule for one process. A zeroed one is that of a rule that was not looked at yet. */
struct alert_state {
    bool is_over; /* it was told. It is told again only after the value fell below seven eighths of the threshold */
    uint8_t n_past, next_past;
    struct {
        uint64_t ns, bytes;
    } past[ALERTS_PAST];
};

struct alert_news {
    const char *rule; /* as in the configuration */
    uint64_t bytes;   /* the value now */
    uint32_t row;     /* the context that has most of it */
    uint64_t row_bytes;
};

/* Reads the rules of conf.alert. Names those that are wrong on stderr, and leaves them out. Returns how many there are. */
unsigned alerts_parse(void);

/* Looks at a snapshot taken at `now_ns`, and tells each rule that is newly exceeded. `states` has a state for each rule.
 * Returns how many were told. */
typedef void alert_teller(void *arg, const struct alert_news *news);
unsigned alerts_look(struct alert_state *states, const struct snapshot *s, uint64_t now_ns, alert_teller *tell, void *arg);

#endif
