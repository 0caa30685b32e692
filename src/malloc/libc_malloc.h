/* SPDX-License-Identifier: BSD-2-Clause */
/* Lets libc's names of the malloc family lead to ours.
 *
 * The dynamic linker looks a name up in the objects of the process, in order, and finds ours before libc's. Two ways pass ours by: a
 * library that dlopen(3) loaded with RTLD_DEEPBIND, as PHP loads its extensions, looks into the libraries that it needs first; and
 * dlsym(3) may be given a handle of libc, as ctypes in Python does. Both got libc's free() then, for objects that our malloc() made. */
#ifndef JESPAN_LIBC_MALLOC_H
#define JESPAN_LIBC_MALLOC_H

#include <stdint.h>

/* To be called at the first allocation, and before main() if there was none: a library's constructor may load another with RTLD_DEEPBIND.
 * Does nothing the second time, where the program's malloc is not ours, where there is no libc.so, and where the
 * kernel forbids it. */
void libc_malloc_redirect(void);

/* 1: the program's malloc is not ours, so we see what it allocates only if it calls ours. 0: it is ours, or libc_malloc_redirect() was not
 * called yet. */
uint64_t libc_malloc_is_others(void);

#endif
