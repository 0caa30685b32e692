/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of mallctl, as services in the sidecar ask for them. */
#ifndef JESPAN_SIDECAR_NAMES_H
#define JESPAN_SIDECAR_NAMES_H

#include <stddef.h>

#include "report/service.h"
#include "sidecar/readings.h"

/* What the services count, for all processes together. */
extern struct service_figures {
    struct push_stats pyroscope, otlp;
    struct http_stats http;
} service_figures;

/* Answers as mallctl does when it reads: a figure of a service or of an alert, or else one that is read out of the process.
 * `source` may be NULL: then only figures of services have an answer. Strings are valid for good. Returns 0, EINVAL (another
 * size) or ENOENT. One thread at a time. */
int names_answer(struct readings *source, const char *name, void *old, size_t *old_bytes);

#endif
