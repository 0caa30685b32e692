/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads NAME=SOFT/HARD|NAME{KEY=VALUE}=HARD|…, where NAME and VALUE may be patterns. */
#include "policy/limit_rules.h"

#include <errno.h>
#include <stdbool.h>
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
        if (bytes_parse(text_trim(text), &bounds->soft))
            return -EINVAL;
    }
    hard = text_trim(hard);
    if ((!slash || *hard) && bytes_parse(hard, &bounds->hard))
        return -EINVAL;
    if (bounds->hard && bounds->soft > bounds->hard)
        return -ERANGE;
    return bounds->soft || bounds->hard ? 0 : -EINVAL;
}

/* Reports print paths as "request > cache". A name of C++ may have both of <>. */
static bool is_path(const char *text)
{
    size_t n = strcspn(text, "<>{");
    const char *arrow = strstr(text, " > ");
    return text[n] == '>' || (arrow && arrow < text + strcspn(text, "{"));
}

/* "NAME" or "NAME{KEY=VALUE}", with blanks as reports print them. */
static int parse_pattern(char *text, struct limit_rule *rule)
{
    text = text_trim(text);
    char *brace = strchr(text, '{'), *equals = brace ? strchr(brace, '=') : NULL, *end = text + strlen(text) - 1;
    rule->name = text;
    rule->key = rule->value = NULL;
    if (!brace)
        return *text ? 0 : -EINVAL;
    if (!equals || *end != '}')
        return -EINVAL;
    *brace = *equals = *end = '\0';
    rule->name = text_trim(text);
    rule->key = text_trim(brace + 1);
    rule->value = text_trim(equals + 1);
    return *rule->name && *rule->key ? 0 : -EINVAL;
}

/* Returns NULL, or why the item is wrong. */
static const char *read_rule(struct limit_rule *rule, char *text)
{
    char *equals = strrchr(text, '=');
    if (equals)
        *equals = '\0';
    int error = equals && equals != text ? parse_bounds(equals + 1, &rule->bounds) : -EINVAL;
    if (equals && is_path(text))
        return "is for a path; a limit is for the spans of one name, under whichever they are";
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
