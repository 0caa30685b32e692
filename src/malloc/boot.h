/* SPDX-License-Identifier: BSD-2-Clause */
/* First use by the process and by each thread. track_thread_slow(), which is in boot.c, starts them. */
#ifndef JESPAN_BOOT_H
#define JESPAN_BOOT_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/thread.h"

/* Whether allocations can be accounted for. */
bool boot_is_done(void);

/* Whether this call comes out of jemalloc's first use, by the thread that boots. Objects that are allocated then are
 * only listed, and counted when boot is done. boot_early_add() returns false if the list is full, boot_early_remove()
 * if p is not in it. */
bool boot_is_under_way(void);
bool boot_early_add(void *p, size_t requested);
bool boot_early_remove(const void *p);

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
