/* SPDX-License-Identifier: BSD-2-Clause */
/* The context with the most bytes in use, for the line at the end. */
#include "sidecar/line.h"

#include <stdio.h>
#include <string.h>

#define MOST_SPANS 4

const char *line_size(char text[LINE_SIZE_BYTES], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    double size = (double)bytes;
    unsigned unit = 0;
    for (; size >= 1023.95 && unit < sizeof units / sizeof *units - 1; unit++)
        size /= 1024;
    snprintf(text, LINE_SIZE_BYTES, unit ? "%.1f %s" : "%.0f %s", size, units[unit]);
    return text;
}

/* Characters that could command a terminal are shown as '?'. Bytes above ASCII are parts of UTF-8. */
static void append(char *to, size_t bytes, const char *text)
{
    size_t n = strlen(to);
    for (; *text && n < bytes - 1; text++)
        to[n++] = (unsigned char)*text < ' ' || *text == 127 ? '?' : *text;
    to[n] = '\0';
}

/* A path keeps its innermost spans. */
static void append_row(char *to, size_t bytes, const struct snapshot *s, uint32_t row, int most)
{
    const struct snapshot_row *r = &s->rows[row];
    if (r->parent_row != row && s->rows[r->parent_row].kind == CONTEXT_SPAN) {
        if (most > 1)
            append_row(to, bytes, s, r->parent_row, most - 1);
        append(to, bytes, most > 1 ? " > " : "… > ");
    }
    append(to, bytes, r->name);
    for (uint32_t i = 0; i < r->n_labels; i++) {
        append(to, bytes, i ? ", " : " {");
        append(to, bytes, r->labels[i].key);
        append(to, bytes, "=");
        append(to, bytes, r->labels[i].value);
    }
    append(to, bytes, r->n_labels ? "}" : "");
}

void line_path(char *to, size_t bytes, const struct snapshot *s, uint32_t row)
{
    to[0] = '\0';
    append_row(to, bytes, s, row, MOST_SPANS);
}

void line_find_holder(struct line_holder *h, const struct snapshot *s)
{
    uint32_t most = 0;
    for (uint32_t i = 1; i < s->n_rows; i++)
        if (totals_inuse_bytes(&s->rows[i].totals) > totals_inuse_bytes(&s->rows[most].totals))
            most = i;
    *h = (struct line_holder){.all_bytes = totals_inuse_bytes(&s->all), .path = ""};
    if (s->n_rows == 0)
        return;
    h->bytes = totals_inuse_bytes(&s->rows[most].totals);
    append_row(h->path, sizeof h->path, s, most, MOST_SPANS);
}
