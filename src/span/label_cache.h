/* SPDX-License-Identifier: BSD-2-Clause */
/* A cache of each thread, which leads from the current context, a site and the values of labels to the child context.
 * So a JESPAN() block with labels that the thread had before needs neither the tree's lock nor a label set.
 *
 * A line has a copy of the labels as they were given. They are compared with it byte by byte, since the program may use
 * the same memory for other values. The hash, which only chooses the line, looks at the length and at the ends of each
 * value. Labels that do not fit into a line are not cached. Valid while the context has the line's generation.
 */
#ifndef JESPAN_LABEL_CACHE_H
#define JESPAN_LABEL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

struct label_cache_line {
    struct site_cache_line way;
    bool has_policy; /* the context has an allocation policy */
    uint8_t n;       /* labels */
    char text[152];  /* label_cache_keep() writes it */
};

/* The lengths of the given values; an integer has LABEL_IS_INTEGER. */
struct label_lengths {
    size_t n[JESPAN_MAX_LABELS];
};
#define LABEL_IS_INTEGER SIZE_MAX

/* Adds the given labels to the hash, and tells the lengths. False: they are too many, or one is not valid. */
bool label_cache_hash(uint32_t *hash, struct label_lengths *lengths, const struct labels_given *given);

/* The line for the hash. NULL: the thread has no cache yet, or with `makes`, there is no memory for it. */
struct label_cache_line *label_cache_line(struct thread *t, uint32_t hash, bool makes);

/* Whether the line has these labels. */
bool label_cache_has(const struct label_cache_line *line, const struct labels_given *given,
                     const struct label_lengths *lengths);

/* Copies the labels into the line. False: they do not fit. */
bool label_cache_keep(struct label_cache_line *line, const struct labels_given *given,
                      const struct label_lengths *lengths);

#endif
