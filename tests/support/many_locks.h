/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests that fork with many arenas: before a fork, jemalloc takes more locks than ThreadSanitizer's deadlock
 * detector has room for. In the child it initialises them again, and ThreadSanitizer still takes them for locked. One
 * file of a program includes this. */
#ifndef JESPAN_TESTS_MANY_LOCKS_H
#define JESPAN_TESTS_MANY_LOCKS_H

__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "detect_deadlocks=0:report_mutex_bugs=0";
}

#endif
