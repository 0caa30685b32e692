/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes an HTTP request of the profiles of a period: of all for push.v1, of one for /ingest. */
#ifndef JESPAN_PYROSCOPE_REQUEST_H
#define JESPAN_PYROSCOPE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/conf.h"
#include "pyroscope_labels.h"
#include "pyroscope_queue.h"
#include "report/service.h"

/* The parts that are the same in all requests. */
struct pyroscope_source {
    const struct conf *conf;
    struct pyroscope_labels labels;
    char session[17]; /* 16 hexadecimal digits: this process, or this child */
};

struct pyroscope_request {
    char *path; /* after the server's address, with the query */
    char *content_type;
    const char *content_encoding; /* NULL: none */
    unsigned char *body;
    size_t bytes;
    size_t folded; /* number of contexts whose figures went to other samples */
    bool profiles[PYROSCOPE_N_PROFILES];         /* whether the profile is in the request */
    size_t profile_bytes[PYROSCOPE_N_PROFILES];  /* of each profile, uncompressed */
    size_t samples;                              /* the largest number of samples in a profile */
};

/* Makes the labels of the process, and a new session. */
void pyroscope_source_make(struct pyroscope_source *source, const struct service_host *host);
void pyroscope_source_free(struct pyroscope_source *source);

/* Makes a request of the profiles that the server has not accepted yet. Each call gives the same bytes. Folds the
 * period until each profile has at most `max_samples` and all together have at most pyroscope_max_bytes. Returns 1, 0
 * if there is nothing to send, or a negative errno. */
int pyroscope_request_make(struct pyroscope_request *request, const struct pyroscope_source *source,
                           struct waiting *period, size_t max_samples);

/* The ID of a profile in requests. */
void pyroscope_request_id(char text[37], const struct waiting *period, int profile);
void pyroscope_request_free(struct pyroscope_request *request);

#endif
