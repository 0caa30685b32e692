/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls in the figures of a period. */
#include "push_calls.h"

#include <errno.h>
#include <stdlib.h>

static void take(void *calls, const struct snapshot *s, uint32_t row, const struct totals *totals)
{
    struct push_calls *c = calls;
    (void)s;
    *(row == PERIOD_RETIRED ? &c->retired : &c->rows[row].totals) = *totals;
}

/* Without them, what they have stays with the spans. */
static void take_stacks(struct push_calls *c, struct period_stacks *stacks, const struct snapshot *s)
{
    int64_t n = period_stacks_next(stacks, s, c->rows, &c->stacks);
    c->period.stacks = c->stacks;
    c->period.n_stacks = n > 0 ? (uint32_t)n : 0;
}

int push_calls_make(struct push_calls *c, struct period *period, struct period_stacks *stacks, const struct snapshot *s)
{
    *c = (struct push_calls){.period = *s, .rows = malloc((s->n_rows + (size_t)1) * sizeof *c->rows)};
    if (!c->rows)
        return -ENOMEM;
    c->period.rows = c->rows;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        c->rows[i] = s->rows[i];
        c->rows[i].totals = (struct totals){0};
    }
    int error = period_next(period, s, take, c);
    if (error == 0 && (s->n_stacks > 0 || stacks->n > 0))
        take_stacks(c, stacks, s);
    return error;
}

void push_calls_find(struct push_calls *c)
{
    if (c->period.n_stacks == 0)
        return;
    c->has_calls = calls_make(&c->calls, &c->period);
    if (!c->has_calls)
        calls_free(&c->calls);
}

bool push_calls_lack_names(struct push_calls *c, const struct service_host *host)
{
    bool is_lacking = c->has_calls && calls_ask_names(&c->calls, host) > 0;
    if (is_lacking)
        calls_end_names(&c->calls);
    return is_lacking;
}

static void add_rows(struct digest *digest, const struct snapshot *s)
{
    for (uint32_t i = 0; i < s->n_rows; i++)
        if (totals_any(&s->rows[i].totals))
            digest_add(digest, s, i, &s->rows[i].totals);
}

void push_calls_add(struct push_calls *c, const struct service_host *host, struct digest *digest)
{
    bool has_names = c->has_calls && (c->calls.host || calls_ask_names(&c->calls, host) >= 0) && calls_show_names(&c->calls);
    add_rows(digest, has_names ? &c->calls.shown : &c->period);
    if (totals_any(&c->retired))
        digest_add(digest, &c->period, PERIOD_RETIRED, &c->retired);
}

void push_calls_free(struct push_calls *c)
{
    if (c->has_calls)
        calls_free(&c->calls);
    free(c->rows);
    free(c->stacks);
    *c = (struct push_calls){0};
}
