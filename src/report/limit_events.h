/* SPDX-License-Identifier: BSD-2-Clause */
/* Who is told of limits: the thread that watches them. It runs from when there is a limit, and somebody who wants to
 * know: a callback, a soft limit, or on_limit. */
#ifndef JESPAN_LIMIT_EVENTS_H
#define JESPAN_LIMIT_EVENTS_H

#include <stdint.h>

#include "jespan/limit.h"

/* Starts it where it is wanted and does not run. After limits were set; never from within malloc. Returns 0 or a
 * negative errno. */
int limit_events_start(void);

/* Returns 0, -EDEADLK or what limit_events_start() does. */
int limit_events_set_callback(jespan_limit_callback_t *callback, void *user);

/* Start and end of the process, and a forked child, as with the reporter. */
void limit_events_boot(void);
void limit_events_ask_to_stop(void);
void limit_events_wait(uint64_t until_ns);
void limit_events_after_fork(void);

#endif
