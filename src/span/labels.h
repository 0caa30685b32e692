/* SPDX-License-Identifier: BSD-2-Clause */
/* Label sets: copies of the labels that record_labels names, cut to the limits of the public header.
 *
 * They come and go with their contexts. All functions need LOCK_TREE, except those for drafts, which belong to one
 * thread.
 */
#ifndef JESPAN_LABELS_H
#define JESPAN_LABELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "heap/thread.h"
#include "jespan/jespan.h"

struct label_set {
    uint32_t hash;
    uint16_t count;
    uint16_t integers; /* bit i: the i-th value is an integer, in decimal */
    uint32_t bytes;
    uint32_t capacity; /* of text */
    char text[];       /* count times "key\0value\0" */
};
#define LABEL_TEXT_MAX (JESPAN_MAX_LABELS * 2 * (JESPAN_MAX_STRING_BYTES + 1))

/* One label, where the set keeps it. */
struct label_text {
    const char *key, *value;
};

/* Gives the labels in order: i counts from 0, and `label` holds the one before. Returns false after the last one, and
 * where set is NULL. */
static inline bool labels_each(const struct label_set *set, unsigned i, struct label_text *label)
{
    if (!set || i >= set->count)
        return false;
    label->key = i ? label->value + strlen(label->value) + 1 : set->text;
    label->value = label->key + strlen(label->key) + 1;
    return true;
}

/* A label set while it is composed. */
union label_draft {
    struct label_set set;
    char memory[sizeof(struct label_set) + LABEL_TEXT_MAX];
};

/* The thread's draft, which is not on the stack, since that may be small. NULL when out of memory. */
union label_draft *labels_draft_of(struct thread *t);

/* Whether the label has a key, and a value of a known type. */
static inline bool labels_is_valid(const struct jespan_label *label)
{
    return label->key && (label->type == JESPAN_TYPE_INTEGER || (label->type == JESPAN_TYPE_STRING && label->value));
}

/* To compose a set: begin, then add each label. Adding returns 0, also for a label that record_labels does not name;
 * -EINVAL for a label that is not valid; -ENOSPC when the set is full, which is counted. */
void labels_begin(union label_draft *draft);
int labels_add(union label_draft *draft, const struct jespan_label *label);
/* The same, also for labels that record_labels does not name. */
int labels_add_own(union label_draft *draft, const struct jespan_label *label);

/* Composes a whole set. Leaves out labels beyond the limit. Returns 0 or -EINVAL. */
int labels_draft(union label_draft *draft, const struct jespan_label *labels, size_t count);

/* Composes `set` (NULL: none) and one more label, which replaces labels with the same key. Returns as labels_add(). */
int labels_draft_with(union label_draft *draft, const struct label_set *set, const struct jespan_label *label);

/* The number in the value of an integer label. */
static inline int64_t labels_integer(const char *value)
{
    uint64_t n = 0;
    for (const char *digit = value + (*value == '-'); *digit; digit++)
        n = 10 * n + (uint64_t)(*digit - '0');
    return (int64_t)(*value == '-' ? -n : n);
}

/* A copy that stays until labels_free(). NULL when out of memory. */
struct label_set *labels_copy(const struct label_set *draft);
void labels_free(struct label_set *set);
/* Without the lock: whether a kept set seems to be equal to a draft. It may be freed, and used again, at
 * any moment; its memory stays. Both may be NULL. */
bool labels_seem_equal(const struct label_set *kept, const struct label_set *draft);

int labels_equal(const struct label_set *a, const struct label_set *b); /* NULL: no labels */

#endif
