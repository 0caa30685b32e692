/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that watches limits and tells the program. It runs once there is a limit, and a callback, a soft limit or
 * on_limit asks for events. */
#ifndef JESPAN_LIMIT_EVENTS_H
#define JESPAN_LIMIT_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "jespan/limit.h"

/* Starts the thread if it is needed and does not run. Called after limits were set. Returns 0 or a
 * negative errno. */
int limit_events_start(void);

/* Returns 0, -EDEADLK in a callback, or an error of limit_events_start(). */
int limit_events_set_callback(jespan_limit_callback_t *callback, void *user);

/* Start and end of the process, and a forked child, as in reporters.h. */
bool limit_events_want_thread(void);
void limit_events_start_thread(void);
void limit_events_ask_to_stop(void);
void limit_events_wait(uint64_t until_ns);
void limit_events_after_fork(void);

#endif
