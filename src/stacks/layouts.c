/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes layouts of the positions that walks have noted, and reads what stands there. */
#include "stacks/layouts.h"

#include <stddef.h>

uint64_t layout_factors[LAYOUT_FACTORS];

struct layout *layouts_place(struct layouts *layouts, uintptr_t begin, uintptr_t pc)
{
    struct layout *set = layouts_set(layouts, begin, pc);
    uint8_t *oldest = &layouts->oldest[(size_t)(set - layouts->sets[0]) / LAYOUT_WAYS];
    struct layout *place = &set[*oldest];
    *oldest = (uint8_t)((*oldest + 1u) % LAYOUT_WAYS);
    return place;
}

/* Adds positions until there is a multiple of LAYOUT_UNROLL. */
static uint32_t fill_up(uint16_t *at, uint32_t n)
{
    for (; n % LAYOUT_UNROLL; n++)
        at[n] = at[n - 1];
    return n;
}

/* Both lists rise, since a walk goes up the stack. What does not fit that order is no pair, which does no harm. The first
 * return address is part of the key. */
void layout_make(struct layout *l, const struct layout_notes *notes)
{
    uint16_t singles[LAYOUT_WORDS];
    uint32_t pairs = 0, n = 0, check = 0;
    for (uint32_t step = 0; step < notes->steps; step++) {
        uint16_t at = notes->steps_at[step];
        for (; check < notes->checks && notes->checks_at[check] + 1u < at; check++)
            singles[n++] = notes->checks_at[check];
        if (check < notes->checks && notes->checks_at[check] + 1u == at)
            l->at[pairs++] = notes->checks_at[check++];
        else if (step)
            singles[n++] = at;
    }
    for (; check < notes->checks; check++)
        singles[n++] = notes->checks_at[check];
    l->begin = notes->begin;
    l->pc = notes->pc;
    l->id = notes->id;
    l->pairs = (uint8_t)(pairs = fill_up(l->at, pairs));
    for (uint32_t i = 0; i < n; i++)
        l->at[pairs + i] = singles[i];
    l->singles = (uint8_t)(n = fill_up(&l->at[pairs], n));
    size_t end = (size_t)((char *)&l->at[pairs + n] - (char *)l);
    l->words_at = (uint8_t)((end + sizeof(layout_pair_t) - 1) / sizeof(layout_pair_t));
    layout_keep_words(l);
}

__attribute__((no_sanitize("address", "thread"))) void layout_keep_words(struct layout *l)
{
    const struct layout_there *there = (const void *)l->begin;
    struct layout_there *word = (void *)((char *)l + l->words_at * sizeof(layout_pair_t));
    for (uint32_t i = 0; i < l->pairs; i++) {
        *word++ = there[l->at[i]];
        *word++ = there[l->at[i] + 1];
    }
    for (uint32_t i = 0; i < l->singles; i++)
        *word++ = there[l->at[l->pairs + i]];
    l->other = 0;
}

__attribute__((no_sanitize("address", "thread"))) uint64_t layout_hash(const struct layout *l)
{
    const struct layout_there *there = (const void *)l->begin;
    const uint64_t *factor = layout_factors;
    const uint16_t *at = l->at, *end = at + l->pairs;
    uint64_t even = l->pc * layout_factors[LAYOUT_FACTORS - 1] + l->begin * layout_factors[LAYOUT_FACTORS - 2], odd = 0;
    for (; at < end; at++, factor += 2) {
        even += there[at[0]].value * factor[0];
        odd += there[at[0] + 1].value * factor[1];
    }
    for (end = at + l->singles; at < end; at += LAYOUT_UNROLL, factor += LAYOUT_UNROLL) {
        even += there[at[0]].value * factor[0] + there[at[2]].value * factor[2];
        odd += there[at[1]].value * factor[1] + there[at[3]].value * factor[3];
    }
    return even + odd;
}
