/* SPDX-License-Identifier: BSD-2-Clause */
/* First use by the process and by each thread. track_thread_slow(), which is in boot.c, starts them. */
#ifndef JESPAN_BOOT_H
#define JESPAN_BOOT_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/thread.h"

/* Whether allocations can be accounted for. */
bool boot_is_done(void);

/* Whether the calling thread starts jespan just now: early.h. */
bool boot_is_under_way(void);

/* To be called on slow paths: reads the thread's name if it may be another one, and moves its new memory to the present period. */
void boot_slow_event(struct thread *t);

/* Reads the name of the calling thread if it was renamed. To be called before an allocation. */
void boot_look_at_new_name(struct thread *t);

/* The calling thread was renamed, which may be in a signal handler; or another one, by its number in the kernel. From
 * boot_renames_are_told() on that is told, so that threads look at their names only then. */
void boot_thread_renamed(void);
void boot_other_renamed(int thread_id);
void boot_renames_are_told(void);

#endif
