/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that dumps. Started only when the configuration gives it something to do. */
#ifndef JESPAN_REPORTER_H
#define JESPAN_REPORTER_H

#include <stdint.h>

/* Starts it where dumps are configured. Its signals are blocked, its allocations credited to "(jespan)". */
void reporter_start(void);

/* At exit, before destructors of static objects and what was given to atexit(): the last dump where it is wanted then.
 * Waits for it until a time on the monotonic clock. */
void reporter_dump_before_destructors(uint64_t until_ns);

/* At the end of exit: has it end and, where configured, write the last dump; then waits for that. */
void reporter_ask_to_stop(void);
void reporter_wait(uint64_t until_ns);

/* In a forked child, where no reporter runs: starts one when conf.follow_fork says so. */
void reporter_after_fork(void);

#endif
