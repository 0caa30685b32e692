/* SPDX-License-Identifier: BSD-2-Clause */
/* The labels of this process's series at a Pyroscope server. */
#ifndef JESPAN_PYROSCOPE_LABELS_H
#define JESPAN_PYROSCOPE_LABELS_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/conf.h"
#include "report/service.h"

/* A server accepts 30 labels (validation.max-label-names-per-series). Each profile needs four of them. */
#define PYROSCOPE_MAX_LABELS 26

struct pyroscope_label {
    char *name, *value;
};

/* Sorted by name; all names differ and match [a-zA-Z_][a-zA-Z0-9_]*. Values are UTF-8 and far shorter than the 2,048
 * bytes that a server accepts. */
struct pyroscope_labels {
    struct pyroscope_label pairs[PYROSCOPE_MAX_LABELS];
    size_t n, max;      /* max: series_labels count too */
    size_t left_out;    /* for want of free labels or memory */
    bool malformed;     /* some configured part is not NAME=VALUE */
};

/* Collects labels from pyroscope_app (service_name), pyroscope_labels, resource_attributes, then hostname, pid, and the
 * program's name as service_name. The first label with a name counts. */
void pyroscope_labels_make(struct pyroscope_labels *labels, const struct service_host *host);
void pyroscope_labels_free(struct pyroscope_labels *labels);

/* "": there is no such label. */
const char *pyroscope_labels_get(const struct pyroscope_labels *labels, const char *name);

#endif
