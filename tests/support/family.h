/* SPDX-License-Identifier: BSD-2-Clause */
/* The malloc family as the tests call it: F(malloc)(n).
 *
 * In the ordinary build that is malloc() itself, which the library under test replaces. In builds where a sanitizer owns
 * malloc (JESPAN_NO_INTERPOSE) it is jespan_malloc(), and only what the test itself allocates is counted.
 */
#ifndef JESPAN_TESTS_FAMILY_H
#define JESPAN_TESTS_FAMILY_H

#include <malloc.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#ifdef JESPAN_NO_INTERPOSE
#define F(name) jespan_##name
#define FAMILY_INTERPOSED false
#else
#define F(name) name
#define FAMILY_INTERPOSED true
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifdef JESPAN_NO_INTERPOSE
void *F(malloc)(size_t);
void *F(calloc)(size_t, size_t);
void *F(realloc)(void *, size_t);
void *F(reallocarray)(void *, size_t, size_t);
void F(free)(void *);
int F(posix_memalign)(void **, size_t, size_t);
void *F(aligned_alloc)(size_t, size_t);
void *F(memalign)(size_t, size_t);
void *F(valloc)(size_t);
void *F(pvalloc)(size_t);
size_t F(malloc_usable_size)(void *);
#endif

void F(free_sized)(void *, size_t);
void F(free_aligned_sized)(void *, size_t, size_t);

void *F(mallocx)(size_t, int);
void *F(rallocx)(void *, size_t, int);
size_t F(xallocx)(void *, size_t, size_t, int);
size_t F(sallocx)(const void *, int);
void F(dallocx)(void *, int);
void F(sdallocx)(void *, size_t, int);
size_t F(nallocx)(size_t, int);

int F(mallctl)(const char *, void *, size_t *, void *, size_t);
int F(mallctlnametomib)(const char *, size_t *, size_t *);
int F(mallctlbymib)(const size_t *, size_t, void *, size_t *, void *, size_t);
void F(malloc_stats_print)(void (*)(void *, const char *), void *, const char *);

#ifdef __cplusplus
}
#endif

/* jemalloc's flags, as its manual gives them; its header would redeclare the functions under its own names. */
#define FLAG_LG_ALIGN(la) ((int)(la))
#define FLAG_ALIGN(a) (__builtin_ctzll(a))
#define FLAG_ZERO 0x40
#define ARENAS_ALL "4096"

/* Keeps the compiler from knowing a value: it would warn of impossible sizes, or drop a malloc and free pair. */
static inline size_t opaque(size_t value)
{
    __asm__ volatile("" : "+r"(value));
    return value;
}

static inline void *opaque_pointer(void *p)
{
    __asm__ volatile("" : "+r"(p) : : "memory");
    return p;
}

#endif
