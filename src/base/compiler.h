/* SPDX-License-Identifier: BSD-2-Clause */
/* What depends on the compiler or the processor, under one name each. */
#ifndef JESPAN_COMPILER_H
#define JESPAN_COMPILER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)
#define COLD __attribute__((cold, noinline))
#define NOINLINE __attribute__((noinline))
#define HOT_INLINE static inline __attribute__((always_inline))
#define EXPORT __attribute__((visibility("default")))
#define CACHE_LINE_BYTES 64

/* Initial-exec: an access is one load and never calls into the dynamic linker, which would allocate. */
#define THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

/* Functions that we have in place of libc's, the malloc family above all. A build that must not replace the process's
 * malloc (sanitizers) gives them a prefix. */
#ifdef JESPAN_NO_INTERPOSE
#define FAMILY(name) jespan_##name
#define INTERPOSES 0
#else
#define FAMILY(name) name
#define INTERPOSES 1
#endif

/* Relaxed accesses: no ordering, but no tearing either, and no data race for the sanitizer. */
#define load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)

#ifndef __has_feature /* clang's; gcc has a macro for each sanitizer */
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif

/* Adds to a counter that only this thread writes and others read, with no locked cycle. On x86-64 one instruction,
 * which the compiler will not make of a relaxed load and store; there a plain store is also a release. */
#if defined(__x86_64__) && !UNDER_TSAN
HOT_INLINE void own_add(_Atomic uint64_t *counter, uint64_t n)
{
    __asm__("addq %1, %0" : "+m"(*counter) : "er"(n) : "cc");
}

HOT_INLINE void own_add_release(_Atomic uint64_t *counter, uint64_t n)
{
    __asm__("addq %1, %0" : "+m"(*counter) : "er"(n) : "cc", "memory");
}
#else
HOT_INLINE void own_add(_Atomic uint64_t *counter, uint64_t n)
{
    store_relaxed(counter, load_relaxed(counter) + n);
}

/* Ordered after everything this thread did before. */
HOT_INLINE void own_add_release(_Atomic uint64_t *counter, uint64_t n)
{
    store_release(counter, load_relaxed(counter) + n);
}
#endif

HOT_INLINE void prefetch_write(const void *p)
{
    __builtin_prefetch(p, 1, 3);
}

/* Into the second-level cache. */
HOT_INLINE void prefetch_read(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}

/* Keeps the compiler, not the processor, from moving accesses across. Paired with membarrier(2) on the other side. */
HOT_INLINE void compiler_barrier(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

#endif
