/* SPDX-License-Identifier: BSD-2-Clause */
/* The private jemalloc. This is the only file that includes its header or knows how it is bound.
 *
 * Static binding: the build renames jemalloc's entry points to jespan_je_*, so each is one direct call. Shared binding:
 * binding.c defines them with the shared library's mallocx family. In both cases they are jemalloc's documented
 * functions, and none of them calls the malloc that jespan exports.
 */
#ifndef JESPAN_BINDING_H
#define JESPAN_BINDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jemalloc/jemalloc.h>

/* To be called once, before jemalloc's first use. */
void binding_boot(void);

/* They are hidden so that calls are direct and do not use the procedure linkage table. */
#pragma GCC visibility push(hidden)
void *jespan_je_malloc(size_t size);
void *jespan_je_calloc(size_t n, size_t size);
void *jespan_je_realloc(void *p, size_t size);
void *jespan_je_aligned_alloc(size_t alignment, size_t size);
void *jespan_je_mallocx(size_t size, int flags);
void *jespan_je_rallocx(void *p, size_t size, int flags);
size_t jespan_je_xallocx(void *p, size_t size, size_t extra, int flags);
size_t jespan_je_sallocx(const void *p, int flags);
void jespan_je_dallocx(void *p, int flags);
void jespan_je_sdallocx(void *p, size_t size, int flags);
size_t jespan_je_nallocx(size_t size, int flags);
int jespan_je_mallctl(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes);
int jespan_je_mallctlnametomib(const char *name, size_t *mib, size_t *mib_length);
int jespan_je_mallctlbymib(const size_t *mib, size_t mib_length, void *old, size_t *old_bytes, void *new_value,
                           size_t new_bytes);
void jespan_je_malloc_stats_print(void (*write)(void *, const char *), void *opaque, const char *options);
#pragma GCC visibility pop

/* The effect of realloc(p, 0): jemalloc's opt.zero_realloc. */
enum zero_realloc { ZERO_REALLOC_ALLOC, ZERO_REALLOC_FREE, ZERO_REALLOC_ABORT };
enum zero_realloc binding_zero_realloc(void);

/* Whether a thread may reuse an object without telling jemalloc. It may not where an option makes jemalloc sample, fill
 * or not cache. */
bool binding_lets_objects_be_kept(void);

/* To be called once, before other threads: finds what the next function needs. */
void binding_find_batches(void);

/* As jespan_je_mallocx(), for up to n objects of a small class at once. Returns their number. The flags name a tcache, and n is
 * less than the objects of a slab, or they all come from a new one. */
size_t binding_alloc_batch(void **objects, size_t n, size_t bytes, int flags);

/* The bytes of what jemalloc's statistics count as a page. It may have been built for larger pages than the system has. */
uint64_t binding_page_bytes(void);

/* Whether jemalloc has threads of its own. */
bool binding_has_threads(void);

#endif
