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

/* Whether the next span from this row outwards that has the key has the same value. */
static bool has_label(const struct snapshot *s, uint32_t row, const struct snapshot_label *label)
{
    for (; row != NO_ROW; row = span_above(s, row))
        for (uint32_t i = 0; i < s->rows[row].n_labels; i++)
            if (!strcmp(s->rows[row].labels[i].key, label->key))
                return !strcmp(s->rows[row].labels[i].value, label->value);
    return false;
}

/* The labels of all spans of the path, those of the innermost first, as `jespan report` prints them. A label that spans have
 * again, without another value between them, belongs to the outermost of them. */
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

/* ---- All spans: a path may be long, so it is measured first, and its names are written from the last to the first ---- */

struct whole {
    char *to;
    size_t bytes; /* of `to`; may be less than the text needs */
};

static void put_at(const struct whole *w, size_t at, const char *text)
{
    for (; *text && at + 1 < w->bytes; text++, at++)
        w->to[at] = (unsigned char)*text < ' ' || *text == 127 ? '?' : *text;
}

static size_t put_label(const struct whole *w, size_t at, const char *before, const struct snapshot_label *label)
{
    const char *const parts[] = {before, label->key, "=", label->value};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        put_at(w, at, parts[i]);
        at += strlen(parts[i]);
    }
    return at;
}

static size_t put_names(const struct whole *w, const struct snapshot *s, uint32_t row)
{
    size_t length = 0;
    for (uint32_t i = row; i != NO_ROW; i = span_above(s, i))
        length += strlen(s->rows[i].name) + (span_above(s, i) != NO_ROW ? 3 : 0);
    size_t at = length;
    for (; row != NO_ROW; row = span_above(s, row)) {
        at -= strlen(s->rows[row].name);
        put_at(w, at, s->rows[row].name);
        if (at)
            put_at(w, at -= 3, " > ");
    }
    return length;
}

size_t row_path_whole(char *to, size_t bytes, const struct snapshot *s, uint32_t row)
{
    const struct whole w = {to, bytes};
    const char *before = " {";
    size_t at = put_names(&w, s, row);
    for (; row != NO_ROW; row = span_above(s, row))
        for (uint32_t i = 0; i < s->rows[row].n_labels; i++)
            if (!has_label(s, span_above(s, row), &s->rows[row].labels[i])) {
                at = put_label(&w, at, before, &s->rows[row].labels[i]);
                before = ", ";
            }
    if (before[0] == ',')
        put_at(&w, at++, "}");
    if (bytes)
        to[at < bytes ? at : bytes - 1] = '\0';
    return at;
}
