/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits of the configuration: patterns and bounds in its key `limit`. Constant after boot. */
#include <errno.h>
#include <string.h>

#include "base/die.h"
#include "base/parse.h"
#include "conf/conf.h"
#include "policy/limit_internal.h"
#include "span/tree.h"

bool limits_are_configured;
_Atomic bool limits_have_soft;

#define RULES_MAX (CONF_STRING_BYTES / 4) /* "a=1|" is the shortest */
static struct rule {
    const char *name;
    const char *key, *value; /* a label that the context must have; NULL: none */
    struct limit_bounds bounds;
} rules[RULES_MAX];
static unsigned n_rules;

static bool has_label(const struct label_set *labels, const struct rule *rule)
{
    struct label_text label;
    for (unsigned i = 0; labels_each(labels, i, &label); i++)
        if (!strcmp(label.key, rule->key) && pattern_fits(rule->value, label.value))
            return true;
    return false;
}

bool limits_configured(const struct context *c, struct limit_bounds *bounds)
{
    if (c->kind != CONTEXT_SPAN && c->kind != CONTEXT_THREAD)
        return false;
    for (const struct rule *rule = rules; rule < rules + n_rules; rule++)
        if (pattern_fits(rule->name, c->site->name) && (!rule->key || has_label(c->labels, rule))) {
            *bounds = rule->bounds;
            return true;
        }
    return false;
}

/* ---- Reading ---- */

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
static int parse_pattern(char *text, struct rule *rule)
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

static void add_rule(const char *item, char *text)
{
    struct rule *rule = &rules[n_rules];
    char *equals = strrchr(text, '=');
    if (equals)
        *equals = '\0';
    int error = equals && equals != text ? parse_bounds(equals + 1, &rule->bounds) : -EINVAL;
    if (error == -ERANGE)
        WARN("limit: '", item, "' has a soft limit above its hard limit and is ignored");
    else if (!error && !parse_pattern(text, rule))
        limits_have_soft |= rules[n_rules++].bounds.soft != 0;
    else
        WARN("limit: '", item, "' is not NAME=HARD, NAME=SOFT/HARD or NAME{KEY=VALUE}=HARD, in bytes with K, M, G or T, "
             "and is ignored");
}

COLD void limits_conf_boot(void)
{
    static char text[CONF_STRING_BYTES];
    char item[CONF_STRING_BYTES], *rest = strcpy(text, conf.limit);
    n_rules = 0;
    for (char *at; (at = list_take(&rest));)
        add_rule(strcpy(item, at), at);
    limits_are_configured = n_rules != 0;
}
