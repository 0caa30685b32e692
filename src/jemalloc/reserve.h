/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is set aside while a thread comes to jemalloc for the first time.
 *
 * jemalloc 5.3 does not look whether it could make a thread's cache: without memory for it, the thread's first malloc or its
 * end is a SIGSEGV. So a thread comes to jemalloc only with enough address space in its hands. The private jemalloc calls
 * jespan_je_mmap(), which takes from there what the system refuses. Where jemalloc is shared, the address space is given
 * back right before jemalloc needs it: another thread may still get it first.
 */
#ifndef JESPAN_RESERVE_H
#define JESPAN_RESERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Sets address space aside for the calling thread until reserve_end(). False: the system has none. errno is left alone. */
bool reserve_begin(void);
void reserve_end(void);

/* Shared jemalloc: gives it back now. */
void reserve_spend(void);

/* As mmap(2), for the private jemalloc. */
#pragma GCC visibility push(hidden)
void *jespan_je_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
#pragma GCC visibility pop

#endif
