/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the events of threads into their rings: heap/event_ring.h. timing.c calls it where enter and exit take their
 * slow side, as they always do while events are recorded. So they cost nothing where they are not. */
#ifndef JESPAN_EVENTS_H
#define JESPAN_EVENTS_H

#include "heap/event_ring.h"

extern struct event_rings event_rings;

/* In a forked child: forgets what the parent recorded. */
void events_after_fork(void);

#endif
