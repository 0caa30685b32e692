/* SPDX-License-Identifier: BSD-2-Clause */
/* Which allocations libc and the dynamic linker make for themselves: buffers of streams, locales, the environment, threads' and
 * loaded libraries' books. These begin at whatever moment and outlive it, so that a region is no place for them.
 *
 * Told apart by who calls malloc. What libc makes for its caller, who is to free it, is the caller's all the same: wcsdup, asprintf,
 * vasprintf, getline, getdelim. From where these call is found out by calling them once. strdup and strndup, which libc itself calls
 * for names that it keeps, are in malloc.c: a program calls those.
 */
#ifndef JESPAN_LIBC_CALLS_H
#define JESPAN_LIBC_CALLS_H

#include <stdbool.h>

/* Before a region is entered for the first time, with no lock; allocates. */
void libc_calls_find(void);

/* On a thread that is in a region, with no lock; the first time, allocates there and frees that. */
void libc_calls_learn(void);

/* Whether malloc, which returns to that address, was called by libc for itself. Safe everywhere. False where libc is part of the
 * program, or cannot be told. */
bool libc_calls(const void *return_address);

#endif
