/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's own reporters (jespan/reporter.h): a thread for each. */
#ifndef JESPAN_REPORTERS_H
#define JESPAN_REPORTERS_H

#include <stdint.h>

/* Once, when libc is up: loads those that the configuration names, and starts them. */
void reporters_boot(void);

/* At exit: has all of them make their last round, then waits for that until a time on the monotonic clock. */
void reporters_ask_to_stop(void);
void reporters_wait(uint64_t until_ns);

/* In a forked child, where none runs: those of the configuration start anew when conf.follow_fork says so. */
void reporters_after_fork(void);

/* How many there are. */
uint64_t reporters_count(void);

/* Rounds that came due while a reporter was busy, also of rounds that are not over. */
uint64_t reporters_misses(void);

#endif
