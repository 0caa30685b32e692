/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads NAME=SOFT/HARD|NAME{KEY=VALUE}=HARD|…, where NAME and VALUE may be patterns. */
#include "policy/limit_rules.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/parse.h"

/* Parses "SOFT/HARD", "SOFT/" or "HARD", not all 0. -ERANGE: the soft limit is above the hard one, so it could never be
 * reached. */
static int parse_bounds(char *text, struct limit_bounds *bounds)
{
    char *slash = strchr(text, '/'), *hard = slash ? slash + 1 : text;
    *bounds = (struct limit_bounds){0, 0};
    if (slash) {
        *slash = '\0';
        if (bytes_parse(text, &bounds->soft))
            return -EINVAL;
    }
    if ((!slash || *hard) && bytes_parse(hard, &bounds->hard))
        return -EINVAL;
    if (bounds->hard && bounds->soft > bounds->hard)
        return -ERANGE;
    return bounds->soft || bounds->hard ? 0 : -EINVAL;
}

/* "NAME" or "NAME{KEY=VALUE}". */
static int parse_pattern(char *text, struct limit_rule *rule)
{
    char *brace = strchr(text, '{'), *equals = brace ? strchr(brace, '=') : NULL, *end = text + strlen(text) - 1;
    rule->name = text;
    rule->key = rule->value = NULL;
    if (!brace)
        return *text ? 0 : -EINVAL;
    if (brace == text || !equals || equals == brace + 1 || *end != '}')
        return -EINVAL;
    *brace = *equals = *end = '\0';
    rule->key = brace + 1;
    rule->value = equals + 1;
    return 0;
}

/* Returns NULL, or why the item is wrong. */
static const char *read_rule(struct limit_rule *rule, char *text)
{
    char *equals = strrchr(text, '=');
    if (equals)
        *equals = '\0';
    int error = equals && equals != text ? parse_bounds(equals + 1, &rule->bounds) : -EINVAL;
    if (error == -ERANGE)
        return "has a soft limit above its hard limit";
    if (error || parse_pattern(text, rule))
        return "is not NAME=HARD, NAME=SOFT/HARD or NAME{KEY=VALUE}=HARD, in bytes with K, M, G or T";
    return NULL;
}

unsigned limit_rules_read(struct limit_rule rules[LIMIT_RULES_MAX], char *list, conf_wrong_item *wrong, const char *key)
{
    char item[CONF_STRING_BYTES];
    unsigned n = 0;
    for (char *at; (at = list_take(&list));) {
        strcpy(item, at);
        const char *why = read_rule(&rules[n], at);
        if (why)
            wrong(key, item, why);
        else
            n++;
    }
    return n;
}
