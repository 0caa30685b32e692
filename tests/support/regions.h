/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers for tests of regions. */
#ifndef JESPAN_TESTS_REGIONS_H
#define JESPAN_TESTS_REGIONS_H

#include <stdbool.h>

#include "arenas.h"
#include "entered.h"

/* Whether allocations that libc makes for itself are kept out of regions: base/libc_calls.h. */
static inline bool libc_is_told_apart(const struct jespan_site *region_site)
{
    jespan_span_t *region = enter_new(region_site);
    FILE *file = fopen("/dev/null", "w");
    bool is = arena_of_object(file) != arena_of_object(malloc(1));
    fclose(file);
    leave(region);
    return is;
}

#endif
