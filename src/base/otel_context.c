/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread context of OpenTelemetry. */
#include "base/otel_context.h"

#include <errno.h>
#include <stddef.h>

#include "base/own_memory.h"

THREAD_LOCAL struct otel_context *volatile otel_thread_ctx_v1;

static THREAD_LOCAL struct otel_context ours;

int otel_context_publish(const struct otel_context *context)
{
    struct otel_context *published = otel_thread_ctx_v1;
    if (published && published != &ours)
        return -EBUSY;
    otel_thread_ctx_v1 = NULL;
    if (!context)
        return 0;
    compiler_barrier();
    ours = *context;
    compiler_barrier();
    otel_thread_ctx_v1 = &ours;
    return 0;
}

/* The kernel reads, since it does not crash if the pointer is wrong. */
bool otel_context_read(struct otel_context *to)
{
    const struct otel_context *from = otel_thread_ctx_v1;
    return from && own_memory_read(to, from, sizeof *to) == 0 && to->is_valid == 1;
}
