/* SPDX-License-Identifier: BSD-2-Clause */
/* Sites and label sets as jespan keeps them. */
#include "sites.h"

#include <errno.h>
#include <string.h>

#include "compiler.h"
#include "meta.h"

#define BUCKETS 1024
#define SMALLEST_LABELS 64 /* bytes of a label set's memory; larger ones are powers of two */
#define LABEL_SIZES 9

static struct site *buckets[BUCKETS];
static struct label_set *free_labels[LABEL_SIZES]; /* linked through their text */
static _Atomic uint64_t truncated;

static uint32_t hash_bytes(uint32_t hash, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)p[i]) * 16777619u; /* FNV-1a */
    return hash;
}

/* The length of `s` within the limit, not splitting a UTF-8 sequence. */
static size_t bounded_length(const char *s)
{
    size_t n = strnlen(s, JESPAN_MAX_STRING_BYTES + 1);
    if (n <= JESPAN_MAX_STRING_BYTES)
        return n;
    atomic_fetch_add_explicit(&truncated, 1, memory_order_relaxed);
    n = JESPAN_MAX_STRING_BYTES;
    while (n > 0 && (s[n] & 0xc0) == 0x80)
        n--;
    return n;
}

static const char *copy_string(const char *s, size_t n)
{
    char *copy = meta_alloc(n + 1);
    if (copy)
        memcpy(copy, s, n);
    return copy;
}

static int equals(const char *kept, const char *s, size_t n)
{
    return strncmp(kept, s, n) == 0 && kept[n] == '\0';
}

const struct site *site_intern(const struct jespan_site *site)
{
    const char *text[3] = {site->name, site->target ? site->target : "", site->file ? site->file : ""};
    size_t n[3];
    uint32_t hash = 2166136261u ^ site->line;
    for (int i = 0; i < 3; i++) {
        n[i] = bounded_length(text[i]);
        hash = hash_bytes(hash, text[i], n[i]);
    }
    struct site **bucket = &buckets[hash % BUCKETS];
    for (struct site *s = *bucket; s; s = s->next)
        if (s->hash == hash && s->line == site->line && equals(s->name, text[0], n[0]) &&
            equals(s->target, text[1], n[1]) && equals(s->file, text[2], n[2]))
            return s;
    struct site *s = meta_alloc(sizeof *s);
    if (!s)
        return NULL;
    s->hash = hash;
    s->line = site->line;
    s->name = copy_string(text[0], n[0]);
    s->target = copy_string(text[1], n[1]);
    s->file = copy_string(text[2], n[2]);
    if (!s->name || !s->target || !s->file)
        return NULL;
    s->next = *bucket;
    *bucket = s;
    return s;
}

static char *append(char *at, const char *s)
{
    size_t n = bounded_length(s);
    memcpy(at, s, n);
    at[n] = '\0';
    return at + n + 1;
}

int labels_draft(union label_draft *draft, const struct jespan_label *labels, size_t count)
{
    struct label_set *set = &draft->set;
    char *at = set->text;
    if (count > JESPAN_MAX_LABELS) {
        atomic_fetch_add_explicit(&truncated, 1, memory_order_relaxed);
        count = JESPAN_MAX_LABELS;
    }
    for (size_t i = 0; i < count; i++) {
        if (!labels[i].key || !labels[i].value)
            return -EINVAL;
        at = append(append(at, labels[i].key), labels[i].value);
    }
    set->count = (uint32_t)count;
    set->bytes = (uint32_t)(at - set->text);
    set->hash = hash_bytes(2166136261u, set->text, set->bytes);
    set->capacity = LABEL_TEXT_MAX;
    return 0;
}

static int size_index(size_t bytes)
{
    int i = 0;
    while (((size_t)SMALLEST_LABELS << i) < bytes)
        i++;
    return i;
}

struct label_set *labels_copy(const struct label_set *draft)
{
    int i = size_index(sizeof *draft + draft->bytes);
    size_t bytes = (size_t)SMALLEST_LABELS << i;
    struct label_set *set = free_labels[i];
    if (set)
        memcpy(&free_labels[i], set->text, sizeof set);
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
    int i = size_index(sizeof *set + set->capacity);
    memcpy(set->text, &free_labels[i], sizeof set);
    free_labels[i] = set;
}

int labels_equal(const struct label_set *a, const struct label_set *b)
{
    if (!a || !b)
        return a == b;
    return a->hash == b->hash && a->count == b->count && a->bytes == b->bytes &&
           memcmp(a->text, b->text, a->bytes) == 0;
}

uint64_t sites_truncated(void)
{
    return load_relaxed(&truncated);
}
