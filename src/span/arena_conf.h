/* SPDX-License-Identifier: BSD-2-Clause */
/* Properties for span arenas, and the key `arena`, which gives properties to sites by their name if they have none
 * themselves. */
#ifndef JESPAN_ARENA_CONF_H
#define JESPAN_ARENA_CONF_H

#include <stdbool.h>

#include "conf/conf.h"
#include "jespan/jespan.h"

/* Whether there is any property. */
static inline bool arena_has_properties(const struct jespan_arena *arena)
{
    return arena->flags || arena->limit_bytes || arena->by_label;
}

/* Whether all flags are known, no two contradict each other, and properties come with an arena. */
bool arena_is_valid(const struct jespan_arena *arena);

/* To be called once, with the key's value. Leaves wrong parts out. */
void arena_conf_read(const char *list, conf_wrong_item *wrong, const char *key);

/* The properties that the configuration has for a site of this name; NULL: none. The result stays valid. */
const struct jespan_arena *arena_conf_find(const char *name);

#endif
