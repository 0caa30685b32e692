/* SPDX-License-Identifier: BSD-2-Clause */
/* A text in memory, compressed by gzip while it is written. */
#ifndef JESPAN_CMD_HTML_PACK_H
#define JESPAN_CMD_HTML_PACK_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <zlib.h>

#include "text.h"

struct html_pack {
    z_stream stream;
    unsigned char *bytes;
    size_t n, capacity;
    int error; /* the first one; later calls do nothing */
};

/* `pack` is overwritten, and freed by the caller in either case. */
void html_pack_begin(struct html_pack *pack);
void html_pack_add(struct html_pack *pack, const char *text);
void html_pack_add_number(struct html_pack *pack, int64_t number);

/* Adds a JSON string: the text in quotation marks. */
void html_pack_add_string(struct html_pack *pack, const struct text *text);

/* Returns 0 or -ENOMEM. The compressed text is then complete. */
int html_pack_end(struct html_pack *pack);
void html_pack_free(struct html_pack *pack);

/* How many bytes base64 takes, and the text in base64. */
size_t html_pack_base64_bytes(const struct html_pack *pack);
void html_pack_write_base64(const struct html_pack *pack, FILE *to);

#endif
