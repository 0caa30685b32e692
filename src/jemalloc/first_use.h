/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages that jemalloc's first use touches and leaves zero.
 *
 * jespan calls mallctl() when it starts. jemalloc then makes an array of statistics, 40 pages, and writes zeroes into it.
 * The system gets these pages back. They read as zeroes afterwards, and most processes never touch them again.
 */
#ifndef JESPAN_FIRST_USE_H
#define JESPAN_FIRST_USE_H

#include <stddef.h>

/* jemalloc has mapped memory. Only notes what it maps before first_use_end(). */
void first_use_note(void *p, size_t bytes);

/* To be called once, when no other thread uses jemalloc yet. */
void first_use_end(void);

#endif
