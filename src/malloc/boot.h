/* SPDX-License-Identifier: BSD-2-Clause */
/* First use of the process and of each thread. What starts them is track_thread(). */
#ifndef JESPAN_BOOT_H
#define JESPAN_BOOT_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/thread.h"

/* Whether allocations can be accounted for. */
bool boot_is_done(void);

/* Whether this call comes out of jemalloc's first use, by the thread that boots. What is allocated then is only noted
 * down, and accounted for when boot is done. boot_early_add(): false: there is no room. boot_early_remove(): false: not
 * one of them. */
bool boot_is_under_way(void);
bool boot_early_add(void *p, size_t requested);
bool boot_early_remove(const void *p);

/* Something that is rare on this thread, so that there is time to look at its name. */
void boot_slow_event(struct thread *t);

#endif
