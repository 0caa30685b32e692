/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that looks at this process for alerts (alerts.h). With a sidecar, it runs only for a callback. */
#ifndef JESPAN_ALERT_WATCH_H
#define JESPAN_ALERT_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "jespan/alert.h"

/* Reads the rules. Starting the thread starts none if it would have nothing to do. */
void alert_watch_boot(void);
bool alert_watch_wants_thread(void);
void alert_watch_start_thread(void);

/* Returns 0, -EDEADLK in a callback, or the error of starting the thread. */
int alert_watch_set_callback(jespan_alert_callback_t *callback, void *user);

/* At exit: lets the thread end, and waits for it until a time on the monotonic clock. */
void alert_watch_ask_to_stop(void);
void alert_watch_wait(uint64_t until_ns);

/* In a forked child, where the thread does not run: boots anew if conf.follow_fork. */
void alert_watch_after_fork(void);

#endif
