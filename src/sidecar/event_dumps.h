/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps of a process for events (dump_on), which the sidecar writes in place of a thread in the process. It looks at the memory
 * that the process has left, and is told of other events by the page. */
#ifndef JESPAN_EVENT_DUMPS_H
#define JESPAN_EVENT_DUMPS_H

#include <stdint.h>

#include "sidecar/served.h"

/* Once. Returns the reasons to watch for: DUMP_BIT() of each. */
uint32_t event_dumps_boot(void);

/* Does what is due. The program was found. */
void event_dumps_tend(struct served *p);

/* The program ends by exit: does all that waits too. */
void event_dumps_tend_last(struct served *p);

/* When that is due. UINT64_MAX: nothing is watched. */
uint64_t event_dumps_next_ns(const struct served *p);

/* The program has ended, or executed another one. */
void event_dumps_end(struct served *p);

#endif
