/* SPDX-License-Identifier: BSD-2-Clause */
/* The malloc family of C and POSIX.
 *
 * Each function has a fast path, which takes an object out of the thread's magazine, tags it and counts it (track.h).
 * One branch leads to *_by_policy(). It is for threads that have no block yet or an allocation policy: a span arena or
 * a limit. If the object is large or the magazine is empty, *_big(), *_new() or *_slow() calls jemalloc. The fast paths
 * assume nothing about the process: track_thread_slow(), on the slow side, handles the first use. A thread that takes
 * samples of stacks goes through *_by_policy() too. Between two samples, it takes the same steps there as the fast path. */
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "base/libc_calls.h"
#include "base/mailbox.h"
#include "base/number.h"
#include "heap/large.h"
#include "jemalloc/binding.h"
#include "malloc/alloc_policy.h"
#include "malloc/family.h"
#include "malloc/libc_malloc.h"
#include "malloc/track_slow.h"
#include "span/stack_context.h"

/* Returns the thread's block if the thread takes samples of stacks and this allocation is not a sample; else NULL. */
HOT_INLINE struct thread *unsampled(size_t size)
{
    struct thread *t = load_relaxed(&thread_fast.alloc_unsampled);
    return likely(t) && likely(stack_context_passes(t, size)) ? t : NULL;
}

/* Takes a big object from its magazine. NULL: it has none, the magazine is empty, or other work is due. */
HOT_INLINE void *reuse_big(struct thread *t, size_t size)
{
    size_t class = class_of_big(size);
    if (unlikely(!class) || unlikely(load_relaxed(&slow_work)))
        return NULL;
    void *p = track_reuse_big(t, class, size);
    return likely(p) ? p : track_reuse_waiting(t, class, size);
}

static NOINLINE void *malloc_new_big(struct thread *t, size_t size)
{
    void *p = large_malloc(size);
    return likely(track_alloc_big(t, p, size)) ? p : track_alloc_slow(t, p, size);
}

/* Separate from the two above, so that it needs no stack frame where the magazine has an object. The size comes first, as in malloc, so
 * that malloc moves no argument. */
static NOINLINE void *malloc_big(size_t size, struct thread *t)
{
    void *p = reuse_big(t, size);
    return likely(p) ? p : malloc_new_big(t, size);
}

/* Whether the allocation of a small object, of which the magazine had none, is to begin again: the magazine may have some now, and the
 * thread may have a policy. */
HOT_INLINE bool begins_again(struct thread *t, size_t size)
{
    return track_may_begin_again(t, class_number_of(size));
}

/* For a small object of which the magazine has none. Separate from malloc, so that malloc's fast path needs no stack frame. */
static NOINLINE void *malloc_new(size_t size, struct thread *t)
{
    if (begins_again(t, size))
        return FAMILY(malloc)(size);
    void *p = LARGE_OR_AGAIN(jespan_je_malloc(size));
    return likely(track_alloc_fast(t, p, class_of(size), size)) ? p : track_alloc_slow(t, p, size);
}

/* The same on a thread that takes samples, where unsampled() has counted the bytes. */
static NOINLINE void *malloc_new_unsampled(size_t size, struct thread *t)
{
    if (!begins_again(t, size))
        return malloc_new(size, t);
    stack_context_undo_pass(t, size);
    return FAMILY(malloc)(size);
}

/* malloc reaches the caller of this function by a jump, so the return address is malloc's caller: libc or the program
 * (alloc_policy_alloc_for()). If the compiler makes a call instead, all callers look alike, which does no harm. The same holds for
 * calloc and aligned_alloc. */
static NOINLINE void *malloc_in_region(struct thread *t, size_t size, const void *return_address)
{
    if (unlikely(libc_calls(return_address)))
        return alloc_policy_alloc_in(t, 0, size, 0);
    bool is_quick = likely(size <= HEADER_PAGE_BYTES) && alloc_policy_is_settled(t);
    void *p = is_quick ? alloc_policy_reuse_in_arena(t, t->region, true, class_number_of(size), size) : NULL;
    return likely(p) ? p : alloc_policy_alloc(t, size, 0);
}

static NOINLINE void *malloc_with_policy(struct thread *t, size_t size)
{
    void *p = likely(size <= HEADER_PAGE_BYTES) ? alloc_policy_reuse(t, 0, class_number_of(size), size) : NULL;
    return likely(p) ? p : alloc_policy_alloc(t, size, 0);
}

/* Starts jespan first, if this is the first call. Reached by a jump, as alloc_stack_alloc(). */
static NOINLINE void *malloc_slow(size_t size)
{
    struct thread *t = likely(thread_current) ? thread_current : track_thread_slow();
    return alloc_stack_is_used(t) ? alloc_stack_alloc(t, size, 0) : alloc_policy_alloc(t, size, 0);
}

