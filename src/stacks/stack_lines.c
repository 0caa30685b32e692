/* SPDX-License-Identifier: BSD-2-Clause */
/* Adds lines, and makes room for more. */
#include "stacks/stack_lines.h"

#include "base/meta.h"

#define LINES_FIRST 1024u
#define LINES_MOST 65536u

/* A line that may be overwritten. */
static struct stack_line *spare(const struct stack_lines *lines, uint64_t key)
{
    for (unsigned which = 0; which < 2; which++) {
        struct stack_line *set = &lines->all[lines_set(lines->mask, key, which)];
        for (uint32_t i = 0; i < LINES_WAYS; i++)
            if (!set[i].key)
                return &set[i];
    }
    return &lines->all[lines_set(lines->mask, key, lines->misses / LINES_WAYS % 2) + lines->misses % LINES_WAYS];
}

COLD void lines_grow(struct stack_lines *lines)
{
    uint32_t n = lines->all ? 2 * (lines->mask + 1) : LINES_FIRST, old_n = lines->all ? lines->mask + 1 : 0;
    lines->misses = 0;
    if (n > LINES_MOST)
        return;
    struct stack_line *all = meta_map(n * sizeof *all), *old = lines->all;
    if (!all)
        return;
    if (old)
        meta_touch(all, n * sizeof *all);
    lines->all = all;
    lines->mask = n - 1;
    for (uint32_t i = 0; i < old_n; i++)
        if (old[i].key)
            *spare(lines, old[i].key) = old[i];
    meta_unmap(old, old_n * sizeof *old);
}

struct stack_line *lines_add(struct stack_lines *lines, uint64_t key)
{
    if (++lines->misses > lines->mask / 2)
        lines_grow(lines);
    return lines->all ? spare(lines, key) : NULL;
}
