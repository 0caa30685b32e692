/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes an OTLP request of the profiles of a period. */
#ifndef JESPAN_OTLP_REQUEST_H
#define JESPAN_OTLP_REQUEST_H

#include <stddef.h>

#include "conf/conf.h"
#include "push_request.h"
#include "report/service.h"

#define OTLP_PATH "/v1development/profiles"

/* What the process is, by OpenTelemetry's names. Each name occurs once. */
struct otlp_attribute {
    char *key, *text; /* UTF-8. NULL: it is a number */
    int64_t number;
};

/* The parts that are the same in all requests. */
struct otlp_source {
    const struct conf *conf;
    struct otlp_attribute *attributes;
    size_t n, capacity;
};

/* Collects the attributes: pyroscope_app (service.name), resource_attributes, then host.name, process.pid,
 * process.executable.name, and the program's name as service.name. The first one with a name counts. Returns 0 or
 * -ENOMEM. */
int otlp_source_make(struct otlp_source *source, const struct service_host *host);
void otlp_source_free(struct otlp_source *source);

/* As `make` of push_protocol.h. */
int otlp_request_make(struct push_request *request, const struct otlp_source *source, struct waiting *period, size_t max_samples);

#endif
