/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers that stay within bounds. Modules use them too, so they are inline. */
#ifndef JESPAN_NUMBER_H
#define JESPAN_NUMBER_H

#include <stdint.h>

static inline uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The next multiple of `to`, a power of two. */
static inline uint64_t round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) & ~(to - 1);
}

/* a − b, but 0 if b is larger. */
static inline uint64_t saturating_sub(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

#endif
