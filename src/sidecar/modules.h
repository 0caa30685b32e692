/* SPDX-License-Identifier: BSD-2-Clause */
/* The services in the sidecar, each on a thread. They are those of the program (src/report/service.h) with another
 * host: its snapshots are readings, and its mallctl() has only names that can be read from outside the program.
 *
 * Pyroscope, OTLP and events have a thread for each process, HTTP one for all. One thread uses these functions.
 */
#ifndef JESPAN_MODULES_H
#define JESPAN_MODULES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "report/sidecar_page.h"
#include "sidecar/readings.h"

struct modules;

/* A descriptor that becomes readable when a service ends, or a negative errno. modules_collect() empties it. */
int modules_open(void);

/* Whether each process has services that deliver figures at its end. */
bool modules_deliver_last(void);

/* Loads and starts the configured services for a process. They hold the readings. `forked`: the process reports what
 * is new from now on. `pushes`: also Pyroscope and OTLP. NULL: there are none. */
struct modules *modules_start(struct readings *readings, const char *name, bool forked, bool pushes);

/* Starts pushing later, if `pushes` was false. Accepts NULL. */
void modules_start_pushing(struct modules *m, struct readings *readings, const char *name, bool forked);

/* Asks them to end until a time on the monotonic clock, and frees them when they have. Then tells the slot (NULL: none)
 * of the process that everything is delivered. Accepts NULL. */
void modules_stop(struct modules *m, uint64_t until_ns, struct sidecar_slot *slot, pid_t pid);

/* Whether the process may end before they have delivered: they need nothing more of its memory, and few others are ending.
 * Accepts NULL. */
bool modules_may_outlive(const struct modules *m);

/* Looks for services that have ended, or should have. */
void modules_collect(void);

/* When modules_collect() is due at the latest. UINT64_MAX: nothing is ending. */
uint64_t modules_next_ns(void);

/* Starts the service for all processes, if it is configured and does not run. `name` and `pid` are those of the program
 * that was started. */
void modules_start_common(pid_t pid, const char *name);
void modules_stop_common(uint64_t until_ns);

#endif
