/* SPDX-License-Identifier: BSD-2-Clause */
/* The malloc family: the functions that malloc.c, mallocx.c and malloc_info.c export, and those that they share. */
#ifndef JESPAN_FAMILY_H
#define JESPAN_FAMILY_H

#include <malloc.h>
#include <stddef.h>
#include <stdio.h>

#include "base/compiler.h"

void *FAMILY(malloc)(size_t size);
void FAMILY(free)(void *p);
void FAMILY(cfree)(void *p);
char *FAMILY(strdup)(const char *text);
char *FAMILY(strndup)(const char *text, size_t n);
void *FAMILY(calloc)(size_t n, size_t size);
void *FAMILY(realloc)(void *p, size_t size);
void *FAMILY(reallocarray)(void *p, size_t n, size_t size);
void FAMILY(free_sized)(void *p, size_t size);
void FAMILY(free_aligned_sized)(void *p, size_t alignment, size_t size);
int FAMILY(posix_memalign)(void **out, size_t alignment, size_t size);
void *FAMILY(aligned_alloc)(size_t alignment, size_t size);
void *FAMILY(memalign)(size_t alignment, size_t size);
void *FAMILY(valloc)(size_t size);
void *FAMILY(pvalloc)(size_t size);
size_t FAMILY(malloc_usable_size)(void *p);

struct mallinfo FAMILY(mallinfo)(void);
struct mallinfo2 FAMILY(mallinfo2)(void);
int FAMILY(malloc_trim)(size_t pad);
void FAMILY(malloc_stats)(void);
int FAMILY(malloc_info)(int options, FILE *stream);
int FAMILY(mallopt)(int parameter, int value);

void *FAMILY(mallocx)(size_t size, int flags);
void *FAMILY(rallocx)(void *p, size_t size, int flags);
size_t FAMILY(xallocx)(void *p, size_t size, size_t extra, int flags);
size_t FAMILY(sallocx)(const void *p, int flags);
void FAMILY(dallocx)(void *p, int flags);
void FAMILY(sdallocx)(void *p, size_t size, int flags);
size_t FAMILY(nallocx)(size_t size, int flags);
void FAMILY(malloc_stats_print)(void (*write)(void *, const char *), void *opaque, const char *options);
int FAMILY(mallctl)(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes);
int FAMILY(mallctlnametomib)(const char *name, size_t *mib, size_t *mib_length);
int FAMILY(mallctlbymib)(const size_t *mib, size_t mib_length, void *old, size_t *old_bytes, void *new_value,
                         size_t new_bytes);

/* Does the work of realloc and rallocx: p is an object, size is not 0. Resizes in place if the size class stays or
 * jemalloc can; else allocates, copies and frees. When it returns NULL with ENOMEM, the old object is untouched. */
void *family_resize(void *p, size_t size, int flags);

#endif
