/* SPDX-License-Identifier: BSD-2-Clause */
/* The cache of contexts by site and labels. */
#include "span/label_cache.h"

#include <string.h>

#include "base/compiler.h"
#include "base/constants.h"
#include "base/hash.h"
#include "base/meta.h"
#include "span/labels.h"

bool label_cache_hash(uint32_t *hash, const struct labels_given *given)
{
    uint64_t h = *hash;
    if (given->n > JESPAN_MAX_LABELS)
        return false;
    for (size_t i = 0; i < given->n; i++) {
        const struct jespan_label label = labels_given_at(given, i);
        uint64_t value = (uint64_t)label.integer;
        if (unlikely(!labels_is_valid(&label)))
            return false;
        if (likely(label.type == JESPAN_TYPE_STRING))
            value = hash_ends(label.value, strlen(label.value));
        h = (h ^ value) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    *hash = (uint32_t)h;
    return true;
}

struct label_cache_line *label_cache_line(struct thread *t, uint32_t hash, bool makes)
{
    if (!t->label_cache && makes)
        t->label_cache = meta_alloc(sizeof *t->label_cache);
    if (!t->label_cache)
        return NULL;
    return &t->label_cache->lines[hash % (sizeof t->label_cache->lines / sizeof *t->label_cache->lines)];
}

/* A label in a line: the length of its key, the key with its zero, the length of its value, the value with its zero. An integer
 * has the length INTEGER and 8 bytes. */
#define INTEGER 0xff

struct kept_label {
    const char *key, *value;
    uint8_t key_bytes, value_bytes;
};

/* Reads the label that begins there. Returns where the next one begins. */
static const char *read_kept(struct kept_label *label, const char *at)
{
    label->key_bytes = (uint8_t)*at++;
    label->key = at;
    at += label->key_bytes + 1;
    label->value_bytes = (uint8_t)*at++;
    label->value = at;
    return at + (label->value_bytes == INTEGER ? sizeof(int64_t) : label->value_bytes + 1u);
}

/* The label is valid. */
static bool is_kept(const struct kept_label *kept, const struct jespan_label *label)
{
    if (!text_is(label->key, kept->key, kept->key_bytes))
        return false;
    if (label->type == JESPAN_TYPE_INTEGER)
        return kept->value_bytes == INTEGER && !memcmp(kept->value, &label->integer, sizeof label->integer);
    return kept->value_bytes != INTEGER && text_is(label->value, kept->value, kept->value_bytes);
}

bool label_cache_has(const struct label_cache_line *line, const struct labels_given *given)
{
    const char *at = line->text;
    if (line->n != given->n)
        return false;
    for (size_t i = 0; i < given->n; i++) {
        const struct jespan_label label = labels_given_at(given, i);
        struct kept_label kept;
        at = read_kept(&kept, at);
        if (!is_kept(&kept, &label))
            return false;
    }
    return true;
}

void label_guess_keep(struct label_cache *cache, struct label_guess *guess, struct label_cache_line *line,
                      const struct labels_given *given)
{
    const char *at = line->text;
    bool is_good = !guess->rests && given->n <= LABEL_GUESS_MAX && line->way.is_constant;
    guess->rests -= guess->rests != 0;
    guess->way.site = NULL; /* a signal handler may enter a block meanwhile */
    compiler_barrier();
    for (size_t i = 0; is_good && i < given->n; i++) {
        const struct jespan_label label = labels_given_at(given, i);
        struct kept_label kept;
        at = read_kept(&kept, at);
        guess->of[i] = (struct guessed_label){.key = label.key, .value = label_value(*given, i), .kept = kept.value,
                                              .length = kept.value_bytes, .proof = LABEL_TEXT};
        if (label.type == JESPAN_TYPE_INTEGER)
            guess->of[i].proof = LABEL_NUMBER;
        else if (constants_have_text(label.value))
            guess->of[i].proof = LABEL_CONSTANT;
        is_good = constants_have_text(label.key);
    }
    guess->n = (uint16_t)given->n;
    guess->has_policy = line->has_policy;
    guess->line = line;
    if (!is_good)
        return;
    atomic_fetch_or_explicit(&line->guesses, UINT64_C(1) << (guess - cache->guesses), memory_order_relaxed);
    compiler_barrier();
    guess->way = line->way;
}

/* Appends the length and the bytes. Returns what is behind them; NULL: they do not fit. */
static char *put(char *at, const char *end, size_t length, const void *bytes, size_t n)
{
    size_t room = (size_t)(end - at);
    if (n >= room)
        return NULL;
    *at = (char)length;
    memcpy(at + 1, bytes, n);
    return at + 1 + n;
}

static char *put_text(char *at, const char *end, const char *text)
{
    size_t n = strlen(text);
    return n < INTEGER ? put(at, end, n, text, n + 1) : NULL;
}

static void forget_guesses(struct label_cache *cache, struct label_cache_line *line)
{
    for (uint64_t all = load_relaxed(&line->guesses); all; all &= all - 1) {
        struct label_guess *guess = &cache->guesses[__builtin_ctzll(all)];
        atomic_fetch_and_explicit(&line->guesses, ~(all & -all), memory_order_relaxed);
        guess->way.site = guess->line == line ? NULL : guess->way.site;
    }
}

bool label_cache_keep(struct thread *t, struct label_cache_line *line, const struct labels_given *given)
{
    forget_guesses(t->label_cache, line);
    char *at = line->text, *end = at + sizeof line->text;
    for (size_t i = 0; at && i < given->n; i++) {
        const struct jespan_label label = labels_given_at(given, i);
        at = put_text(at, end, label.key);
        if (at && label.type == JESPAN_TYPE_INTEGER)
            at = put(at, end, INTEGER, &label.integer, sizeof label.integer);
        else if (at)
            at = put_text(at, end, label.value);
    }
    line->n = (uint8_t)given->n;
    return at;
}
