/* SPDX-License-Identifier: BSD-2-Clause */
/* The program's own reporters (jespan/reporter.h), each with its own thread. */
#ifndef JESPAN_REPORTERS_H
#define JESPAN_REPORTERS_H

#include <stdbool.h>
#include <stdint.h>

/* Once, when libc works: loads the configured reporters. Then they can start. */
void reporters_boot(void);
bool reporters_want_threads(void);
void reporters_start_threads(void);

/* At exit: asks all reporters for their last round, then waits for them until a time on the monotonic clock. */
void reporters_ask_to_stop(void);
void reporters_wait(uint64_t until_ns);

/* In a forked child, where no reporter runs. The configured ones may start again. */
void reporters_after_fork(void);

/* The number of registered reporters. */
uint64_t reporters_count(void);

/* Rounds that were due while their reporter was still busy with an earlier one. */
uint64_t reporters_misses(void);

#endif
