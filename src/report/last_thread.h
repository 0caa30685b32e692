/* SPDX-License-Identifier: BSD-2-Clause */
/* Ends a process whose main thread ended by pthread_exit() when only jespan's threads are left.
 *
 * In glibc, the last thread of a process calls exit(0) when it ends. jespan's threads never end by themselves and
 * block all signals, so only SIGKILL would end such a process. When the main thread has ended, a thread "jespan:end"
 * waits until only jespan's threads are left. It then restores the signal mask of the main thread and calls exit(0). A
 * program whose main() returns has no such thread.
 *
 * jespan's threads count themselves when they begin. The number of all threads is read from /proc/self/stat between
 * two readings of that count which must agree. So no thread of the program is taken for one of jespan's.
 */
#ifndef JESPAN_LAST_THREAD_H
#define JESPAN_LAST_THREAD_H

/* On the main thread, when libc works. */
void last_thread_boot(void);

/* On each thread of jespan, when it begins. Its end is noticed without another call. */
void last_thread_add_own(void);

/* In a forked child, before jespan starts threads there. */
void last_thread_after_fork(void);

#endif
