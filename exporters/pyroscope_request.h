/* SPDX-License-Identifier: BSD-2-Clause */
/* Profiles of a period as an HTTP request: all of them for push.v1, one for /ingest. */
#ifndef JESPAN_PYROSCOPE_REQUEST_H
#define JESPAN_PYROSCOPE_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "conf/conf.h"
#include "pyroscope_labels.h"
#include "pyroscope_profile.h"
#include "pyroscope_queue.h"

/* What stays the same from request to request. */
struct pyroscope_source {
    const struct conf *conf;
    struct pyroscope_labels labels;
    char session[17]; /* 16 hexadecimal digits: this process, or this child */
};

struct pyroscope_request {
    char *path; /* behind the server's address, with its query */
    char *content_type;
    const char *content_encoding; /* NULL: none */
    unsigned char *body;
    size_t bytes;
    size_t folded; /* contexts whose figures went to other samples */
    bool profiles[PYROSCOPE_N_PROFILES];         /* that are in it */
    size_t profile_bytes[PYROSCOPE_N_PROFILES];  /* of each, uncompressed */
    size_t samples;                              /* of a profile, at most */
};

/* The labels of the process, and a session of its own. */
void pyroscope_source_make(struct pyroscope_source *source, const struct conf *conf);
void pyroscope_source_free(struct pyroscope_source *source);

/* Makes the request for what the server has not accepted yet. It is the same, to the byte, each time. Folds the period until
 * each profile is within `max_samples` and all of them are within pyroscope_max_bytes. Returns 1, 0 if there is nothing to
 * tell, or a negative errno. */
int pyroscope_request_make(struct pyroscope_request *request, const struct pyroscope_source *source,
                           struct waiting *period, size_t max_samples);

/* The ID of a profile in requests. */
void pyroscope_request_id(char text[37], const struct waiting *period, int profile);
void pyroscope_request_free(struct pyroscope_request *request);

#endif
