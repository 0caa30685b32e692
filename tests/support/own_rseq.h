/* SPDX-License-Identifier: BSD-2-Clause */
/* A program that uses restartable sequences itself, by glibc's registration. It needs glibc 2.35. Without that,
 * there is no such clock to test, and nothing is done. */
#ifndef JESPAN_TESTS_OWN_RSEQ_H
#define JESPAN_TESTS_OWN_RSEQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>

static inline struct rseq *own_rseq_area(void)
{
    return __rseq_size ? (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset) : NULL;
}

/* The state after a sequence that did not clear the pointer. The kernel clears it, once it has found the signature
 * before the abort address; nothing there is executed. */
static inline void own_rseq_set(void)
{
    static const uint32_t abort_code[] = {RSEQ_SIG, 0, 0};
    static struct rseq_cs section;
    struct rseq *area = own_rseq_area();
    section = (struct rseq_cs){.start_ip = (uintptr_t)&abort_code[2], .post_commit_offset = 1,
                               .abort_ip = (uintptr_t)&abort_code[1]};
    if (area)
        __atomic_store_n((uint64_t *)&area->rseq_cs, (uintptr_t)&section, __ATOMIC_RELAXED);
}

/* The state after a sequence that cleared the pointer. */
static inline void own_rseq_clear(void)
{
    struct rseq *area = own_rseq_area();
    if (area)
        __atomic_store_n((uint64_t *)&area->rseq_cs, 0, __ATOMIC_RELAXED);
}
#else
static inline void own_rseq_set(void)
{
}

static inline void own_rseq_clear(void)
{
}
#endif

#endif
