/* SPDX-License-Identifier: BSD-2-Clause */
/* Services (src/report/service.h): modules that deliver by themselves, each on a worker. To add one, add a row in
 * services.c. */
#ifndef JESPAN_SERVICES_H
#define JESPAN_SERVICES_H

#include <stdbool.h>
#include <stdint.h>

#include "report/service.h"

/* Once, when libc works: loads and prepares the configured services. A service calls `end_before_others` if it must end
 * before handlers of atexit() that are registered already. */
void services_boot(void (*end_before_others)(void));

/* Whether services are ready, and starting them. */
bool services_want_threads(void);
void services_start_threads(void);

/* Whether any service is configured. */
bool services_are_configured(void);

/* At exit: asks all of them to end by a time on the monotonic clock, then waits for them until that time. */
void services_ask_to_stop(uint64_t until_ns);
void services_wait(uint64_t until_ns);

/* Around fork. No service runs in the child; with conf.follow_fork they are ready again. */
void services_before_fork(void);
void services_after_fork_in_parent(void);
void services_after_fork_in_child(void);

extern struct push_stats services_pyroscope, services_otlp;
extern struct http_stats services_http;

#endif
