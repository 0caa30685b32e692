/* SPDX-License-Identifier: BSD-2-Clause */
/* The probes. Each is a nop, and a note in the file that says where it is and which registers have its arguments. */
#include "config.h"
#include "malloc/probes.h"

#include "malloc/track.h"
#include "policy/arenas.h"
#include "span/tree.h"
#include "stacks/stacks.h"

#ifdef HAVE_SYS_SDT_H
#define _SDT_HAS_SEMAPHORES 1
#define STAP_SDT_ARG_CONSTRAINT nr /* OpenTelemetry's profiler reads registers, as of a call */
#include <sys/sdt.h>

#define SEMAPHORE static volatile unsigned short __attribute__((section(".probes"), used))
SEMAPHORE otel_memory_alloc_semaphore;
SEMAPHORE otel_memory_free_semaphore;
#define PROBE_ALLOC(p, size, weight) STAP_PROBE3(otel_memory, alloc, p, size, weight)
#define PROBE_FREE(p) STAP_PROBE1(otel_memory, free, p)
#else
enum { otel_memory_free_semaphore };
#define PROBE_ALLOC(p, size, weight) (void)(p), (void)(size), (void)(weight)
#define PROBE_FREE(p) (void)(p)
#endif

_Atomic bool probes_want_frees;

/* exp(-x) - 1 for x >= 0, to 40 bits. libm is not used. The series is for a small part of x, and each step doubles x. */
static double minus_exponential(double x)
{
    int doublings = 0;
    double sum = 0, term = 1;
    for (; x > 0.25; x /= 2)
        doublings++;
    for (int i = 1; i < 12; i++)
        sum += term *= -x / i;
    for (; doublings; doublings--)
        sum *= sum + 2;
    return sum;
}

/* A sample of S bytes is taken with the probability 1 - exp(-S / mean), so it stands for S divided by that. */
COLD uint64_t probes_weigh(uint64_t size, uint64_t mean)
{
    double x = mean ? (double)size / (double)mean : 64;
    if (!size || x >= 64) /* the probability is 1, as far as a double can tell */
        return size;
    return (uint64_t)((double)size / -minus_exponential(x) + 0.5);
}

/* Functions of their own, so that the arguments are in the registers of a call. */
static NOINLINE void fire_alloc(const void *p, uint64_t size, uint64_t weight)
{
    PROBE_ALLOC(p, size, weight);
}

static NOINLINE void fire_free(const void *p)
{
    PROBE_FREE(p);
}

static bool is_in_region(const void *p)
{
    uint16_t arena = arenas_find(p);
    return arena && arenas[arena].region;
}

COLD void probes_alloc(const void *p, size_t size)
{
    bool want_frees = otel_memory_free_semaphore;
    if (want_frees != load_relaxed(&probes_want_frees)) {
        store_relaxed(&probes_want_frees, want_frees);
        track_let_flush(FLUSH_PROBES, want_frees);
    }
    if (p && !is_in_region(p))
        fire_alloc(p, size, probes_weigh(size, load_relaxed(&stacks_stats.sample_bytes)));
}

COLD void probes_free(const void *p, uint32_t tag)
{
    if (tag && contexts[tag].kind == CONTEXT_STACK && contexts[tag].stack & STACK_SAMPLED && !is_in_region(p))
        fire_free(p);
}
