/* SPDX-License-Identifier: BSD-2-Clause */
/* An HTTP request with the profiles of a period, and what its makers have in common: the choice of profiles, folding
 * until they fit, compression. */
#ifndef JESPAN_PUSH_REQUEST_H
#define JESPAN_PUSH_REQUEST_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "push_queue.h"
#include "report/exporter.h"

struct push_request {
    char *path; /* after the server's address, with the query */
    char *content_type;
    const char *content_encoding; /* NULL: none */
    unsigned char *body;
    size_t bytes;
    size_t folded; /* number of contexts whose figures went to other samples */
    bool profiles[PUSH_N_PROFILES];         /* whether the profile is in the request */
    size_t profile_bytes[PUSH_N_PROFILES];  /* of each profile, uncompressed. 0: the profiles are not apart */
    size_t samples;                         /* the largest number of samples in a profile */
};

void push_request_free(struct push_request *request);

/* The ID of a profile in requests. */
void push_request_id(char text[37], const struct waiting *period, int profile);

/* The values of the profile for this period. */
const struct pprof_kind *push_request_kind(const struct waiting *period, int profile);

/* Chooses the profiles that have samples and that the server has not accepted: all of them, or the first. Returns
 * whether there are any. */
bool push_request_choose(struct push_request *request, const struct waiting *period, uint64_t track_time, bool only_first);

/* Encodes the chosen profiles, and sets `bytes` to their bytes. Each call replaces the last one. Returns 0 or a negative
 * errno. */
typedef int push_encode(void *user, struct push_request *request, const struct waiting *period, size_t *bytes);

/* Folds the period until each profile has at most `max_samples` and all together have at most `max_bytes`. */
int push_request_encode_within(struct push_request *request, const struct waiting *period, size_t max_samples,
                               size_t max_bytes, push_encode *encode, void *user);

/* ---- Bytes ---- */

struct push_buffer {
    struct exporter_sink sink; /* first. push_buffer_append() writes to it */
    unsigned char *data;
    size_t bytes, capacity;
};

/* Returns 0 or -ENOMEM. */
int push_buffer_append(struct exporter_sink *buffer, const void *data, size_t bytes);

/* The caller frees `to`. Returns 0 or -ENOMEM. */
int push_gzip(unsigned char **to, size_t *to_bytes, const unsigned char *from, size_t bytes);

/* Makes the message, compressed, the body of the request. Returns 0 or -ENOMEM. */
int push_request_pack(struct push_request *request, const ProtobufCMessage *message);

#endif
