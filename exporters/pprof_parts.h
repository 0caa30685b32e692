/* SPDX-License-Identifier: BSD-2-Clause */
/* The output of the pprof encoder: takes messages and writes them to the sink in pieces, gzipped or plain.
 *
 * A protobuf message may be written as a sequence of parts: readers join their repeated fields. So a profile of any
 * size is written as many small Profile messages, with constant memory.
 *
 * After the first error all calls do nothing, so callers need not check each call.
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
    int error; /* the first one, a negative errno. 0: none */
    z_stream gzip;
    unsigned char *packed; /* messages not yet compressed */
    size_t n_packed_bytes, packed_capacity_bytes;
    unsigned char *compressed; /* not yet written */
};

/* Zeroes `out` first. The caller frees `out` after an error too. */
int pprof_out_init(struct pprof_out *out, enum pprof_form form, struct exporter_sink *sink);
void pprof_out_free(struct pprof_out *out);

void pprof_out_fail(struct pprof_out *out, int error);
void pprof_out_message(struct pprof_out *out, const ProtobufCMessage *message);

/* Writes the rest, and the end of the gzip stream. Returns the first error or 0. */
int pprof_out_finish(struct pprof_out *out);

#endif
