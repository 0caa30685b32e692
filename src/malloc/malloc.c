/* SPDX-License-Identifier: BSD-2-Clause */
/* The malloc family of C and POSIX. The fast side of malloc and free: one branch for a thread without a block, then an
 * object of the thread's magazine or jemalloc's call, the header, the counters. They assume nothing about the process:
 * first use is handled on the cold side. */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "jemalloc/binding.h"
#include "malloc/alloc_policy.h"
#include "malloc/family.h"
#include "malloc/track.h"

/* Boots before jemalloc is first used, where need be. Reached by a jump from malloc, as the next but one from calloc, so that it returns to
 * whoever called that; where the compiler calls instead, nothing is told apart. */
static NOINLINE void *malloc_by_policy(size_t size)
{
    struct thread *t = thread_current;
    void *p = likely(t && size <= HEADER_PAGE_BYTES) ? alloc_policy_reuse(t, class_of(size), size) : NULL;
    if (likely(p))
        return p;
    return alloc_policy_alloc_for(likely(t) ? t : track_thread_slow(), size, 0, __builtin_return_address(0));
}

/* Apart from malloc, so that its short way needs no stack. */
static NOINLINE void *malloc_slow(size_t size)
{
    struct thread *t = load_relaxed(&thread_fast);
    if (unlikely(!t)) /* by now: another thread may take it at any moment */
        return malloc_by_policy(size);
    void *p = jespan_je_malloc(size);
    return likely(track_alloc_fast(t, p, class_of_request(size), size)) ? p : track_alloc_slow(t, p, size);
}

EXPORT void *FAMILY(malloc)(size_t size)
{
    struct thread *t = load_relaxed(&thread_fast);
    if (unlikely(!t))
        return malloc_by_policy(size);
    void *p = likely(size <= HEADER_PAGE_BYTES) ? track_reuse(t, class_of(size), size) : NULL;
    return likely(p) ? p : malloc_slow(size);
}

static NOINLINE void free_by_policy(void *p)
{
    struct thread *t = thread_current;
    if (unlikely(!t || !alloc_policy_free(t, p)))
        track_free_slow(NULL, p);
}

EXPORT void FAMILY(free)(void *p)
{
    struct thread *t = load_relaxed(&thread_fast);
    if (unlikely(!t))
        free_by_policy(p);
    else if (unlikely(!track_free_fast(t, p)))
        track_free_slow(t, p);
}

/* Gone from glibc's headers, but still there for old programs. */
EXPORT void FAMILY(cfree)(void *p)
{
    FAMILY(free)(p);
}

static NOINLINE void *calloc_by_policy(size_t n, size_t size)
{
    struct thread *t = track_thread_slow();
    size_t bytes;
    if (unlikely(__builtin_mul_overflow(n, size, &bytes))) {
        errno = ENOMEM;
        return track_may_allocate(t) ? jespan_je_calloc(n, size) : NULL; /* which says no */
    }
    return alloc_policy_alloc_for(t, bytes, MALLOCX_ZERO, __builtin_return_address(0));
}

static COLD void *calloc_failed(struct thread *t, size_t n, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? NULL : track_alloc_slow(t, NULL, bytes);
}

static NOINLINE void *calloc_anew(size_t n, size_t size)
{
    struct thread *t = load_relaxed(&thread_fast);
    if (unlikely(!t))
        return calloc_by_policy(n, size);
    void *p = jespan_je_calloc(n, size);
    if (unlikely(!p))
        return calloc_failed(t, n, size);
    size *= n; /* did not overflow, or p were NULL */
    return likely(track_alloc_fast(t, p, class_of_request(size), size)) ? p : track_alloc_slow(t, p, size);
}

/* jemalloc zeroes the usable size, so that a program which asks for it and uses it finds zeroes there; so do we. */
EXPORT void *FAMILY(calloc)(size_t n, size_t size)
{
    struct thread *t = load_relaxed(&thread_fast);
    size_t bytes;
    if (unlikely(!t || __builtin_mul_overflow(n, size, &bytes)))
        return calloc_anew(n, size);
    struct class_info info = class_of_request(bytes);
    void *p = track_reuse(t, info, bytes);
    return likely(p) ? memset(p, 0, info.bytes) : calloc_anew(n, size);
}

static COLD void *realloc_to_zero(void *p)
{
    if (unlikely(!track_may_allocate(track_thread()))) { /* as by default */
        FAMILY(free)(p);
        return NULL;
    }
    switch (binding_zero_realloc()) {
    case ZERO_REALLOC_FREE:
        FAMILY(free)(p);
        return NULL;
    case ZERO_REALLOC_ALLOC:
        return family_resize(p, 1, 0);
    case ZERO_REALLOC_ABORT:
        break;
    }
    return jespan_je_realloc(p, 0); /* says so and aborts */
}

