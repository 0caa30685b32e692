/* SPDX-License-Identifier: BSD-2-Clause */
/* Starts the thread that evaluates alerts. The library does this itself; programs with the core in them (JESPAN_NO_INTERPOSE) do not
 * start jespan's threads. */
#ifndef JESPAN_TESTS_ALERT_THREAD_H
#define JESPAN_TESTS_ALERT_THREAD_H

#include "family.h"

#ifdef JESPAN_NO_INTERPOSE
void alert_watch_boot(void);
void alert_watch_start_thread(void);
#else
static inline void alert_watch_boot(void)
{
}

static inline void alert_watch_start_thread(void)
{
}
#endif

static inline void start_alert_thread(void)
{
    F(free)(F(malloc)(1)); /* reads the configuration */
    alert_watch_boot();
    alert_watch_start_thread();
}

#endif
