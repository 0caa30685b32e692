/* SPDX-License-Identifier: BSD-2-Clause */
/* Label sets. */
#include "span/labels.h"

#include <errno.h>
#include <string.h>

#include "base/die.h"
#include "base/hash.h"
#include "base/parse.h"
#include "base/lock.h"
#include "base/meta.h"
#include "conf/conf.h"
#include "span/sites.h"

#define SMALLEST_BYTES 64 /* the smallest label set's memory; larger sizes are this times a power of two */
#define SIZES 9

_Static_assert(JESPAN_MAX_LABELS <= 8 * sizeof((struct label_set *)0)->integers, "a bit for each label");

static struct label_set *free_sets[SIZES]; /* linked through their text */

/* ---- Drafts ---- */

COLD union label_draft *labels_draft_of(struct thread *t)
{
    if (t && !t->label_draft)
        t->label_draft = meta_alloc(sizeof(union label_draft));
    return t ? t->label_draft : NULL;
}

static bool is_recorded(const struct jespan_label *label)
{
    return !conf.record_labels[0] || !label->key || list_find(conf.record_labels, label->key) >= 0;
}

/* The hash is that of `s`, and not of its copy: to read words that were just written by the byte takes longer. */
static void append(struct label_set *set, const char *s, size_t n)
{
    jespan_assert(set->bytes + n < set->capacity);
    set->hash = hash_fold(hash_string(set->hash, s, n));
    memcpy(set->text + set->bytes, s, n);
    set->text[set->bytes + n] = '\0';
    set->bytes += (uint32_t)n + 1;
}

/* The value that was just appended is an integer. */
static void note_integer(struct label_set *set)
{
    set->integers |= (uint16_t)(1u << set->count);
    set->hash = ~set->hash;
}

static void append_integer(struct label_set *set, int64_t n)
{
    char digits[NUMBER_BYTES];
    char *text = digits + (number_text(digits, n < 0 ? -(uint64_t)n : (uint64_t)n, 10) - digits);
    if (n < 0)
        *--text = '-';
    append(set, text, strlen(text));
    note_integer(set);
}

void labels_begin(union label_draft *draft)
{
    draft->set = (struct label_set){.capacity = LABEL_TEXT_MAX};
}

int labels_add(union label_draft *draft, const struct jespan_label *label)
{
    return is_recorded(label) ? labels_add_own(draft, label) : 0;
}

int labels_add_own(union label_draft *draft, const struct jespan_label *label)
{
    struct label_set *set = &draft->set;
    if (set->count == JESPAN_MAX_LABELS) {
        sites_count_truncated();
        return -ENOSPC;
    }
    if (!labels_is_valid(label))
        return -EINVAL;
    append(set, label->key, sites_bounded_length(label->key));
    if (label->type == JESPAN_TYPE_INTEGER)
        append_integer(set, label->integer);
    else
        append(set, label->value, sites_bounded_length(label->value));
    set->count++;
    return 0;
}

int labels_draft(union label_draft *draft, const struct jespan_label *labels, size_t count)
{
    int error = 0;
    labels_begin(draft);
    for (size_t i = 0; i < count && !error; i++)
        error = labels_add(draft, &labels[i]);
    return error == -ENOSPC ? 0 : error;
}

/* Whether a kept key, which may be cut, is that of the label. */
static bool has_key(const char *kept, const struct jespan_label *label)
{
    size_t n = sites_cut(label->key);
    return strlen(kept) == n && !memcmp(kept, label->key, n);
}

static void append_kept(struct label_set *to, const struct label_text *label, bool is_integer)
{
    append(to, label->key, strlen(label->key));
    append(to, label->value, strlen(label->value));
    if (is_integer)
        note_integer(to);
    to->count++;
}

int labels_draft_with(union label_draft *draft, const struct label_set *set, const struct jespan_label *label)
{
    struct label_text kept;
    bool is_in = false;
    int error = !is_recorded(label) || labels_is_valid(label) ? 0 : -EINVAL;
    labels_begin(draft);
    for (unsigned i = 0; !error && labels_each(set, i, &kept); i++) {
        if (!has_key(kept.key, label))
            append_kept(&draft->set, &kept, set->integers >> i & 1);
        else if (!is_in)
            error = labels_add(draft, label);
        is_in |= has_key(kept.key, label);
    }
    if (!error && !is_in)
        error = labels_add(draft, label);
    return error;
}

/* ---- Copies ---- */

static int size_index(size_t bytes)
{
    return bytes <= SMALLEST_BYTES ? 0 : 64 - __builtin_clzll((bytes - 1) / SMALLEST_BYTES);
}

struct label_set *labels_copy(const struct label_set *draft)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    int i = size_index(sizeof *draft + draft->bytes);
    size_t bytes = (size_t)SMALLEST_BYTES << i;
    struct label_set *set = free_sets[i];
    if (set)
        memcpy(&free_sets[i], set->text, sizeof set);
    else
        set = meta_alloc(bytes);
    if (!set)
        return NULL;
    memcpy(set, draft, sizeof *draft + draft->bytes);
    set->capacity = (uint32_t)(bytes - sizeof *set);
    return set;
}

void labels_free(struct label_set *set)
{
    if (!set)
        return;
    jespan_assert(lock_is_held(LOCK_TREE));
    int i = size_index(sizeof *set + set->capacity);
    memcpy(set->text, &free_sets[i], sizeof set);
    free_sets[i] = set;
}

int labels_equal(const struct label_set *a, const struct label_set *b)
{
    if (!a || !b)
        return a == b;
    return a->hash == b->hash && a->count == b->count && a->integers == b->integers && a->bytes == b->bytes &&
           memcmp(a->text, b->text, a->bytes) == 0;
}

/* Not sanitized, since another thread may write there. */
__attribute__((no_sanitize("thread")))
bool labels_seem_equal(const struct label_set *kept, const struct label_set *draft)
{
    const volatile struct label_set *racy = kept;
    if (!kept || !draft)
        return kept == draft;
    if (racy->hash != draft->hash || racy->count != draft->count || racy->integers != draft->integers || racy->bytes != draft->bytes ||
        racy->capacity < draft->bytes)
        return false;
    for (uint32_t i = 0; i < draft->bytes; i++)
        if (racy->text[i] != draft->text[i])
            return false;
    return true;
}
