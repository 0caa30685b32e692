/* SPDX-License-Identifier: BSD-2-Clause */
/* The way out of the pprof encoder: messages in, gzip (or as it is) to the sink, one piece at a time.
 *
 * A protobuf message may be written as a sequence of partial ones: readers join their repeated fields. So a profile of
 * any size is written as many small Profile messages, and memory stays constant.
 *
 * The first error sticks: from then on every call does nothing, and callers need to look only now and then.
 */
#ifndef JESPAN_PPROF_OUT_H
#define JESPAN_PPROF_OUT_H

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <zlib.h>

#include "pprof.h"
#include "report/exporter.h"

struct pprof_out {
    struct exporter_sink *sink;
    enum pprof_form form;
    int error; /* the first, a negative errno; 0 = none */
    z_stream gzip;
    unsigned char *packed; /* messages not yet compressed */
    size_t n_packed_bytes, packed_capacity_bytes;
    unsigned char *compressed; /* not yet written */
};

/* `out` is zeroed here. After an error, too, it is to be freed. */
int pprof_out_init(struct pprof_out *out, enum pprof_form form, struct exporter_sink *sink);
void pprof_out_free(struct pprof_out *out);

void pprof_out_fail(struct pprof_out *out, int error);
void pprof_out_message(struct pprof_out *out, const ProtobufCMessage *message);

/* Writes what is left, and the end of the gzip stream. Returns the first error or 0. */
int pprof_out_finish(struct pprof_out *out);

#endif
