/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits of the configuration. Constant after boot. */
#include <string.h>

#include "base/parse.h"
#include "conf/conf.h"
#include "policy/limit_internal.h"
#include "policy/limit_rules.h"
#include "span/tree.h"

bool limits_are_configured;
_Atomic bool limits_have_soft;

static struct limit_rule rules[LIMIT_RULES_MAX];
static unsigned n_rules;

static bool has_label(const struct label_set *labels, const struct limit_rule *rule)
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
    for (const struct limit_rule *rule = rules; rule < rules + n_rules; rule++)
        if (pattern_fits(rule->name, c->site->name) && (!rule->key || has_label(c->labels, rule))) {
            *bounds = rule->bounds;
            return true;
        }
    return false;
}

COLD void limits_conf_boot(void)
{
    static char text[CONF_STRING_BYTES];
    n_rules = limit_rules_read(rules, strcpy(text, conf.limit), conf_warn_item, "limit");
    for (unsigned i = 0; i < n_rules; i++)
        limits_have_soft |= rules[i].bounds.soft != 0;
    limits_are_configured = n_rules != 0;
}
