/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of `jespan leaks`: leaks of a profile (leaks_rows.c), and their text (leaks.c). */
#ifndef JESPAN_ANALYSIS_LEAKS_H
#define JESPAN_ANALYSIS_LEAKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/stack.h"
#include "report.h"

/* The part of a leak that one context holds. */
struct leak_part {
    uint64_t stack, context; /* hashes */
    uint32_t sample;         /* one of the context */
    int64_t bytes, objects;
};

/* All memory in use that was allocated from one stack. */
struct leak {
    uint32_t part, n_parts; /* index into parts; the largest first */
    int64_t bytes, objects;
    struct suppression *suppressed_by;
};

struct leaks {
    struct leak_part *parts;
    struct leak *items; /* the largest first */
    uint32_t n_parts, n;
    bool has_stacks;
};

struct leaks_wanted {
    const struct report_filter *filter; /* NULL: all */
    const struct suppressions *suppressions;
    bool all_frames; /* stacks differ also by frames that are not shown otherwise */
    bool of_spans;   /* without what threads allocated outside spans */
};

/* Reads the leaks of a heap profile in which samples have all locations. `leaks` is overwritten, and freed by the caller in
 * either case. Returns 0, -ENOMEM, or -EBADMSG if a sample cannot be decoded. */
int leaks_read(struct leaks *leaks, struct report_input *input, const struct leaks_wanted *wanted);
void leaks_free(struct leaks *leaks);

/* ---- Suppressions ---- */

/* Suppressions of leaks, in the format of LeakSanitizer: a line "leak:PATTERN" for each. Empty lines and those that begin with
 * # are comments. A pattern fits a function, a source file or a library if it occurs in its name; * stands for any text, ^ at
 * the start and $ at the end for the ends of the name. */

struct suppression {
    char *pattern;
    uint64_t n_stacks;
    int64_t bytes;
};

/* {0} has none. */
struct suppressions {
    struct suppression *items;
    size_t n, room;
};

/* Adds those of a file. Returns NULL, or the reason in words with the number of the line, in `reason` of 256 bytes. */
const char *suppressions_read(struct suppressions *all, const char *path, char reason[256]);
void suppressions_free(struct suppressions *all);

/* The first that fits a frame of the stack, or NULL. */
struct suppression *suppressions_find(const struct suppressions *all, const struct profile *profile, const struct stack *stack);

/* Whether a pattern fits a text. */
bool suppressions_fit(const char *pattern, const char *text);

#endif
