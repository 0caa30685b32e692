/* SPDX-License-Identifier: BSD-2-Clause */
/* The private jemalloc: its entry points where jemalloc is shared, and its options. */
#include "jemalloc/binding.h"

#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "config.h"

/* Options that jemalloc has by default. A malloc_conf of the program, /etc/malloc.conf and MALLOC_CONF override them.
 *
 * Magazines (heap/magazine.h) are in front of jemalloc's thread cache. With both at full size, a thread would keep twice
 * as much. So jemalloc's cache has as many objects of a class as one slab has, 8 to 48. When it is full, it keeps the
 * newest sixteenth of them instead of half. See docs/decisions/007 and 061. */
#define OPTIONS                                                                                                        \
    "lg_tcache_nslots_mul:0,tcache_nslots_small_min:8,tcache_nslots_small_max:40,lg_tcache_flush_small_div:4"

#ifdef JESPAN_BINDING_SHARED
#include <dlfcn.h>
#include <stdint.h>

#include "base/die.h"

/* jemalloc may start before jespan does, so it finds its options here. This definition comes before jemalloc's. */
EXPORT const char *malloc_conf __attribute__((weak)) = OPTIONS;

/* The functions of jemalloc that jespan calls. */
#define EACH_NEXT(X)                                                                                                   \
    X(mallocx) X(rallocx) X(xallocx) X(sallocx) X(dallocx) X(sdallocx) X(nallocx) X(mallctl) X(mallctlnametomib)       \
    X(mallctlbymib) X(malloc_stats_print)
#define NEXT_ENUM(name) NEXT_##name,
#define NEXT_TEXT(name) #name,
enum next { EACH_NEXT(NEXT_ENUM) NEXT_COUNT };
static const char *const next_names[NEXT_COUNT] = {EACH_NEXT(NEXT_TEXT)};
static void *next_symbols[NEXT_COUNT];

/* The shared library comes after jespan in the search order, so RTLD_NEXT finds its definition and never our export.
 * dlsym() allocates nothing for a symbol that exists. */
static void *next_symbol(enum next next)
{
    const char *name = next_names[next];
    void *symbol = dlsym(RTLD_NEXT, name);
    if (!symbol) {
        WARN("jemalloc's shared library has no ", name, "; the program cannot run with jespan");
        __builtin_trap();
    }
    __atomic_store_n(&next_symbols[next], symbol, __ATOMIC_RELAXED);
    return symbol;
}

/* Looks up all symbols now. Later, dlsym() may free the message of a former error, so free() must not call it. */
COLD void binding_boot(void)
{
    for (enum next next = 0; next < NEXT_COUNT; next++)
        next_symbol(next);
}

