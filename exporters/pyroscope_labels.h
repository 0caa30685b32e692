/* SPDX-License-Identifier: BSD-2-Clause */
/* The labels of a process's series at a Pyroscope server. */
#ifndef JESPAN_PYROSCOPE_LABELS_H
#define JESPAN_PYROSCOPE_LABELS_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/conf.h"

/* A server takes 30 in all (validation.max-label-names-per-series); four are a profile's own. */
#define PYROSCOPE_MAX_LABELS 26

struct pyroscope_label {
    char *name, *value;
};

/* Sorted by name, no name twice, values in UTF-8 and far shorter than the 2,048 bytes that a server takes. Names are those that a server takes: [a-zA-Z_][a-zA-Z0-9_]*. */
struct pyroscope_labels {
    struct pyroscope_label pairs[PYROSCOPE_MAX_LABELS];
    size_t n, max;      /* series_labels take places too */
    size_t left_out;    /* there were more, or there was no memory */
    bool malformed;     /* not all that is configured is NAME=VALUE */
};

/* From the configuration: pyroscope_labels, then resource_attributes, then hostname, pid and service_name, which is
 * pyroscope_app, the attribute service.name or the program's name. The first of a name counts. */
void pyroscope_labels_make(struct pyroscope_labels *labels, const struct conf *conf);
void pyroscope_labels_free(struct pyroscope_labels *labels);

/* "" where there is none. */
const char *pyroscope_labels_get(const struct pyroscope_labels *labels, const char *name);

#endif
