/* SPDX-License-Identifier: BSD-2-Clause */
/* Suppressions of leaks, in the format of LeakSanitizer: a line "leak:PATTERN" for each. Empty lines and those that begin with
 * # are comments. A pattern fits a function, a source file or a library if it occurs in its name; * stands for any text, ^ at
 * the start and $ at the end for the ends of the name. */
#ifndef JESPAN_CMD_SUPPRESSIONS_H
#define JESPAN_CMD_SUPPRESSIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "stack.h"

struct suppression {
    char *pattern;
    uint64_t n_stacks;
    int64_t bytes;
};

/* {0} has none. */
struct suppressions {
    struct suppression *items;
    size_t n;
};

/* Adds those of a file. Returns NULL, or the reason in words with the number of the line, in `reason` of 256 bytes. */
const char *suppressions_read(struct suppressions *all, const char *path, char reason[256]);
void suppressions_free(struct suppressions *all);

/* The first that fits a frame of the stack, or NULL. */
struct suppression *suppressions_find(const struct suppressions *all, const struct profile *profile, const struct stack *stack);

/* Whether a pattern fits a text. */
bool suppressions_fit(const char *pattern, const char *text);

#endif
