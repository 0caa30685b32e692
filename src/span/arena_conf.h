/* SPDX-License-Identifier: BSD-2-Clause */
/* What is wished of span arenas, and the configuration's `arena`: for sites that do not ask for one themselves, by their name. */
#ifndef JESPAN_ARENA_CONF_H
#define JESPAN_ARENA_CONF_H

#include <stdbool.h>

#include "jespan/jespan.h"

/* Whether something is wished for. */
static inline bool arena_is_wished(const struct jespan_arena *wish)
{
    return wish->flags || wish->limit_bytes || wish->by_label;
}

/* Whether all flags are known, none is against another, and nothing is wished of an arena that is not asked for. */
bool arena_is_valid(const struct jespan_arena *wish);

/* Once, by the configuration. What is wrong is named on stderr and left out. */
void arena_conf_boot(void);

/* What the configuration wishes for a site of this name; NULL: nothing. Stays for good. */
const struct jespan_arena *arena_conf_find(const char *name);

#endif
