/* SPDX-License-Identifier: BSD-2-Clause */
/* A text in memory, compressed by gzip while it is written. */
#include "html.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define GZIP_WINDOW_BITS (15 + 16) /* the largest window; 16 stands for gzip's head, see zlib.h */
#define MEMORY_LEVEL 8

void html_pack_begin(struct html_pack *pack)
{
    memset(pack, 0, sizeof *pack);
    if (deflateInit2(&pack->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        pack->error = -ENOMEM;
}

static int reserve(struct html_pack *pack)
{
    if (pack->n < pack->capacity)
        return 0;
    size_t capacity = pack->capacity == 0 ? 1 << 16 : 2 * pack->capacity;
    unsigned char *bytes = realloc(pack->bytes, capacity);
    if (!bytes)
        return -ENOMEM;
    pack->bytes = bytes;
    pack->capacity = capacity;
    return 0;
}

/* Compresses what the stream has, and with Z_FINISH all of it. */
static void run(struct html_pack *pack, int flush)
{
    int result = Z_OK;
    while (pack->error == 0 && (pack->stream.avail_in > 0 || flush == Z_FINISH) && result != Z_STREAM_END) {
        pack->error = reserve(pack);
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

static size_t encode_utf8(char *to, uint32_t c)
{
    if (c < 0x80)
        return to[0] = (char)c, 1;
    if (c < 0x800)
        return to[0] = (char)(0xC0 | c >> 6), to[1] = (char)(0x80 | (c & 63)), 2;
    if (c < 0x10000)
        return to[0] = (char)(0xE0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 63)), to[2] = (char)(0x80 | (c & 63)), 3;
    to[0] = (char)(0xF0 | c >> 18);
    to[1] = (char)(0x80 | (c >> 12 & 63));
    to[2] = (char)(0x80 | (c >> 6 & 63));
    to[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* The text has no control characters (text.h). */
void html_pack_add_string(struct html_pack *pack, const struct text *text)
{
    char part[4096];
    size_t n = 0;
    part[n++] = '"';
    for (size_t i = 0; i < text->n; i++) {
        if (text->chars[i] == L'"' || text->chars[i] == L'\\')
            part[n++] = '\\';
        n += encode_utf8(part + n, (uint32_t)text->chars[i]);
        if (n > sizeof part - 8) {
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
    return (pack->n + 2) / 3 * 4;
}

void html_pack_write_base64(const struct html_pack *pack, FILE *to)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < pack->n; i += 3) {
        size_t left = pack->n - i;
        uint32_t three = (uint32_t)pack->bytes[i] << 16 | (left > 1 ? (uint32_t)pack->bytes[i + 1] << 8 : 0)
                         | (left > 2 ? pack->bytes[i + 2] : 0);
        const char four[4] = {digits[three >> 18], digits[three >> 12 & 63], left > 1 ? digits[three >> 6 & 63] : '=',
                              left > 2 ? digits[three & 63] : '='};
        fwrite(four, 1, sizeof four, to);
    }
}
