/* SPDX-License-Identifier: BSD-2-Clause */
/* A cache of each thread, which leads from the current context, a site and the values of labels to the child context.
 * So a JESPAN() block with labels that the thread had before needs neither the tree's lock nor a label set.
 *
 * A line has a copy of the labels as they were given. They are compared with it byte by byte, since the program may use
 * the same memory for other values. The hash, which only chooses the line, looks at the length and at the ends of each
 * value. Labels that do not fit into a line are not cached. Valid while the context has the line's generation.
 *
 * A *guess* is faster than the hash: it finds the line by the addresses of the values. Values that the program could write are
 * still compared. Where one is not the same, the guess rests for some time.
 */
#ifndef JESPAN_LABEL_CACHE_H
#define JESPAN_LABEL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/text_is.h"
#include "heap/thread.h"
#include "jespan/jespan.h"

/* Labels as a caller gives them: pairs of strings, or an array of labels. */
struct labels_given {
    const char *const *pairs;
    const struct jespan_label *labels; /* NULL: pairs */
    size_t n;
};

static inline struct jespan_label labels_given_at(const struct labels_given *given, size_t i)
{
    if (given->labels)
        return given->labels[i];
    return (struct jespan_label)JESPAN_LABEL(given->pairs[2 * i], given->pairs[2 * i + 1]);
}

/* By value, so that the fast paths keep these in registers. */
HOT_INLINE const char *label_key(struct labels_given given, size_t i)
{
    return given.labels ? given.labels[i].key : given.pairs[2 * i];
}

HOT_INLINE uint32_t label_type(struct labels_given given, size_t i)
{
    return given.labels ? given.labels[i].type : JESPAN_TYPE_STRING;
}

/* What tells values apart before their texts are compared: the address of a string, or an integer. */
HOT_INLINE uint64_t label_value(struct labels_given given, size_t i)
{
    if (!given.labels)
        return (uintptr_t)given.pairs[2 * i + 1];
    return label_type(given, i) == JESPAN_TYPE_STRING ? (uintptr_t)given.labels[i].value : (uint64_t)given.labels[i].integer;
}

#define LABEL_GUESSES 64u

struct label_cache_line {
    struct site_cache_line way;
    _Atomic uint64_t guesses; /* bit i: guess i may be of this line. Signal handlers change it too */
    bool has_policy;          /* the context has an allocation policy */
    uint8_t n;                /* labels */
    char text[150];           /* label_cache_keep() writes it */
};

/* How a label is known to be the one that was guessed. The address of a value that is a constant of the program is enough, and that
 * of a key always is one. */
enum label_proof { LABEL_CONSTANT, LABEL_NUMBER, LABEL_TEXT };

#define LABEL_GUESS_MAX 4u /* labels */
#define LABEL_GUESS_RESTS 15u

struct label_guess {
    _Alignas(CACHE_LINE_BYTES) struct site_cache_line way; /* of the line; without a site: none */
    struct label_cache_line *line;
    uint32_t rests; /* guesses that are not to be kept */
    uint16_t n;
    bool has_policy; /* of the line */
    struct guessed_label {
        const char *key;
        uint64_t value;   /* its address, or the integer */
        const char *kept; /* in the line */
        uint8_t length;
        uint8_t proof;
    } of[LABEL_GUESS_MAX];
};

struct label_cache {
    struct label_guess guesses[LABEL_GUESSES];
    struct label_cache_line lines[128];
    char margin[TEXT_MARGIN]; /* of the last text */
};

/* The guess for the site, below the current context, and the addresses of the values. */
HOT_INLINE struct label_guess *label_cache_guess(struct thread *t, const struct jespan_site *site, struct labels_given given)
{
    uint64_t mix = (uint64_t)(uintptr_t)site ^ (uint64_t)t->tag << 32;
    for (size_t i = 0; i < given.n; i++)
        mix = (mix << 19 | mix >> 45) + label_value(given, i);
    return &t->label_cache->guesses[mix * 0x9e3779b97f4a7c15u / (UINT64_MAX / LABEL_GUESSES + 1)];
}

HOT_INLINE bool label_guess_is_proved(const struct guessed_label *label, struct labels_given given, size_t i)
{
    if (label->key != label_key(given, i) || label->value != label_value(given, i))
        return false;
    uint32_t type = label_type(given, i);
    if (likely(label->proof == LABEL_CONSTANT))
        return type == JESPAN_TYPE_STRING;
    if (label->proof == LABEL_NUMBER)
        return type == JESPAN_TYPE_INTEGER;
    return type == JESPAN_TYPE_STRING && text_is((const char *)(uintptr_t)label->value, label->kept, label->length);
}

/* Whether these labels are those of the line. */
HOT_INLINE bool label_guess_is_right(const struct label_guess *guess, struct labels_given given)
{
    if (unlikely(guess->n != given.n))
        return false;
    for (size_t i = 0; i < given.n; i++)
        if (unlikely(!label_guess_is_proved(&guess->of[i], given, i)))
            return false;
    return true;
}

/* The line has the labels: remembers that, unless the guess rests, or the site or a key is no constant. */
void label_guess_keep(struct label_cache *cache, struct label_guess *guess, struct label_cache_line *line,
                      const struct labels_given *given);

static inline void label_guess_was_wrong(struct label_guess *guess)
{
    guess->way.site = NULL;
    guess->rests = LABEL_GUESS_RESTS;
}

/* Adds the given labels to the hash. False: they are too many, or one is not valid. */
bool label_cache_hash(uint32_t *hash, const struct labels_given *given);

/* The line for the hash. NULL: the thread has no cache yet, or with `makes`, there is no memory for it. */
struct label_cache_line *label_cache_line(struct thread *t, uint32_t hash, bool makes);

/* Whether the line has these labels. */
bool label_cache_has(const struct label_cache_line *line, const struct labels_given *given);

/* Copies the labels into the line, of which nothing is guessed from then on. False: they do not fit. */
bool label_cache_keep(struct thread *t, struct label_cache_line *line, const struct labels_given *given);

#endif
