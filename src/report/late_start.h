/* SPDX-License-Identifier: BSD-2-Clause */
/* When jespan's threads start: not before main(), since some system calls fail in a process with several threads. They
 * start at the program's first allocation, new span or call of mallctl() after main() has begun. They do not wait for
 * their first deadline: a program that has set up a sandbox meanwhile could be killed for creating a thread, and one that
 * allocates no more would have no thread at all. */
#ifndef JESPAN_LATE_START_H
#define JESPAN_LATE_START_H

#include <stdbool.h>

/* From the library's constructor: start() will be called once, on a thread of the program. It is called at once if
 * main() has begun already, or if the program's allocations are not ours. */
void late_start_await(void (*start)(void));

/* At exit: calls start() now if it was not called. */
void late_start_now(void);

/* In a forked child. Returns whether start() was yet to come in the parent. If so, it is yet to come in the child if
 * `go_on`. */
bool late_start_after_fork(bool go_on);

/* ---- In the shared library alone: main_begin.c ---- */

/* Whether late_start_main_begins() will be called. */
bool main_begin_is_awaited(void);

void late_start_main_begins(void);

#endif
