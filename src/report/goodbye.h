/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells the sidecar that this process is about to end, so that its last dump is exact. */
#ifndef JESPAN_GOODBYE_H
#define JESPAN_GOODBYE_H

#include <stdint.h>

/* Once, at the start: maps the page of the sidecar (sidecar_page.h) if there is one. Leaves no descriptor open. */
void goodbye_start(void);

/* At exit: waits until the sidecar has read this process and delivered everything, at most until a time on the
 * monotonic clock. Waits 5 s at most for the reading, and half a second for a sidecar that is stopped. Does nothing if
 * there is no sidecar for this process, or it is dead, or the second time.
 * The only system call is futex(2), since a sandbox may forbid others. */
void goodbye_say(uint64_t until_ns);

#endif
