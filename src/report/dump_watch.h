/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread that dumps when something happens (dump_on), "jespan:oom": it looks how near the process is to what ends it,
 * and takes up events (dump_on.h). */
#ifndef JESPAN_DUMP_WATCH_H
#define JESPAN_DUMP_WATCH_H

#include <stdint.h>

/* Once, when libc is up: starts it where the configuration asks for it. Says on stderr what is wrong with that. */
void dump_watch_start(void);

/* At exit. */
void dump_watch_ask_to_stop(void);
void dump_watch_wait(uint64_t until_ns);

/* In a forked child, where it does not run: starts it anew with conf.follow_fork. */
void dump_watch_after_fork(void);

/* The reasons in a dump_on, as DUMP_BIT()s. What is none is named on stderr. */
uint32_t dump_watch_parse(const char *text);

#endif
