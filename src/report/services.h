/* SPDX-License-Identifier: BSD-2-Clause */
/* Services (src/report/service.h): modules that deliver by themselves, each on a worker. Adding one is a row in
 * services.c. */
#ifndef JESPAN_SERVICES_H
#define JESPAN_SERVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "report/service.h"

/* Once, when libc is up: loads and starts those that the configuration asks for. What they call where they would have
 * to end before others is given here. */
void services_boot(void (*end_before_others)(void));

/* Whether it asks for any. */
bool services_are_configured(void);

/* At exit: asks all of them to end by a time on the monotonic clock, then waits for them until that time. */
void services_ask_to_stop(uint64_t until_ns);
void services_wait(uint64_t until_ns);

/* Around fork. In a child none runs; with conf.follow_fork they start anew. */
void services_before_fork(void);
void services_after_fork_in_parent(void);
void services_after_fork_in_child(void);

extern struct pyroscope_stats services_pyroscope;
extern struct http_stats services_http;

#endif
