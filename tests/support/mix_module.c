/* SPDX-License-Identifier: BSD-2-Clause */
/* A plugin with spans of its own, for tests/stress/mix.c. It is built twice from this file. The two differ only in
 * the texts of their sites, which may get the same addresses. */
#include <jespan/jespan.h>

#define SITE(line)                                                                                                     \
    {                                                                                                                  \
        "plugged", MIX_TARGET, MIX_TARGET ".c", line, {0}                                                              \
    }

const struct jespan_site *mix_site(unsigned i);
const struct jespan_site *mix_site(unsigned i)
{
    static const struct jespan_site sites[] = {SITE(1), SITE(2), SITE(3), SITE(4)};
    return &sites[i % 4];
}
