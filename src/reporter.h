/* SPDX-License-Identifier: BSD-2-Clause */
/* The reporter: the one background thread. Started only when the configuration gives it something to do. */
#ifndef JESPAN_REPORTER_H
#define JESPAN_REPORTER_H

/* Starts it where dumps are configured. Its signals are blocked, its allocations credited to "(jespan)". */
void reporter_start(void);

/* Ends it and, where configured, has the last dump written; waits at most conf.shutdown_timeout_ms. Once. */
void reporter_stop(void);

/* In a forked child, where no reporter runs: starts one when conf.follow_fork says so. */
void reporter_after_fork(void);

#endif
