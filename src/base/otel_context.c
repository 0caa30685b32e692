/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread context of OpenTelemetry. */
#include "base/otel_context.h"

#include <errno.h>
#include <stddef.h>
#include <sys/uio.h>
#include <unistd.h>

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
    int saved = errno;
    struct otel_context *from = otel_thread_ctx_v1;
    struct iovec local = {to, sizeof *to}, remote = {from, sizeof *from};
    bool is_read = from && process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)sizeof *to && to->is_valid == 1;
    errno = saved;
    return is_read;
}