/* Separate from the functions above, so that it needs no stack frame. */
static NOINLINE void *malloc_by_policy(size_t size)
{
    struct thread *t = unsampled(size);
    if (likely(t)) {
        if (unlikely(size > HEADER_PAGE_BYTES))
            return malloc_big(size, t);
        void *p = track_reuse(t, class_number_of(size), size);
        return likely(p) ? p : malloc_new_unsampled(size, t);
    }
    t = load_relaxed(&thread_fast.alloc_stacks);
    if (likely(t))
        return alloc_stack_alloc_quick(t, size, 0);
    t = thread_current;
    if (unlikely(!t) || unlikely(t->stacks))
        return malloc_slow(size);
    return t->region ? malloc_in_region(t, size, __builtin_return_address(0)) : malloc_with_policy(t, size);
}

EXPORT ALIGNED_CODE void *FAMILY(malloc)(size_t size)
{
    struct thread *t = load_relaxed(&thread_fast.alloc);
    if (unlikely(!t))
        return malloc_by_policy(size);
    if (unlikely(size > HEADER_PAGE_BYTES))
        return malloc_big(size, t);
    void *p = track_reuse(t, class_number_of(size), size);
    return likely(p) ? p : malloc_new(size, t);
}

static NOINLINE void free_by_policy(void *p)
{
    struct thread *t = load_relaxed(&thread_fast.other);
    if (likely(t)) { /* it takes all stacks, and there is no policy */
        if (!alloc_stack_free(t, p) && unlikely(!track_free_found(t, p)))
            track_free_slow(p, t);
        return;
    }
    t = thread_current;
    if (likely(t) && likely(alloc_policy_free(t, p)))
        return;
    track_free_slow(p, NULL);
    if (unlikely(t && t->notes & NOTES_LIFETIMES) && !(load_relaxed(&t->free_buffer_sequence) & 1)) {
        int saved = errno;
        track_flush_any(t); /* so that the object counts as freed now */
        errno = saved;
    }
}

EXPORT ALIGNED_CODE void FAMILY(free)(void *p)
{
    struct thread *t = load_relaxed(&thread_fast.free);
    if (unlikely(!t))
        free_by_policy(p);
    else if (unlikely(!track_free_fast(t, p)))
        track_free_slow(p, t);
}

/* glibc's headers no longer declare it, but old programs call it. */
EXPORT void FAMILY(cfree)(void *p)
{
    FAMILY(free)(p);
}

static NOINLINE void *calloc_by_policy(size_t n, size_t size)
{
    size_t bytes;
    bool is_too_large = __builtin_mul_overflow(n, size, &bytes);
    struct thread *t = load_relaxed(&thread_fast.alloc_stacks);
    if (likely(t) && likely(!is_too_large))
        return alloc_stack_alloc_quick(t, bytes, MALLOCX_ZERO);
    t = track_thread_slow();
    if (unlikely(is_too_large)) {
        errno = ENOMEM;
        return track_may_allocate(t) ? jespan_je_calloc(n, size) : NULL; /* which fails */
    }
    if (unlikely(alloc_stack_is_used(t)))
        return alloc_stack_alloc(t, bytes, MALLOCX_ZERO);
    return alloc_policy_alloc_for(t, bytes, MALLOCX_ZERO, __builtin_return_address(0));
}

static COLD void *calloc_failed(struct thread *t, size_t n, size_t size)
{
    size_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) ? NULL : track_alloc_slow(t, NULL, bytes);
}

static NOINLINE void *calloc_big(struct thread *t, size_t size)
{
    void *p = reuse_big(t, size);
    if (likely(p))
        return memset(p, 0, class_bytes[class_of_big(size)]);
    p = large_calloc(size);
    return likely(track_alloc_big(t, p, size)) ? p : track_alloc_slow(t, p, size);
}

static NOINLINE void *calloc_slow(size_t n, size_t size)
{
    struct thread *t = load_relaxed(&thread_fast.alloc);
    if (unlikely(!t))
        return calloc_by_policy(n, size);
    size_t bytes;
    bool is_too_large = __builtin_mul_overflow(n, size, &bytes);
    if (!is_too_large && bytes > HEADER_PAGE_BYTES)
        return calloc_big(t, bytes);
    if (!is_too_large && begins_again(t, bytes))
        return FAMILY(calloc)(n, size);
    void *p = LARGE_OR_AGAIN(jespan_je_calloc(n, size));
    if (unlikely(!p))
        return calloc_failed(t, n, size);
    size *= n; /* cannot overflow: jemalloc's calloc succeeded */
    return likely(track_alloc_fast(t, p, class_of(size), size)) ? p : track_alloc_slow(t, p, size);
}

