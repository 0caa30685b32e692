/* SPDX-License-Identifier: BSD-2-Clause */
/* The values of keys: from text, and to text that may be shown. */
#ifndef JESPAN_CONF_VALUES_H
#define JESPAN_CONF_VALUES_H

#include <stdbool.h>

#include "base/die.h"
#include "conf/conf.h"

/* Names a wrong part of the configuration on stderr, unless another process names it. */
#define CONF_WARN(...) (conf_errors_are_named ? (void)0 : WARN(__VA_ARGS__))
extern bool conf_errors_are_named;

/* Returns 0, or -1 and leaves the value as it is: the text is no value of this key. */
int conf_value_set(const struct conf_key *key, const char *text);

/* The value without secrets. The text is in `number`, or static until the next call. */
const char *conf_value_text(const struct conf_key *key, char number[NUMBER_BYTES]);

/* Whether the value may have a secret in it. */
static inline bool conf_value_is_hidden(const struct conf_key *key)
{
    return key->type == CONF_SECRET || key->type == CONF_URL;
}

#endif
