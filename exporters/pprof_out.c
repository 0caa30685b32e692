/* SPDX-License-Identifier: BSD-2-Clause */
/* Packs messages with protobuf-c, compresses them with zlib and writes them to the sink. */
#include "pprof_parts.h"

#include <errno.h>
#include <string.h>

#include "exporter_memory.h"

#define PACKED_BYTES ((size_t)64 << 10)
#define COMPRESSED_BYTES ((size_t)64 << 10)
#define GZIP_WINDOW_BITS (15 + 16) /* + 16 asks zlib for a gzip header. Its time is 0, so equal profiles are equal files */
#define GZIP_LEVEL 4 /* a million rows: 1.2 s of CPU; the default level: 2.1 s for 1 % fewer bytes */

static void *zlib_take(void *memory, uInt n, uInt bytes)
{
    return exporter_memory_take(memory, n, bytes);
}

static void zlib_give(void *memory, void *p)
{
    exporter_memory_give(memory, p);
}

/* zlib only passes the pointer back. */
static void *without_const(const struct exporter_memory *memory)
{
    return (void *)(uintptr_t)memory;
}

int pprof_out_init(struct pprof_out *out, enum pprof_form form, struct exporter_sink *sink)
{
    memset(out, 0, sizeof *out);
    out->sink = sink;
    out->form = form;
    out->gzip.zalloc = zlib_take;
    out->gzip.zfree = zlib_give;
    out->gzip.opaque = without_const(sink->memory);
    if (deflateInit2(&out->gzip, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, 8, Z_DEFAULT_STRATEGY) != Z_OK) {
        out->error = -ENOMEM;
        return out->error;
    }
    out->packed_capacity_bytes = PACKED_BYTES;
    out->packed = exporter_memory_take(sink->memory, 1, PACKED_BYTES);
    out->compressed = exporter_memory_take(sink->memory, 1, COMPRESSED_BYTES);
    if (!out->packed || !out->compressed)
        out->error = -ENOMEM;
    out->gzip.next_out = out->compressed;
    out->gzip.avail_out = COMPRESSED_BYTES;
    return out->error;
}

void pprof_out_free(struct pprof_out *out)
{
    deflateEnd(&out->gzip);
    exporter_memory_give(out->sink->memory, out->packed);
    exporter_memory_give(out->sink->memory, out->compressed);
}

void pprof_out_fail(struct pprof_out *out, int error)
{
    if (out->error == 0)
        out->error = error;
}

static void write_compressed(struct pprof_out *out)
{
    size_t bytes = COMPRESSED_BYTES - out->gzip.avail_out;
    if (bytes > 0 && out->error == 0)
        pprof_out_fail(out, out->sink->write(out->sink, out->compressed, bytes));
    out->gzip.next_out = out->compressed;
    out->gzip.avail_out = COMPRESSED_BYTES;
}

/* Compresses all packed messages. Z_FINISH also ends the stream. */
static void compress_packed(struct pprof_out *out, int flush)
{
    out->gzip.next_in = out->packed;
    out->gzip.avail_in = (uInt)out->n_packed_bytes;
    out->n_packed_bytes = 0;
    int more = Z_OK;
    while (out->error == 0 && more == Z_OK && (out->gzip.avail_in > 0 || flush == Z_FINISH)) {
        more = deflate(&out->gzip, flush);
        if (out->gzip.avail_out == 0)
            write_compressed(out);
    }
}

static void write_packed(struct pprof_out *out)
{
    if (out->n_packed_bytes > 0 && out->error == 0)
        pprof_out_fail(out, out->sink->write(out->sink, out->packed, out->n_packed_bytes));
    out->n_packed_bytes = 0;
}

/* Empties the buffer of packed messages. */
static void drain(struct pprof_out *out)
{
    if (out->form == PPROF_GZIP)
        compress_packed(out, Z_NO_FLUSH);
    else
        write_packed(out);
}

static void reserve(struct pprof_out *out, size_t bytes)
{
    if (bytes > UINT32_MAX) {
        pprof_out_fail(out, -EOVERFLOW); /* the limit of zlib and of protobuf */
        return;
    }
    if (out->packed_capacity_bytes - out->n_packed_bytes < bytes)
        drain(out);
    if (out->packed_capacity_bytes >= bytes)
        return;
    unsigned char *larger = exporter_memory_grow(out->sink->memory, out->packed, out->n_packed_bytes, bytes);
    if (!larger) {
        pprof_out_fail(out, -ENOMEM);
        return;
    }
    out->packed = larger;
    out->packed_capacity_bytes = bytes;
}

void pprof_out_message(struct pprof_out *out, const ProtobufCMessage *message)
{
    if (out->error != 0)
        return;
    reserve(out, protobuf_c_message_get_packed_size(message));
    if (out->error == 0)
        out->n_packed_bytes += protobuf_c_message_pack(message, out->packed + out->n_packed_bytes);
}

int pprof_out_finish(struct pprof_out *out)
{
    if (out->form == PPROF_GZIP) {
        compress_packed(out, Z_FINISH);
        write_compressed(out);
    } else {
        write_packed(out);
    }
    return out->error;
}
