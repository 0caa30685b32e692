/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that dumps. Started only when the configuration gives it something to do. */
#ifndef JESPAN_REPORTER_H
#define JESPAN_REPORTER_H

#include <stdint.h>

/* Starts it where dumps are configured. Its signals are blocked, its allocations credited to "(jespan)". */
void dump_timer_start(void);

/* At exit, before destructors of static objects and what was given to atexit(): the last dump where it is wanted then.
 * Waits for it until a time on the monotonic clock. */
void dump_timer_dump_before_destructors(uint64_t until_ns);

/* At the end of exit: has it end and, where configured, write the last dump; then waits for that. */
void dump_timer_ask_to_stop(void);
void dump_timer_wait(uint64_t until_ns);

/* In a forked child, where no reporter runs: starts one when conf.follow_fork says so. */
void dump_timer_after_fork(void);

#endif
