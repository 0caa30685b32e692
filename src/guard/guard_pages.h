/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages that are untouchable until they are opened. Linux 6.13 and newer have guard markers for that (MADV_GUARD_INSTALL).
 * Elsewhere, and in locked memory, mprotect(2) does it, which takes twice the time and splits the mapping. */
#ifndef JESPAN_GUARD_PAGES_H
#define JESPAN_GUARD_PAGES_H

#include <stdbool.h>
#include <stddef.h>

/* Maps so many bytes, all untouchable. Takes address space only. Returns NULL where the system refuses. */
void *guard_pages_reserve(size_t bytes);

/* Whole pages. An opened page is zeroed, unless it could not be closed before. */
bool guard_pages_open(void *p, size_t bytes);
void guard_pages_close(void *p, size_t bytes);

#endif
