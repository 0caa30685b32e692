/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits as text: the items of the key `limit`. */
#ifndef JESPAN_LIMIT_RULES_H
#define JESPAN_LIMIT_RULES_H

#include <stdint.h>

#include "conf/conf.h"

struct limit_bounds {
    uint64_t soft, hard;
};

/* The bounds of contexts with that name and label. */
struct limit_rule {
    const char *name;
    const char *key, *value; /* a label that the context must have; NULL: none */
    struct limit_bounds bounds;
};

#define LIMIT_RULES_MAX (CONF_STRING_BYTES / 4) /* "a=1|" is the shortest */

/* Reads a list of fewer than CONF_STRING_BYTES bytes, in which the rules then lie. Leaves wrong items out. Returns how many rules there
 * are. `key` is for the messages. */
unsigned limit_rules_read(struct limit_rule rules[LIMIT_RULES_MAX], char *list, conf_wrong_item *wrong, const char *key);

#endif
