/* SPDX-License-Identifier: BSD-2-Clause */
/* Address space in reserve for a thread's first call of jemalloc.
 *
 * jemalloc 5.3 does not check whether it could make a thread's cache. Where the system has no memory for it, the
 * thread's first malloc, or its end, is a SIGSEGV. So a thread first reserves enough address space. The private
 * jemalloc calls jespan_je_mmap(), which uses the reserve where the system refuses. Where jemalloc is shared, the
 * reserve is unmapped right before jemalloc needs it. Then another thread may still get it first.
 */
#ifndef JESPAN_RESERVE_H
#define JESPAN_RESERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Reserves address space for the calling thread until reserve_end(). Returns false where the system has none. Leaves
 * errno alone. */
bool reserve_begin(void);
void reserve_end(void);

/* Where jemalloc is shared, unmaps the reserve now. */
void reserve_spend(void);

/* As mmap(2), for the private jemalloc. */
#pragma GCC visibility push(hidden)
void *jespan_je_mmap(void *address, size_t bytes, int protection, int flags, int fd, off_t offset);
#pragma GCC visibility pop

/* ---- Pages that jemalloc's first use touches and leaves zero ---- */

/* jespan calls mallctl() when it starts. jemalloc then makes an array of statistics, 40 pages, and writes zeroes into it.
 * The system gets these pages back. They read as zeroes afterwards, and most processes never touch them again. */

/* jemalloc has mapped memory. Only notes what it maps before first_use_end(). */
void first_use_note(void *p, size_t bytes);

/* To be called once, when no other thread uses jemalloc yet. */
void first_use_end(void);

#endif
