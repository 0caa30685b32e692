/* SPDX-License-Identifier: BSD-2-Clause */
/* Ages of live memory: the periods, and the contexts that stand for them. */
#include "span/age.h"

#include "base/clock.h"
#include "base/die.h"
#include "base/lock.h"
#include "base/mailbox.h"
#include "conf/conf.h"
#include "span/tree.h"

bool age_is_on;

static _Atomic uint64_t period_end; /* all times here are in ticks; written under LOCK_TREE */
static uint64_t first, period_begin, number;
static union label_draft draft; /* the label of this period's contexts; LOCK_TREE */

COLD void age_boot(void)
{
    age_is_on = conf.age_period_s != 0;
    if (age_is_on)
        atomic_fetch_or(&slow_work, SLOW_AGE);
    first = clock_ticks();
}

uint64_t age_period_end(void)
{
    return load_relaxed(&period_end);
}

bool age_is_same_context(uint32_t a, uint32_t b)
{
    return tree_whole(a) == tree_whole(b);
}

static void begin_period(uint64_t now)
{
    uint64_t scale = clock_scale(), length = clock_ns_to_ticks(conf.age_period_s * 1000000000u, scale);
    number = (now - first) / length + 1;
    period_begin = now;
    store_relaxed(&period_end, first + number * length);
    const struct jespan_label label = JESPAN_LABEL_INT("born", number);
    labels_begin(&draft);
    labels_add_own(&draft, &label);
}

COLD uint32_t age_find_period(uint32_t context)
{
    static const struct jespan_site site = {.name = "(born)"};
    jespan_assert(lock_is_held(LOCK_TREE));
    if (!context || context == CONTEXT_ID_SELF)
        return context;
    context = tree_whole(context);
    uint64_t now = clock_ticks();
    if (now >= load_relaxed(&period_end))
        begin_period(now);
    uint32_t period = tree_intern(context, CONTEXT_PERIOD, &site, &draft.set);
    if (period && contexts[period].kind == CONTEXT_PERIOD && !contexts[period].born)
        contexts[period].born = period_begin;
    return period;
}
