/* SPDX-License-Identifier: BSD-2-Clause */
/* A text in memory, compressed by gzip while it is written. */
#include "html.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/encode.h"

#define GZIP_WINDOW_BITS (15 + 16) /* the largest window; 16 stands for gzip's head, see zlib.h */
#define MEMORY_LEVEL 8

void html_pack_begin(struct html_pack *pack)
{
    memset(pack, 0, sizeof *pack);
    if (deflateInit2(&pack->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        pack->error = -ENOMEM;
}

/* Compresses what the stream has, and with Z_FINISH all of it. */
static void run(struct html_pack *pack, int flush)
{
    int result = Z_OK;
    while (pack->error == 0 && (pack->stream.avail_in > 0 || flush == Z_FINISH) && result != Z_STREAM_END) {
        pack->error = array_reserve(&pack->bytes, &pack->capacity, pack->n + 1, 1);
        if (pack->error != 0)
            return;
        size_t room = pack->capacity - pack->n;
        pack->stream.next_out = pack->bytes + pack->n;
        pack->stream.avail_out = room < UINT32_MAX ? (uInt)room : UINT32_MAX;
        uInt before = pack->stream.avail_out;
        result = deflate(&pack->stream, flush);
        pack->n += before - pack->stream.avail_out;
    }
}

static void add(struct html_pack *pack, const void *bytes, size_t n)
{
    pack->stream.next_in = (Bytef *)(uintptr_t)bytes;
    pack->stream.avail_in = (uInt)n;
    run(pack, Z_NO_FLUSH);
}

void html_pack_add(struct html_pack *pack, const char *text)
{
    add(pack, text, strlen(text));
}

void html_pack_add_number(struct html_pack *pack, int64_t number)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, number);
    html_pack_add(pack, text);
}

void html_pack_add_string(struct html_pack *pack, const struct text *text)
{
    char part[4096];
    size_t n = 0;
    part[n++] = '"';
    for (size_t i = 0; i < text->n; i++) {
        n += text_json_char(part + n, text->chars[i]);
        if (n > sizeof part - TEXT_JSON_CHAR_BYTES) {
            add(pack, part, n);
            n = 0;
        }
    }
    part[n++] = '"';
    add(pack, part, n);
}

int html_pack_end(struct html_pack *pack)
{
    run(pack, Z_FINISH);
    return pack->error;
}

void html_pack_free(struct html_pack *pack)
{
    deflateEnd(&pack->stream);
    free(pack->bytes);
}

size_t html_pack_base64_bytes(const struct html_pack *pack)
{
    return base64_bytes(pack->n);
}

void html_pack_write_base64(const struct html_pack *pack, FILE *to)
{
    enum { PART = 3 * 1024 }; /* a multiple of 3, so that only the last part has padding */
    char text[PART / 3 * 4];
    for (size_t i = 0; i < pack->n; i += PART) {
        size_t n = pack->n - i < PART ? pack->n - i : PART;
        base64_encode(text, pack->bytes + i, n);
        fwrite(text, 1, base64_bytes(n), to);
    }
}
