/* SPDX-License-Identifier: BSD-2-Clause */
/* The services in the sidecar, each on a thread. They are those of the program (src/report/service.h) with another
 * host: its snapshots are readings, and its mallctl() knows only what is known outside of the program.
 */
#ifndef JESPAN_MODULES_H
#define JESPAN_MODULES_H

#include <stdint.h>
#include <sys/types.h>

#include "sidecar/readings.h"

/* Loads and starts the configured services. They use `readings` until modules_stop(). `name` is the program's. */
void modules_start(struct readings *readings, pid_t pid, const char *name);

/* Asks all of them to end, and waits for them until a time on the monotonic clock. */
void modules_stop(uint64_t until_ns);

#endif
