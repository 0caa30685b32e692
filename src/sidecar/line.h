/* SPDX-License-Identifier: BSD-2-Clause */
/* The context with the most bytes in use, for the line at the end. */
#ifndef JESPAN_LINE_H
#define JESPAN_LINE_H

#include <stddef.h>
#include <stdint.h>

#include "snapshot/snapshot.h"

#define LINE_HOLDER_BYTES 160

struct line_holder {
    uint64_t all_bytes; /* in use by all contexts */
    uint64_t bytes;     /* in use by the one that has most */
    char path[LINE_HOLDER_BYTES];
};

/* Writes the context with the most bytes in use. */
/* The path of a row, as in struct line_holder. */
void line_path(char *to, size_t bytes, const struct snapshot *s, uint32_t row);

void line_find_holder(struct line_holder *h, const struct snapshot *s);

/* Writes "1.5 GiB". Returns `text`. */
#define LINE_SIZE_BYTES 24
const char *line_size(char text[LINE_SIZE_BYTES], uint64_t bytes);

#endif
