/* SPDX-License-Identifier: BSD-2-Clause */
/* Publishes the trace that a thread works for, for profilers of other processes. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"
#include "base/encode.h"
#include "base/otel_context.h"
#include "conf/conf.h"
#include "jespan/jespan.h"

/* Reads 2 * n digits. Returns false if one is none, or if all are 0. */
static bool read_id(uint8_t *id, size_t n, const char *digits)
{
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++) {
        int high = hex_digit(digits[2 * i]), low = high < 0 ? -1 : hex_digit(digits[2 * i + 1]);
        if (low < 0)
            return false;
        any |= id[i] = (uint8_t)(high << 4 | low);
    }
    return any;
}

EXPORT int jespan_publish_trace(const struct jespan_traceparent *trace)
{
    struct otel_context context = {.is_valid = 1};
    if (!conf.otel_context)
        return ENOTSUP;
    if (!trace)
        return -otel_context_publish(NULL);
    if (!read_id(context.trace_id, OTEL_TRACE_ID_BYTES, trace->trace_id) || !read_id(context.span_id, OTEL_SPAN_ID_BYTES, trace->span_id))
        return EINVAL;
    context.flags = trace->flags;
    return -otel_context_publish(&context);
}
