/* SPDX-License-Identifier: BSD-2-Clause */
/* Finds contexts of a snapshot by path. */
#include "snapshot/row_find.h"

#include <string.h>

#include "base/parse.h"

/* ---- Reading ---- */

/* `labels` is what is between the braces; it is changed. */
static const char *labels_wrong(char *labels)
{
    for (char *one; (one = strsep(&labels, ","));) {
        char *value = strchr(one, '=');
        if (!value)
            return "a label is KEY=VALUE";
        *value = '\0';
        if (!*text_trim(one))
            return "a label has no key";
    }
    return NULL;
}

/* `part` is NAME or NAME{LABELS}; it is changed. */
static const char *part_wrong(char *part)
{
    char *labels = strchr(part, '{'), *end = strrchr(part, '}');
    if (labels && (!end || end < labels || end[1]))
        return "a '{' needs a '}' at the end of the name's labels";
    if (!labels && end)
        return "a '}' has no '{' before it";
    if (labels && strstr(labels, "}{"))
        return "several labels are {KEY=VALUE,KEY=VALUE}";
    if (labels)
        *labels = *end = '\0';
    return *text_trim(part) ? labels ? labels_wrong(labels + 1) : NULL : "a name is missing; * is any name";
}

const char *row_path_wrong(const char *path)
{
    char text[ROW_PATH_BYTES], *rest = text;
    size_t bytes = strlen(path) + 1;
    const char *wrong = bytes <= sizeof text ? NULL : "it is longer than 2047 bytes";
    if (wrong)
        return wrong;
    memcpy(text, path, bytes);
    for (char *part; !wrong && (part = strsep(&rest, ">"));)
        wrong = part_wrong(text_trim(part));
    return wrong;
}

/* ---- Fitting ---- */

static bool has_label(const struct snapshot_row *row, const char *key, const char *value)
{
    for (uint32_t i = 0; i < row->n_labels; i++)
        if (strcmp(row->labels[i].key, key) == 0 && pattern_fits(value, row->labels[i].value))
            return true;
    return false;
}

/* `labels` is KEY=VALUE,…; it is changed. */
static bool has_labels(const struct snapshot_row *row, char *labels)
{
    for (char *one; (one = strsep(&labels, ","));) {
        char *value = strchr(one, '=');
        if (!value)
            return false;
        *value = '\0';
        if (!has_label(row, text_trim(one), text_trim(value + 1)))
            return false;
    }
    return true;
}

/* Whether the row is NAME or NAME{LABELS}; `part` is changed. */
static bool fits_part(const struct snapshot_row *row, char *part)
{
    char *labels = strchr(part, '{');
    if (labels) {
        char *end = strrchr(labels, '}');
        if (!end || end[1])
            return false;
        *end = '\0';
        *labels++ = '\0';
    }
    return pattern_fits(text_trim(part), row->name) && (!labels || has_labels(row, labels));
}

bool row_fits(const struct snapshot *s, uint32_t row, const char *path)
{
    char text[ROW_PATH_BYTES];
    size_t bytes = strlen(path) + 1;
    bool fits = bytes <= sizeof text && s->rows[row].kind == CONTEXT_SPAN;
    if (!fits)
        return false;
    memcpy(text, path, bytes);
    for (char *last = text; fits && last; row = s->rows[row].parent_row) {
        last = strrchr(text, '>');
        fits = row != 0 && fits_part(&s->rows[row], text_trim(last ? last + 1 : text));
        if (last)
            *last = '\0';
    }
    return fits;
}

bool row_is_within(const struct snapshot *s, uint32_t row, const char *path)
{
    while (row != 0 && !row_fits(s, row, path))
        row = s->rows[row].parent_row;
    return row != 0;
}
