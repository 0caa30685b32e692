/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's own reporters (jespan/reporter.h), each with its own thread. */
#ifndef JESPAN_REPORTERS_H
#define JESPAN_REPORTERS_H

#include <stdint.h>

/* Once, when libc works: loads and starts the configured reporters. */
void reporters_boot(void);

/* At exit: asks all reporters for their last round, then waits for them until a time on the monotonic clock. */
void reporters_ask_to_stop(void);
void reporters_wait(uint64_t until_ns);

/* In a forked child, where no reporter runs: starts the configured ones again if conf.follow_fork. */
void reporters_after_fork(void);

/* The number of registered reporters. */
uint64_t reporters_count(void);

/* Rounds that were due while their reporter was still busy with an earlier one. */
uint64_t reporters_misses(void);

#endif
