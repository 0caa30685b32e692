/* SPDX-License-Identifier: BSD-2-Clause */
/* What the makers of requests have in common. */
#include "push_request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/array.h"
#include "pprof.h"

#define GZIP_WINDOW_BITS (15 + 16)
#define GZIP_LEVEL 4 /* see pprof_out.c */

void push_request_free(struct push_request *request)
{
    free(request->path);
    free(request->content_type);
    free(request->body);
    *request = (struct push_request){0};
}

void push_request_id(char text[37], const struct waiting *period, int profile)
{
    const unsigned char *id = period->id;
    snprintf(text, 37, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", id[0], id[1], id[2], id[3],
             id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11], id[12], id[13], id[14], id[15] ^ (unsigned)profile);
}

/* ---- The choice of profiles ---- */

const struct pprof_kind *push_request_kind(const struct waiting *period, int profile)
{
    return period->inuse ? push_profiles[profile].kind : push_profiles[profile].flows;
}

static size_t count_samples(struct digest *digest, const struct pprof_kind *kind)
{
    const struct snapshot *view = digest_view(digest);
    size_t n = 0;
    for (uint32_t i = 0; view && i < view->n_rows; i++) {
        int64_t values[PPROF_MAX_VALUES] = {0}, any = 0;
        kind->read(&view->rows[i].totals, values);
        for (int k = 0; k < kind->n_values; k++)
            any |= values[k];
        n += any != 0;
    }
    return view ? n : 1; /* no memory to count: assume one */
}

bool push_request_choose(struct push_request *request, const struct waiting *period, uint64_t track_time, bool only_first)
{
    bool any = false;
    for (int i = 0; i < PUSH_N_PROFILES && !(any && only_first); i++) {
        size_t samples = period->accepted[i] || track_time < push_profiles[i].track_time
            ? 0 : count_samples(period->digest, push_request_kind(period, i));
        request->profiles[i] = samples > 0;
        request->samples = samples > request->samples ? samples : request->samples;
        any |= samples > 0;
    }
    return any;
}

/* Halves the number of samples by folding until the bytes fit. 16 samples are small enough. */
int push_request_encode_within(struct push_request *request, const struct waiting *period, size_t max_samples,
                               size_t max_bytes, push_encode *encode, void *user)
{
    for (;; max_samples = max_samples / 2 > 16 ? max_samples / 2 : 16) {
        size_t bytes;
        request->folded += digest_fold(period->digest, (uint32_t)max_samples);
        request->samples = max_samples < request->samples ? max_samples : request->samples;
        int error = encode(user, request, period, &bytes);
        if (error != 0 || bytes <= max_bytes || max_samples <= 16)
            return error;
    }
}

/* ---- Bytes ---- */

int push_buffer_append(struct exporter_sink *sink, const void *data, size_t bytes)
{
    struct push_buffer *b = (struct push_buffer *)sink;
    if (array_reserve(&b->data, &b->capacity, b->bytes + bytes, 1))
        return -ENOMEM;
    if (bytes > 0)
        memcpy(b->data + b->bytes, data, bytes);
    b->bytes += bytes;
    return 0;
}

int push_gzip(unsigned char **to, size_t *to_bytes, const unsigned char *from, size_t bytes)
{
    z_stream z = {0};
    if (deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    size_t bound = deflateBound(&z, bytes);
    *to = malloc(bound);
    z.next_in = (Bytef *)from;
    z.avail_in = (uInt)bytes;
    z.next_out = *to;
    z.avail_out = (uInt)bound;
    int result = *to ? deflate(&z, Z_FINISH) : Z_MEM_ERROR;
    *to_bytes = z.total_out;
    deflateEnd(&z);
    return result == Z_STREAM_END ? 0 : -ENOMEM;
}

int push_request_pack(struct push_request *request, const ProtobufCMessage *message)
{
    size_t bytes = protobuf_c_message_get_packed_size(message);
    unsigned char *packed = bytes <= UINT32_MAX ? malloc(bytes) : NULL;
    if (!packed)
        return -ENOMEM;
    protobuf_c_message_pack(message, packed);
    int error = push_gzip(&request->body, &request->bytes, packed, bytes);
    free(packed);
    return error;
}
