/* SPDX-License-Identifier: BSD-2-Clause */
/* Recognises allocations that libc and the dynamic linker make for themselves: buffers of streams, locales, the
 * environment, data of threads, loaded libraries and conversions (the modules of iconv are libc's, too). libc may make
 * them at any moment and keeps them, so a region must not hold them.
 *
 * The return address of malloc tells who called it. Some functions of libc allocate for their caller, who frees the
 * result: wcsdup, asprintf, vasprintf, getline, getdelim. We call them once to learn where they call malloc. libc calls
 * its own strdup and strndup for names that it keeps; a program calls ours, which are in malloc.c.
 */
#ifndef JESPAN_LIBC_CALLS_H
#define JESPAN_LIBC_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

/* Finds libc's code. To be called before a region is opened, without locks. False: no memory for it. */
bool libc_calls_find(void);

/* Learns the callers. To be called on a thread in a region, without locks, where the callers are not known yet and libc's code was
 * found. Each call allocates in that region and frees again. */
void libc_calls_learn(void);

/* Afterwards: whether the thread was in the region all the time. */
void libc_calls_are_learned(bool all);

/* Whether there is nothing to learn. */
bool libc_calls_know(void);

/* The object that called malloc last on this thread, if it is not libc's. */
struct libc_calls_range {
    uintptr_t start, end;
};
extern THREAD_LOCAL struct libc_calls_range libc_calls_other;

/* Whether libc called malloc for itself, given the address to which malloc returns. Safe everywhere. False where libc
 * is part of the program, or is not recognised. */
bool libc_calls_look(const void *return_address);

HOT_INLINE bool libc_calls(const void *return_address)
{
    const struct libc_calls_range *other = &libc_calls_other;
    return unlikely((uintptr_t)return_address - other->start >= other->end - other->start) && libc_calls_look(return_address);
}

#endif
