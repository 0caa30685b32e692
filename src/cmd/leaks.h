/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of `jespan leaks`: leaks of a profile (leaks_rows.c), and their text (leaks.c). */
#ifndef JESPAN_CMD_LEAKS_H
#define JESPAN_CMD_LEAKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report.h"
#include "stack.h"
#include "suppressions.h"

/* The part of a leak that one context holds. */
struct leak_part {
    uint64_t stack, context; /* hashes */
    uint32_t sample;         /* one of the context */
    int64_t bytes, objects;
};

/* All that is in use of one stack. */
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

#endif