EXPORT void *FAMILY(realloc)(void *p, size_t size)
{
    if (!p)
        return FAMILY(malloc)(size);
    if (unlikely(!size))
        return realloc_to_zero(p);
    return family_resize(p, size, 0);
}

EXPORT void *FAMILY(reallocarray)(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (unlikely(__builtin_mul_overflow(n, size, &bytes))) {
        errno = ENOMEM;
        return NULL;
    }
    return FAMILY(realloc)(p, bytes);
}

/* The sizes that C23 and C++ hand in are taken as a hint we do not need: a wrong one does no harm. */
EXPORT void FAMILY(free_sized)(void *p, size_t size)
{
    (void)size;
    FAMILY(free)(p);
}

EXPORT void FAMILY(free_aligned_sized)(void *p, size_t alignment, size_t size)
{
    (void)alignment;
    (void)size;
    FAMILY(free)(p);
}

static NOINLINE void *aligned_by_policy(size_t alignment, size_t size)
{
    struct thread *t = track_thread_slow();
    if (!alignment || (alignment & (alignment - 1))) {
        errno = EINVAL;
        return track_may_allocate(t) ? jespan_je_aligned_alloc(alignment, size) : NULL; /* which says no */
    }
    return alloc_policy_alloc_for(t, size, MALLOCX_ALIGN(alignment), __builtin_return_address(0));
}

static NOINLINE void *aligned_anew(size_t alignment, size_t size)
{
    struct thread *t = load_relaxed(&thread_fast);
    if (unlikely(!t))
        return aligned_by_policy(alignment, size);
    void *p = jespan_je_aligned_alloc(alignment, size);
    if (unlikely(!p))
        return NULL;
    struct class_info info = class_of_aligned_request(alignment, size);
    return likely(track_alloc_fast(t, p, info, size)) ? p : track_alloc_slow(t, p, size);
}

HOT_INLINE void *aligned_cached(size_t alignment, size_t size)
{
    struct thread *t = load_relaxed(&thread_fast);
    return likely(t) ? track_reuse(t, class_of_aligned_request(alignment, size), size) : NULL;
}

EXPORT void *FAMILY(aligned_alloc)(size_t alignment, size_t size)
{
    void *p = aligned_cached(alignment, size);
    return likely(p) ? p : aligned_anew(alignment, size);
}

/* POSIX: the error is the result. */
static NOINLINE int posix_memalign_anew(void **out, size_t alignment, size_t size)
{
    int saved = errno;
    void *p = aligned_anew(alignment, size);
    errno = saved;
    if (!p)
        return ENOMEM;
    *out = p;
    return 0;
}

EXPORT int FAMILY(posix_memalign)(void **out, size_t alignment, size_t size)
{
    if (unlikely(alignment < sizeof(void *) || alignment & (alignment - 1)))
        return EINVAL;
    void *p = aligned_cached(alignment, size);
    if (unlikely(!p))
        return posix_memalign_anew(out, alignment, size);
    *out = p;
    return 0;
}

/* glibc's memalign takes any alignment and rounds it up. */
EXPORT void *FAMILY(memalign)(size_t alignment, size_t size)
{
    size_t power = sizeof(void *);
    if (alignment > SIZE_MAX / 2 + 1) {
        errno = EINVAL;
        return NULL;
    }
    while (power < alignment)
        power *= 2;
    return FAMILY(aligned_alloc)(power, size);
}

EXPORT void *FAMILY(valloc)(size_t size)
{
    return FAMILY(aligned_alloc)((size_t)sysconf(_SC_PAGESIZE), size);
}

EXPORT void *FAMILY(pvalloc)(size_t size)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    if (size > SIZE_MAX - page) {
        errno = ENOMEM;
        return NULL;
    }
    size = size ? (size + page - 1) & ~(page - 1) : page;
    return FAMILY(aligned_alloc)(page, size);
}

/* Here so that a program's strings can be told from libc's own: see libc_calls.h. */
EXPORT char *FAMILY(strdup)(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = FAMILY(malloc)(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

EXPORT char *FAMILY(strndup)(const char *text, size_t n)
{
    size_t bytes = strnlen(text, n);
    char *copy = FAMILY(malloc)(bytes + 1);
    if (!copy)
        return NULL;
    copy[bytes] = '\0';
    return memcpy(copy, text, bytes);
}

EXPORT size_t FAMILY(malloc_usable_size)(void *p)
{
    return track_usable(p);
}
