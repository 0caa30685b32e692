/* SPDX-License-Identifier: BSD-2-Clause */
/* The path of a context of a snapshot, as a text for people. */
#include "snapshot/row_path.h"

#include <string.h>

#define MOST_SPANS 4

/* Characters that could command a terminal are shown as '?'. Bytes above ASCII are parts of UTF-8. */
static void append(char *to, size_t bytes, const char *text)
{
    size_t n = strlen(to);
    for (; *text && n < bytes - 1; text++)
        to[n++] = (unsigned char)*text < ' ' || *text == 127 ? '?' : *text;
    to[n] = '\0';
}

#define NO_ROW UINT32_MAX

static uint32_t span_above(const struct snapshot *s, uint32_t row)
{
    uint32_t above = s->rows[row].parent_row;
    return above != row && s->rows[above].kind == CONTEXT_SPAN ? above : NO_ROW;
}

/* A path keeps its innermost spans. */
static void append_names(char *to, size_t bytes, const struct snapshot *s, uint32_t row, int most)
{
    uint32_t above = span_above(s, row);
    if (above != NO_ROW && most > 1)
        append_names(to, bytes, s, above, most - 1);
    if (above != NO_ROW)
        append(to, bytes, most > 1 ? " > " : "… > ");
    append(to, bytes, s->rows[row].name);
}

static bool has_label(const struct snapshot *s, uint32_t row, const struct snapshot_label *label)
{
    for (; row != NO_ROW; row = span_above(s, row))
        for (uint32_t i = 0; i < s->rows[row].n_labels; i++)
            if (!strcmp(s->rows[row].labels[i].key, label->key) && !strcmp(s->rows[row].labels[i].value, label->value))
                return true;
    return false;
}

/* The labels of all spans of the path, those of the innermost first, as `jespan report` prints them. A label that several
 * spans have belongs to the outermost of them. */
static void append_labels(char *to, size_t bytes, const struct snapshot *s, uint32_t row)
{
    const char *before = " {";
    for (; row != NO_ROW; row = span_above(s, row))
        for (uint32_t i = 0; i < s->rows[row].n_labels; i++) {
            const struct snapshot_label *label = &s->rows[row].labels[i];
            if (has_label(s, span_above(s, row), label))
                continue;
            append(to, bytes, before);
            append(to, bytes, label->key);
            append(to, bytes, "=");
            append(to, bytes, label->value);
            before = ", ";
        }
    append(to, bytes, before[0] == ',' ? "}" : "");
}

void row_path(char *to, size_t bytes, const struct snapshot *s, uint32_t row)
{
    to[0] = '\0';
    append_names(to, bytes, s, row, MOST_SPANS);
    append_labels(to, bytes, s, row);
}
