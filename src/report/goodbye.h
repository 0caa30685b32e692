/* SPDX-License-Identifier: BSD-2-Clause */
/* The process's side of the page that it shares with its sidecar (sidecar_page.h): it says that it exists, and that it is
 * about to end, so that its last dump is exact. */
#ifndef JESPAN_GOODBYE_H
#define JESPAN_GOODBYE_H

#include <stdbool.h>
#include <stdint.h>

/* Once, at the start: takes a slot in the page, and leaves dumps and services to the sidecar. If the page cannot be
 * reached or is full, nobody reports for the process: a thread could break a sandbox. Leaves no descriptor open. */
void goodbye_start(void);

/* Where the sidecar shows the rules of `alert` for this process. NULL: it does not report for this process. */
struct alert_figures;
struct alert_figures *goodbye_alerts(void);

/* In a forked child: takes a slot if forked children are followed. */
void goodbye_after_fork(void);

/* Whether a sidecar reports for this process. */
bool goodbye_is_served(void);

/* Leaves the events of those reasons (DUMP_BIT()) to the sidecar. Returns false if there is none, or if it was not told to write
 * dumps for all of them. */
bool goodbye_leave_events(uint32_t reasons);

/* At exit: waits until the sidecar has read this process and delivered everything, at most until a time on the
 * monotonic clock. Waits 5 s at most for the reading, and half a second for a sidecar that is stopped. Does nothing if
 * it was called before, or if the process has no sidecar, the sidecar is dead, or it does not wait for this process.
 * The only system call is futex(2), since a sandbox may forbid others. */
void goodbye_say(uint64_t until_ns);

/* Waits in the same way for one more dump. To be called before goodbye_say(). */
void goodbye_say_first(uint64_t until_ns);

#endif