/* Zeroes all usable bytes, as jemalloc does: a program that asks for the usable size may rely on it. */
EXPORT void *FAMILY(calloc)(size_t n, size_t size)
{
    struct thread *t = load_relaxed(&thread_fast.alloc);
    size_t bytes;
    if (unlikely(!t || __builtin_mul_overflow(n, size, &bytes)))
        return calloc_slow(n, size);
    size_t class = class_number_of(bytes);
    void *p = track_reuse(t, class, bytes);
    return likely(p) ? memset(p, 0, t->magazine_object_bytes[class]) : calloc_slow(n, size);
}

static COLD void *realloc_to_zero(void *p)
{
    if (unlikely(!track_may_allocate(track_thread()))) { /* jemalloc must not be called: do what it does by default */
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
    return jespan_je_realloc(p, 0); /* prints a message and aborts */
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

/* C23 and C++ pass the size as a hint. It is not needed, so a wrong one does no harm. */
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
    struct thread *t = load_relaxed(&thread_fast.alloc_stacks);
    if (likely(t) && likely(alignment && !(alignment & (alignment - 1))))
        return alloc_stack_aligned_quick(t, alignment, size);
    t = track_thread_slow();
    if (!alignment || (alignment & (alignment - 1))) {
        errno = EINVAL;
        return track_may_allocate(t) ? jespan_je_aligned_alloc(alignment, size) : NULL; /* which fails */
    }
    if (unlikely(alloc_stack_is_used(t)))
        return alloc_stack_alloc(t, size, MALLOCX_ALIGN(alignment));
    return alloc_policy_alloc_for(t, size, MALLOCX_ALIGN(alignment), __builtin_return_address(0));
}

static NOINLINE void *aligned_slow(size_t alignment, size_t size)
{
    struct thread *t = load_relaxed(&thread_fast.alloc);
    if (unlikely(!t))
        return aligned_by_policy(alignment, size);
    struct class_info info = class_of_aligned_request(alignment, size);
    if (info.bytes && track_may_begin_again(t, CODE_CLASS(info.code)))
        return FAMILY(aligned_alloc)(alignment, size);
    void *p = LARGE_OR_AGAIN(jespan_je_aligned_alloc(alignment, size));
    if (unlikely(!p))
        return !alignment || alignment & (alignment - 1) ? NULL : track_alloc_slow(t, NULL, size);
    return likely(track_alloc_fast(t, p, info, size)) ? p : track_alloc_slow(t, p, size);
}

HOT_INLINE void *aligned_cached(size_t alignment, size_t size)
{
    struct thread *t = load_relaxed(&thread_fast.alloc);
    return likely(t) ? track_reuse(t, CODE_CLASS(class_of_aligned_request(alignment, size).code), size) : NULL;
}

EXPORT void *FAMILY(aligned_alloc)(size_t alignment, size_t size)
{
    void *p = aligned_cached(alignment, size);
    return likely(p) ? p : aligned_slow(alignment, size);
}

/* POSIX: the result is the error, and errno does not change. */
static NOINLINE int posix_memalign_slow(void **out, size_t alignment, size_t size)
{
    int saved = errno;
    void *p = aligned_slow(alignment, size);
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
        return posix_memalign_slow(out, alignment, size);
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
    size = size ? round_up(size, page) : page;
    return FAMILY(aligned_alloc)(page, size);
}

/* strdup and strndup are defined here so that a program's strings can be distinguished from libc's own: libc_calls.h.
 * A program may define malloc and free itself, as Chromium does. Its free gets these strings, so its malloc makes them. */
typedef void *allocator(size_t size);
static _Atomic(allocator *) program_malloc;

/* The program may have a dlsym() of its own that calls strdup(), so there is an answer meanwhile. */
static COLD void find_program_malloc(void)
{
    if (!load_relaxed(&program_malloc))
        store_relaxed(&program_malloc, FAMILY(malloc));
    allocator *found = INTERPOSES ? (allocator *)(uintptr_t)dlsym(RTLD_DEFAULT, "malloc") : NULL;
    store_relaxed(&program_malloc, found ? found : FAMILY(malloc));
}

static COLD __attribute__((constructor)) void begin(void)
{
    find_program_malloc();
    libc_malloc_redirect();
}

static char *allocate_text(size_t bytes)
{
    if (unlikely(!load_relaxed(&program_malloc)))
        find_program_malloc();
    return load_relaxed(&program_malloc)(bytes);
}

EXPORT char *FAMILY(strdup)(const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = allocate_text(bytes);
    return copy ? memcpy(copy, text, bytes) : NULL;
}

EXPORT char *FAMILY(strndup)(const char *text, size_t n)
{
    size_t bytes = strnlen(text, n);
    char *copy = allocate_text(bytes + 1);
    if (!copy)
        return NULL;
    copy[bytes] = '\0';
    return memcpy(copy, text, bytes);
}

EXPORT size_t FAMILY(malloc_usable_size)(void *p)
{
    return track_usable(p);
}
