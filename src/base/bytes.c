/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads numbers of bytes as people write them. */
#include "base/bytes.h"

#include <errno.h>
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
