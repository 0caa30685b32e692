/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread "jespan:oom" writes dumps for events (dump_on). It watches how much memory is left, and handles the
 * events of dump_on.h. A process with a sidecar has no such thread: the sidecar does all that. */
#ifndef JESPAN_DUMP_WATCH_H
#define JESPAN_DUMP_WATCH_H

#include <stdint.h>

/* Once, when libc works: starts the thread if the configuration asks for it and no sidecar watches.
 * Writes configuration errors to stderr. */
void dump_watch_start(void);

/* At exit. */
void dump_watch_ask_to_stop(void);
void dump_watch_wait(uint64_t until_ns);

/* In a forked child, where the thread does not run: starts it again if conf.follow_fork. */
void dump_watch_after_fork(void);

#endif
