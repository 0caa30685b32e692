/* SPDX-License-Identifier: BSD-2-Clause */
/* Patterns of names. */
#include "base/pattern.h"

#include <stddef.h>

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
