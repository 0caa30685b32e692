/* SPDX-License-Identifier: BSD-2-Clause */
/* The history of a process, for the page and for /history: a sample of its largest contexts every few seconds, and the events
 * between two samples.
 *
 * A sample has at most TIMELINE_ROWS contexts. Each has the contexts above it, and figures with all contexts below it. All histories
 * together take at most TIMELINE_BYTES: the oldest sample of any process goes first.
 */
#ifndef JESPAN_HTTP_TIMELINE_H
#define JESPAN_HTTP_TIMELINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http_text.h"
#include "report/service.h"
#include "snapshot/snapshot.h"

#define TIMELINE_SAMPLES 360u /* of a process */
#define TIMELINE_ROWS 32u
#define TIMELINE_BYTES ((size_t)1 << 20)

struct http_timeline;

/* NULL: no memory. */
struct http_timeline *http_timeline_make(void);

/* Accepts NULL. */
void http_timeline_free(struct http_timeline *t);

/* The process has executed another program: its history begins again. Accepts NULL. */
void http_timeline_restart(struct http_timeline *t);

/* Adds a sample, and the events since the last one. Without memory, there is no sample. */
void http_timeline_add(struct http_timeline *t, const struct snapshot *s, const struct service_host *host);

/* The memory of the history, and the time of its oldest sample in nanoseconds since 1970 (UINT64_MAX: it has none). */
size_t http_timeline_bytes(const struct http_timeline *t);
uint64_t http_timeline_oldest_ns(const struct http_timeline *t);
void http_timeline_drop_oldest(struct http_timeline *t);

/* Writes the samples that were taken after that time. `t` may be NULL: there are none. */
void http_timeline_write(struct http_json *to, const struct http_timeline *t, uint64_t after_unix_ns);

#endif
