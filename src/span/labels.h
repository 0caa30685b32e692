/* SPDX-License-Identifier: BSD-2-Clause */
/* Label sets as jespan keeps them: copies of the labels that record_labels names, cut to the limits of the public
 * header.
 *
 * They come and go with their contexts. Under LOCK_TREE, but for drafts, which are their thread's.
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

/* From i = 0 on, each time the next; false behind the last, and where set is NULL. */
static inline bool labels_each(const struct label_set *set, unsigned i, struct label_text *label)
{
    if (!set || i >= set->count)
        return false;
    label->key = i ? label->value + strlen(label->value) + 1 : set->text;
    label->value = label->key + strlen(label->key) + 1;
    return true;
}

/* A label set in the making, to compare with. */
union label_draft {
    struct label_set set;
    char room[sizeof(struct label_set) + LABEL_TEXT_MAX];
};

/* The thread's draft: not on the stack, which may be small. NULL: no memory. */
union label_draft *labels_draft_of(struct thread *t);

/* It has a key, and a value of a type that is known. */
bool labels_is_valid(const struct jespan_label *label);

/* Composing: begin, add each, end. Adding returns 0, also where record_labels leaves the label out; -EINVAL where a key
 * or a value is NULL, or the type unknown, and the label is not in; -ENOSPC, counted, when there are as many as may be. */
void labels_begin(union label_draft *draft);
int labels_add(union label_draft *draft, const struct jespan_label *label);
int labels_add_own(union label_draft *draft, const struct jespan_label *label); /* whatever record_labels says */
void labels_end(union label_draft *draft);

/* All three. Those beyond the limit are left out. Returns 0 or -EINVAL. */
int labels_draft(union label_draft *draft, const struct jespan_label *labels, size_t count);

/* `set` (NULL: none) with one more label, which takes the place of those with its key. Returns what labels_add() does. */
int labels_draft_with(union label_draft *draft, const struct label_set *set, const struct jespan_label *label);

/* The number that a value of an integer stands for. */
int64_t labels_integer(const char *value);

/* A lasting copy; NULL when out of memory. */
struct label_set *labels_copy(const struct label_set *draft);
void labels_free(struct label_set *set);
int labels_equal(const struct label_set *a, const struct label_set *b); /* NULL: no labels */

#endif
