/* SPDX-License-Identifier: BSD-2-Clause */
/* The cache of contexts by site and labels. */
#include "span/label_cache.h"

#include <string.h>

#include "base/compiler.h"
#include "base/meta.h"
#include "span/labels.h"

#define LINES 128

/* The first and the last bytes of a value, at most 16. They may overlap. */
static uint64_t ends_of(const char *value, size_t n)
{
    uint64_t first = 0, last = 0;
    if (n >= sizeof first) {
        memcpy(&first, value, sizeof first);
        memcpy(&last, value + n - sizeof last, sizeof last);
    } else if (n >= 4) {
        memcpy(&first, value, 4);
        memcpy(&last, value + n - 4, 4);
    } else if (n) {
        first = (unsigned char)value[0] | (uint64_t)(unsigned char)value[n / 2] << 8;
        last = (unsigned char)value[n - 1];
    }
    return first ^ (last << 29 | last >> 35);
}

bool label_cache_hash(uint32_t *hash, struct label_lengths *lengths, const struct labels_given *given)
{
    uint64_t h = *hash;
    if (given->n > JESPAN_MAX_LABELS)
        return false;
    for (size_t i = 0; i < given->n; i++) {
        const struct jespan_label label = labels_given_at(given, i);
        uint64_t value = (uint64_t)label.integer;
        if (unlikely(!labels_is_valid(&label)))
            return false;
        lengths->n[i] = LABEL_IS_INTEGER;
        if (likely(label.type == JESPAN_TYPE_STRING)) {
            lengths->n[i] = strlen(label.value);
            value = ends_of(label.value, lengths->n[i]);
        }
        h = (h ^ value) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    *hash = (uint32_t)h;
    return true;
}

struct label_cache_line *label_cache_line(struct thread *t, uint32_t hash, bool makes)
{
    if (!t->label_lines && makes)
        t->label_lines = meta_alloc(LINES * sizeof(struct label_cache_line));
    return t->label_lines ? &t->label_lines[hash % LINES] : NULL;
}

/* A label in a line: the length of its key, the key with its NUL, the length of its value, the value without NUL. An
 * integer has the length INTEGER and 8 bytes. */
#define INTEGER 0xff

static const void *bytes_of(const struct jespan_label *label, size_t *length)
{
    if (likely(*length != LABEL_IS_INTEGER))
        return label->value;
    *length = sizeof label->integer;
    return &label->integer;
}

bool label_cache_has(const struct label_cache_line *line, const struct labels_given *given,
                     const struct label_lengths *lengths)
{
    const unsigned char *at = (const unsigned char *)line->text;
    if (line->n != given->n)
        return false;
    for (size_t i = 0; i < given->n; i++) {
        const struct jespan_label label = labels_given_at(given, i);
        size_t length = lengths->n[i];
        const unsigned char *kept = at + 1 + *at + 1;
        const void *value = bytes_of(&label, &length);
        if (*kept != (lengths->n[i] == LABEL_IS_INTEGER ? INTEGER : length) || strcmp((const char *)at + 1, label.key) != 0 ||
            memcmp(kept + 1, value, length) != 0)
            return false;
        at = kept + 1 + length;
    }
    return true;
}

bool label_cache_keep(struct label_cache_line *line, const struct labels_given *given,
                      const struct label_lengths *lengths)
{
    char *at = line->text, *end = at + sizeof line->text;
    for (size_t i = 0; i < given->n; i++) {
        const struct jespan_label label = labels_given_at(given, i);
        size_t key = strlen(label.key), length = lengths->n[i];
        const void *value = bytes_of(&label, &length);
        size_t room = (size_t)(end - at);
        if (key > room || length > room || key + length + 3 > room)
            return false;
        *at++ = (char)key;
        memcpy(at, label.key, key + 1);
        at += key + 1;
        *at++ = (char)(lengths->n[i] == LABEL_IS_INTEGER ? INTEGER : length);
        memcpy(at, value, length);
        at += length;
    }
    line->n = (uint8_t)given->n;
    return true;
}
