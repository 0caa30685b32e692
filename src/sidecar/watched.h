/* SPDX-License-Identifier: BSD-2-Clause */
/* Looks at each reading of a process for alerts, and keeps the reading with the most bytes in use. */
#ifndef JESPAN_WATCHED_H
#define JESPAN_WATCHED_H

#include <stdbool.h>
#include <stdint.h>

#include "sidecar/served.h"

/* Reads the rules. */
void watched_boot(void);

/* Nanoseconds between two readings of a process. */
uint64_t watched_interval_ns(uint64_t by_default_ns);

/* NULL: there is no memory, or nothing to watch. */
struct watched *watched_new(void);
void watched_free(struct watched *w);

/* Tells alerts, with a dump, and keeps the reading if it is the highest. */
void watched_look(struct served *p, struct snapshot *s);

/* Writes the highest reading, if it is wanted. */
void watched_write_peak(struct served *p);

#endif
