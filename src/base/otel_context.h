/* SPDX-License-Identifier: BSD-2-Clause */
/* The thread context of OpenTelemetry (OTEP 4947): a thread-local pointer to a record, by which profilers of other processes
 * learn the trace and the span that a thread works for.
 *
 * The pointer has this name in all libraries. The dynamic linker makes one variable of all their definitions that are
 * exported, so it also has what another library publishes. Only its own thread may read or write it. */
#ifndef JESPAN_OTEL_CONTEXT_H
#define JESPAN_OTEL_CONTEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

#define OTEL_TRACE_ID_BYTES 16
#define OTEL_SPAN_ID_BYTES 8

/* Without padding; numbers are in the machine's byte order. Attributes would follow. */
struct otel_context {
    uint8_t trace_id[OTEL_TRACE_ID_BYTES], span_id[OTEL_SPAN_ID_BYTES];
    uint8_t is_valid; /* 1; all else: the record does not count */
    uint8_t flags;    /* of W3C's Trace Context */
    uint16_t attributes_bytes;
};
_Static_assert(sizeof(struct otel_context) == 28, "OTEP 4947");

/* A profiler stops the thread at any instruction, so each store has to be made, and in this order. */
extern EXPORT THREAD_LOCAL struct otel_context *volatile otel_thread_ctx_v1;

/* Publishes *context, or nothing if it is NULL, for the calling thread. Returns 0, or -EBUSY: another library publishes on this
 * thread, which stays so. Async-signal-safe, but not in a handler that interrupts this function. */
int otel_context_publish(const struct otel_context *context);

/* Copies what is published for the calling thread, by whichever library. Returns false if there is nothing, or if the
 * pointer is wrong. Async-signal-safe. */
bool otel_context_read(struct otel_context *to);

#endif
