/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes an HTTP request of the profiles of a period: of all for push.v1, of one for /ingest. */
#ifndef JESPAN_PYROSCOPE_REQUEST_H
#define JESPAN_PYROSCOPE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/conf.h"
#include "pyroscope_labels.h"
#include "push_queue.h"
#include "push_request.h"
#include "report/service.h"

/* The parts that are the same in all requests. */
struct pyroscope_source {
    const struct conf *conf;
    struct pyroscope_labels labels;
    char session[17]; /* 16 hexadecimal digits: this process, or this child */
};

/* Makes the labels of the process, and a new session. */
void pyroscope_source_make(struct pyroscope_source *source, const struct service_host *host);
void pyroscope_source_free(struct pyroscope_source *source);

/* Makes a request of the profiles that the server has not accepted yet. Each call gives the same bytes. Folds the
 * period until each profile has at most `max_samples` and all together have at most pyroscope_max_bytes. Returns 1, 0
 * if there is nothing to send, or a negative errno. */
int pyroscope_request_make(struct push_request *request, const struct pyroscope_source *source,
                           struct waiting *period, size_t max_samples);

#endif
