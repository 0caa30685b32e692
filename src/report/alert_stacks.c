/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks while a rule of `alert` holds. */
#include "report/alert_stacks.h"

#include <string.h>

#include "conf/conf.h"

/* Appends "@NAME" or "|NAME". False: there is no room. */
static bool add_name(char mode[STACK_MODE_BYTES], const char *name)
{
    size_t n = strlen(mode), bytes = strlen(name);
    if (n + 1 + bytes >= STACK_MODE_BYTES)
        return false;
    mode[n] = strchr(mode, '@') ? '|' : '@';
    memcpy(mode + n + 1, name, bytes + 1);
    return true;
}

static bool is_named_before(const struct alert_news *news, unsigned i)
{
    for (unsigned k = 0; k < i; k++)
        if (news[k].holds && strcmp(news[k].span, news[i].span) == 0)
            return true;
    return false;
}

/* MODE@NAME|NAME for the spans of all rules that hold; MODE for all contexts; what is configured if no rule holds. */
static void mode_for(char mode[STACK_MODE_BYTES], const struct alert_news *news, unsigned n)
{
    bool any = false, all = false;
    strcpy(mode, stacks_mode_name(conf.alert_stacks));
    for (unsigned i = 0; i < n && !all; i++) {
        if (!news[i].holds)
            continue;
        any = true;
        all = !news[i].span || strcmp(news[i].span, "*") == 0;
        if (!all && !is_named_before(news, i))
            all = !add_name(mode, news[i].span);
    }
    if (all)
        strcpy(mode, stacks_mode_name(conf.alert_stacks));
    if (!any)
        strcpy(mode, conf.stacks);
}

static const char *or_configured(const char *set)
{
    return set[0] ? set : conf.stacks;
}

bool alert_stacks_wants(const struct alert_stacks *a, const struct alert_news *news, unsigned n, const char *now,
                        char mode[STACK_MODE_BYTES])
{
    if (conf.alert_stacks == STACKS_OFF || strcmp(conf.stacks, "off") != 0)
        return false;
    mode_for(mode, news, n);
    bool is_ours = strcmp(now, or_configured(a->set)) == 0 || strcmp(now, or_configured(a->before)) == 0;
    return is_ours && strcmp(mode, or_configured(a->set)) != 0;
}

void alert_stacks_note(struct alert_stacks *a, const char *mode)
{
    memcpy(a->before, a->set, sizeof a->before);
    strcpy(a->set, mode);
}
