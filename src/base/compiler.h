/* SPDX-License-Identifier: BSD-2-Clause */
/* Names for everything that depends on the compiler or the processor. */
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

/* For variables that fast paths read. Even with -fvisibility=hidden, a declaration may be that of another library's variable. So without
 * this, compilers get the address of the variable first, which takes one instruction more. */
#define INTERNAL __attribute__((visibility("hidden")))
#define CACHE_LINE_BYTES 64

/* For functions of the fast paths that begin at a cache line, so that they take the same time wherever the linker puts them. */
#define ALIGNED_CODE __attribute__((aligned(CACHE_LINE_BYTES)))

/* Initial-exec: an access is one load and never calls into the dynamic linker, which would allocate. */
#define THREAD_LOCAL __thread __attribute__((tls_model("initial-exec")))

/* Functions that replace libc's, above all the malloc family. A build that must not replace the process's malloc, as
 * with sanitizers, gives them a prefix. */
#ifdef JESPAN_NO_INTERPOSE
#define FAMILY(name) jespan_##name
#define INTERPOSES 0
#else
#define FAMILY(name) name
#define INTERPOSES 1
#endif

/* libc's function that calls main(), which libjespan.so replaces too. On PowerPC it has other parameters. */
#if defined(JESPAN_NO_INTERPOSE) || defined(__powerpc__)
#define START_MAIN jespan_start_main
#define REPLACES_START_MAIN 0
#else
#define START_MAIN __libc_start_main
#define REPLACES_START_MAIN 1
#endif

/* Relaxed accesses have no order, but they never tear, and the sanitizer sees no data race. */
#define load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)

/* Under the sanitizer, these are relaxed loads. Elsewhere, a plain load of one byte or of two aligned ones does not tear
 * either, and compilers make one instruction of it: of an atomic load, they may make two. */
#define load_byte(p) (UNDER_TSAN ? load_relaxed(p) : *(const volatile uint8_t *)(p))
#define load_two_bytes(p) (UNDER_TSAN ? load_relaxed(p) : *(const volatile uint16_t *)(p))

#ifndef __has_feature /* only clang has it; gcc has a macro for each sanitizer */
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#else
#define UNDER_ASAN 0
#endif

/* Adds to a counter that only this thread writes and others read, without a locked instruction. On x86-64 this is one
 * instruction; compilers make three of a relaxed load and store. There each store is also a release. */
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

/* The same, ordered after all earlier accesses of this thread. */
HOT_INLINE void own_add_release(_Atomic uint64_t *counter, uint64_t n)
{
    store_release(counter, load_relaxed(counter) + n);
}
#endif

/* Without options for a newer processor, compilers fetch a line for reading only. A store to a line that another processor had then waits
 * once more. All x86-64 processors know prefetchw; some do nothing for it. */
HOT_INLINE void prefetch_write(const void *p)
{
#ifdef __x86_64__
    __asm__ volatile("prefetchw %0" : : "m"(*(const char *)p));
#else
    __builtin_prefetch(p, 1, 3);
#endif
}

/* Fetches into the second-level cache. */
HOT_INLINE void prefetch_read(const void *p)
{
    __builtin_prefetch(p, 0, 2);
}

/* The compiler moves no access across this. The processor may; membarrier(2) on the other side makes up for it. */
HOT_INLINE void compiler_barrier(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

#endif
