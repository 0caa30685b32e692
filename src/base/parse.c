/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads numbers of bytes and patterns. */
#include "base/parse.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

int bytes_parse(const char *text, uint64_t *bytes)
{
    static const char units[] = "KMGT";
    const char *digits = text, *unit;
    uint64_t n = 0, factor = 1;
    for (; *text >= '0' && *text <= '9'; text++)
        if (__builtin_mul_overflow(n, 10u, &n) || __builtin_add_overflow(n, (unsigned)(*text - '0'), &n))
            return -EINVAL;
    if (text == digits)
        return -EINVAL;
    if (*text && (unit = strchr(units, *text))) {
        factor <<= 10 * (unit - units + 1);
        text++;
    }
    return *text || __builtin_mul_overflow(n, factor, bytes) ? -EINVAL : 0;
}

/* ---- Patterns of names, for sites and labels ---- */

/* On a mismatch, the last `*` takes one byte more. */
bool pattern_fits(const char *pattern, const char *text)
{
    const char *star = NULL, *from = text;
    while (*text) {
        if (*pattern == '*') {
            star = pattern++;
            from = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star) {
            pattern = star + 1;
            text = ++from;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return !*pattern;
}
