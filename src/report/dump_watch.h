/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread "jespan:oom" writes dumps for events (dump_on). It watches how much memory is left, and handles the
 * events of dump_on.h. */
#ifndef JESPAN_DUMP_WATCH_H
#define JESPAN_DUMP_WATCH_H

#include <stdint.h>

/* Once, when libc works: starts the thread if the configuration asks for it. Writes configuration errors to stderr. */
void dump_watch_start(void);

/* At exit. */
void dump_watch_ask_to_stop(void);
void dump_watch_wait(uint64_t until_ns);

/* In a forked child, where the thread does not run: starts it again if conf.follow_fork. */
void dump_watch_after_fork(void);

/* Parses dump_on. Returns the DUMP_BIT() of each reason. Unknown reasons are named on stderr. */
uint32_t dump_watch_parse(const char *text);

#endif
