/* SPDX-License-Identifier: BSD-2-Clause */
/* Ends a process whose main() ended by pthread_exit() once only jespan's own threads are left.
 *
 * The last thread of a process that ends calls exit(0) in glibc. jespan's threads would keep that from happening, and as
 * they block all signals, nothing but SIGKILL would end the process then. So when the main thread has ended, a thread
 * "jespan:end" waits until all others but jespan's are gone, and calls exit(0) with the signals blocked that the main
 * thread had blocked. A program whose main() returns has no such thread.
 *
 * No thread is mistaken for one of jespan's: these count themselves once they run, and the number of all is read from
 * /proc/self/stat between two readings of their count that agree.
 */
#ifndef JESPAN_LAST_THREAD_H
#define JESPAN_LAST_THREAD_H

/* On the main thread, when libc is up. */
void last_thread_boot(void);

/* On a thread of jespan's, when it begins. Its end is noted by itself. */
void last_thread_add_own(void);

/* In a forked child, before threads of jespan's are started there. */
void last_thread_after_fork(void);

#endif
