/* SPDX-License-Identifier: BSD-2-Clause */
/* Probes for tracers, by the contract of OpenTelemetry's eBPF profiler: otel_memory:alloc tells of each allocation whose stack is a
 * sample, and otel_memory:free of the end of such an object. docs/stacks.md describes them.
 *
 * Only the slow sides have probes. A free in a thread's buffer is told when the buffer is flushed, before the object can be
 * allocated again. A tracer that wants frees counts itself in a semaphore, at which each sample looks. Without such a tracer,
 * frees cost nothing more.
 */
#ifndef JESPAN_PROBES_H
#define JESPAN_PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Whether a tracer wants frees, as the last sample found. */
extern INTERNAL _Atomic bool probes_want_frees;

/* The bytes of allocations for which a sample of `size` bytes stands, where samples are `mean` bytes apart on average. */
uint64_t probes_weigh(uint64_t size, uint64_t mean);

/* To be called for a new object whose stack is a sample. Objects of regions are left out, since they are freed together. */
void probes_alloc(const void *p, size_t size);

/* Tells of the free if the object's stack was a sample. */
void probes_free(const void *p, uint32_t tag);

/* To be called before an object of this context is counted as freed. */
static inline void probes_before_free(const void *p, uint32_t tag)
{
    if (unlikely(load_relaxed(&probes_want_frees)))
        probes_free(p, tag);
}

#endif
