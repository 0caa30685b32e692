/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread "jespan:oom" writes dumps for events (dump_on). It watches how much memory is left, and handles the
 * events of dump_on.h. A process with a sidecar has no such thread: the sidecar does all that. */
#ifndef JESPAN_DUMP_WATCH_H
#define JESPAN_DUMP_WATCH_H

#include <stdbool.h>
#include <stdint.h>

/* When libc works: writes configuration errors to stderr, and installs the handler of dump_signal. The thread is wanted if
 * the configuration asks for events and no sidecar watches. Until it starts, allocations that fail are no events. */
void dump_watch_boot(void);
bool dump_watch_wants_thread(void);
void dump_watch_start_thread(void);

/* At exit. */
void dump_watch_ask_to_stop(void);
void dump_watch_wait(uint64_t until_ns);

/* In a forked child, where the thread does not run: boots again if conf.follow_fork. */
void dump_watch_after_fork(void);

#endif
