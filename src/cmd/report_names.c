/* SPDX-License-Identifier: BSD-2-Clause */
/* Names that several functions have below the same caller. Most files have none: then no sample is looked at. */
#include "report_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 256u

struct report_name {
    uint64_t above, name, function;
    bool used, repeated;
};

static uint64_t name_of(const struct profile *profile, uint64_t function)
{
    return profile_number(profile_function(profile, function), FUNCTION_NAME);
}

/* The end of splitmix64. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static struct report_name *find(const struct report_names *names, uint64_t above, uint64_t name)
{
    uint32_t i = (uint32_t)mix(mix(above + 1) + name) & (names->n_slots - 1);
    while (names->slots[i].used && (names->slots[i].above != above || names->slots[i].name != name))
        i = (i + 1) & (names->n_slots - 1);
    return &names->slots[i];
}

static int grow(struct report_names *names)
{
    struct report_names next = {.n = names->n, .n_slots = names->n_slots == 0 ? FIRST_SLOTS : names->n_slots * 2};
    next.slots = calloc(next.n_slots, sizeof *next.slots);
    if (next.slots == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < names->n_slots; i++)
        if (names->slots[i].used)
            *find(&next, names->slots[i].above, names->slots[i].name) = names->slots[i];
    free(names->slots);
    *names = next;
    return 0;
}

static int add(struct report_names *names, uint64_t above, uint64_t name, uint64_t function)
{
    if (names->n >= names->n_slots / 2 && grow(names) != 0)
        return -ENOMEM;
    struct report_name *slot = find(names, above, name);
    if (!slot->used) {
        *slot = (struct report_name){above, name, function, true, false};
        names->n++;
    }
    slot->repeated |= slot->function != function;
    return 0;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* Whether any two functions have the same name, wherever. */
static int has_repeated(const struct profile *profile, bool *has)
{
    uint32_t n = profile->functions.n;
    uint64_t *all = malloc((n + (size_t)1) * sizeof *all);
    *has = false;
    if (all == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < n; i++)
        all[i] = name_of(profile, profile->functions.items[i].id);
    qsort(all, n, sizeof *all, compare);
    for (uint32_t i = 1; i < n; i++)
        *has |= all[i] == all[i - 1];
    free(all);
    return 0;
}

/* The outermost of functions that are inlined into each other is the last. */
static uint64_t outer_function(const struct profile *profile, uint64_t location)
{
    struct wire rest = profile_location(profile, location);
    struct wire_field field;
    uint64_t function = 0;
    while (wire_next(&rest, &field) == 1)
        if (field.number == LOCATION_LINE && field.is_bytes)
            function = profile_number(field.bytes, LINE_FUNCTION);
    return function;
}

/* The leaf comes first. */
static int read_sample(struct report_names *names, const struct profile *profile, struct wire sample)
{
    struct wire_field field;
    uint64_t below = 0, id;
    bool is_first = true;
    int error = 0;
    while (wire_next(&sample, &field) == 1)
        while (error == 0 && field.number == SAMPLE_LOCATION && wire_next_number(&field, &id) == 1) {
            uint64_t function = is_first ? 0 : outer_function(profile, below);
            error = is_first ? 0 : add(names, id, name_of(profile, function), function);
            below = id;
            is_first = false;
        }
    uint64_t function = outer_function(profile, below);
    return error != 0 || is_first ? error : add(names, 0, name_of(profile, function), function);
}

int report_names_read(struct report_names *names, const struct profile *profile)
{
    bool has;
    memset(names, 0, sizeof *names);
    int error = has_repeated(profile, &has);
    for (uint32_t i = 0; error == 0 && has && i < profile->samples.n; i++)
        error = read_sample(names, profile, profile_sample(profile, i));
    return error;
}

void report_names_free(struct report_names *names)
{
    free(names->slots);
}

bool report_names_is_repeated(const struct report_names *names, const struct profile *profile, uint64_t above,
                              uint64_t function)
{
    return names->slots != NULL && find(names, above, name_of(profile, function))->repeated;
}