#define NEXT(name, type)                                                                                               \
    void *symbol = __atomic_load_n(&next_symbols[NEXT_##name], __ATOMIC_RELAXED);                                      \
    __typeof__(type) call = (__typeof__(type))(uintptr_t)(likely(symbol) ? symbol : next_symbol(NEXT_##name))

void *jespan_je_mallocx(size_t size, int flags)
{
    NEXT(mallocx, void *(*)(size_t, int));
    void *p = call(size, flags);
    if (unlikely(!p))
        errno = ENOMEM;
    return p;
}

void *jespan_je_rallocx(void *p, size_t size, int flags)
{
    NEXT(rallocx, void *(*)(void *, size_t, int));
    void *q = call(p, size, flags);
    if (unlikely(!q))
        errno = ENOMEM;
    return q;
}

size_t jespan_je_xallocx(void *p, size_t size, size_t extra, int flags)
{
    NEXT(xallocx, size_t(*)(void *, size_t, size_t, int));
    return call(p, size, extra, flags);
}

size_t jespan_je_sallocx(const void *p, int flags)
{
    NEXT(sallocx, size_t(*)(const void *, int));
    return call(p, flags);
}

void jespan_je_dallocx(void *p, int flags)
{
    NEXT(dallocx, void (*)(void *, int));
    call(p, flags);
}

void jespan_je_sdallocx(void *p, size_t size, int flags)
{
    NEXT(sdallocx, void (*)(void *, size_t, int));
    call(p, size, flags);
}

size_t jespan_je_nallocx(size_t size, int flags)
{
    NEXT(nallocx, size_t(*)(size_t, int));
    return call(size, flags);
}

int jespan_je_mallctl(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes)
{
    NEXT(mallctl, int (*)(const char *, void *, size_t *, void *, size_t));
    return call(name, old, old_bytes, new_value, new_bytes);
}

int jespan_je_mallctlnametomib(const char *name, size_t *mib, size_t *mib_length)
{
    NEXT(mallctlnametomib, int (*)(const char *, size_t *, size_t *));
    return call(name, mib, mib_length);
}

int jespan_je_mallctlbymib(const size_t *mib, size_t mib_length, void *old, size_t *old_bytes, void *new_value,
                           size_t new_bytes)
{
    NEXT(mallctlbymib, int (*)(const size_t *, size_t, void *, size_t *, void *, size_t));
    return call(mib, mib_length, old, old_bytes, new_value, new_bytes);
}

void jespan_je_malloc_stats_print(void (*write)(void *, const char *), void *opaque, const char *options)
{
    NEXT(malloc_stats_print, void (*)(void (*)(void *, const char *), void *, const char *));
    call(write, opaque, options);
}

void *jespan_je_malloc(size_t size)
{
    return jespan_je_mallocx(size ? size : 1, 0);
}

void *jespan_je_calloc(size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return jespan_je_mallocx(bytes ? bytes : 1, MALLOCX_ZERO);
}

void *jespan_je_realloc(void *p, size_t size)
{
    return jespan_je_rallocx(p, size ? size : 1, 0);
}

void *jespan_je_aligned_alloc(size_t alignment, size_t size)
{
    if (!alignment || (alignment & (alignment - 1))) {
        errno = EINVAL;
        return NULL;
    }
    return jespan_je_mallocx(size ? size : 1, MALLOCX_ALIGN(alignment));
}
#else
extern const char *malloc_conf __attribute__((weak)); /* jemalloc's, or the program's */

COLD void binding_boot(void)
{
    if (&malloc_conf && !malloc_conf)
        malloc_conf = OPTIONS;
}
#endif

COLD enum zero_realloc binding_zero_realloc(void)
{
    const char *action = NULL;
    size_t bytes = sizeof action;
    if (jespan_je_mallctl("opt.zero_realloc", &action, &bytes, NULL, 0) || !action)
        return ZERO_REALLOC_FREE;
    if (!strcmp(action, "alloc"))
        return ZERO_REALLOC_ALLOC;
    return strcmp(action, "abort") ? ZERO_REALLOC_FREE : ZERO_REALLOC_ABORT;
}

static size_t batch_mib[2], batch_mib_length; /* 0: this jemalloc cannot do it */

/* A shared jemalloc's batches call mallocx() by its name for a part of the objects. That is jespan's, which counts them. */
COLD void binding_find_batches(void)
{
#ifndef JESPAN_BINDING_SHARED
    size_t length = 2;
    batch_mib_length = jespan_je_mallctlnametomib("experimental.batch_alloc", batch_mib, &length) ? 0 : length;
#endif
}

size_t binding_alloc_batch(void **objects, size_t n, size_t bytes, int flags)
{
    struct {
        void **objects;
        size_t n, bytes;
        int flags;
    } request = {objects, n, bytes, flags}; /* batch_alloc_packet_t of jemalloc's src/ctl.c */
    size_t got = 0, got_bytes = sizeof got;
    if (!batch_mib_length || jespan_je_mallctlbymib(batch_mib, batch_mib_length, &got, &got_bytes, &request, sizeof request))
        return 0;
    return got;
}

/* An option that this jemalloc does not have is off. */
static bool option(const char *name)
{
    bool on = false;
    size_t bytes = sizeof on;
    return !jespan_je_mallctl(name, &on, &bytes, NULL, 0) && on;
}

static bool fills_with_junk(void)
{
    const char *junk = NULL;
    size_t bytes = sizeof junk;
    return !jespan_je_mallctl("opt.junk", &junk, &bytes, NULL, 0) && junk && strcmp(junk, "false") != 0;
}

COLD bool binding_lets_objects_be_kept(void)
{
    return option("opt.tcache") && !option("opt.prof") && !option("opt.zero") && !option("opt.utrace") &&
           !fills_with_junk();
}

COLD uint64_t binding_page_bytes(void)
{
    size_t page = 0, bytes = sizeof page;
    (void)jespan_je_mallctl("arenas.page", &page, &bytes, NULL, 0);
    return page;
}

COLD bool binding_has_threads(void)
{
    return option("opt.background_thread");
}
