/* SPDX-License-Identifier: BSD-2-Clause */
/* Which labels a digest keeps. */
#include <string.h>

#include "digest_nodes.h"

static bool is_listed(const char *keys, const char *key)
{
    size_t n = strlen(key);
    for (const char *at = keys; n > 0; at++) {
        size_t length = strcspn(at, "|");
        if (length == n && memcmp(at, key, n) == 0)
            return true;
        at += length;
        if (*at == '\0')
            break;
    }
    return false;
}

static bool is_hexadecimal(const char *text, size_t digits)
{
    return strlen(text) == digits && strspn(text, "0123456789abcdef") == digits;
}

/* An id that is no id is not kept, even where it is listed: servers refuse it. */
static bool is_kept(const struct digest_shape *shape, const struct snapshot_label *label)
{
    bool wanted = is_listed(shape->labels, label->key);
    if (strcmp(label->key, "span_id") == 0)
        return (shape->ids || wanted) && is_hexadecimal(label->value, 16);
    if (strcmp(label->key, "trace_id") == 0)
        return (shape->ids || wanted) && is_hexadecimal(label->value, 32);
    return wanted;
}

/* The key, or the name that it has at a server. */
static const char *name_of(const struct digest_shape *shape, const char *key)
{
    const char *name = shape->names != NULL ? label_names_find(shape->names, key) : NULL;
    return name != NULL ? name : key;
}

static bool has(const struct snapshot_label *labels, uint32_t n, const char *key)
{
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(labels[i].key, key) == 0)
            return true;
    return false;
}

uint32_t digest_keep_labels(const struct digest_shape *shape, const struct snapshot_row *row,
                            const struct digest_node *above, struct snapshot_label kept[DIGEST_MAX_LABELS])
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < row->n_labels && n < DIGEST_MAX_LABELS; i++) {
        const char *name = name_of(shape, row->labels[i].key);
        if (!is_kept(shape, &row->labels[i]) || has(kept, n, name))
            continue;
        kept[n] = row->labels[i];
        kept[n++].key = name;
    }
    for (uint32_t i = 0; i < above->n_labels && n < DIGEST_MAX_LABELS; i++)
        if (!has(kept, n, above->labels[i].key))
            kept[n++] = above->labels[i];
    return n;
}
