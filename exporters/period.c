/* SPDX-License-Identifier: BSD-2-Clause */
/* What happened between one snapshot and the next. */
#include "period.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What was told of a context, by its number. */
struct told {
    uint64_t round; /* the last one in which it was there */
    uint32_t generation;
    bool there;
    struct totals totals;
};

struct period {
    struct told *told;
    uint32_t n; /* numbers below have room */
    uint64_t round;
    struct totals gone;    /* told of contexts that were recycled */
    struct totals retired; /* told as "(retired)" */
};

struct period *period_make(void)
{
    return calloc(1, sizeof(struct period));
}

void period_free(struct period *p)
{
    if (p == NULL)
        return;
    free(p->told);
    free(p);
}

static bool make_room(struct period *p, const struct snapshot *s)
{
    uint32_t end = s->n_rows > 0 ? s->rows[s->n_rows - 1].id + 1 : 0; /* they are ordered by id */
    if (end <= p->n)
        return true;
    uint32_t n = end < UINT32_MAX / 2 && end < 2 * p->n ? 2 * p->n : end;
    struct told *larger = realloc(p->told, n * sizeof *larger);
    if (larger == NULL)
        return false;
    memset(larger + p->n, 0, (n - p->n) * sizeof *larger);
    p->told = larger;
    p->n = n;
    return true;
}

/* outlived_* are no sums. */
static void set_levels(struct totals *period, const struct totals *now)
{
    period->outlived_objects = now->outlived_objects;
    period->outlived_bytes = now->outlived_bytes;
}

/* What is held now, less what came and went, was held at the start. */
static void set_held(struct totals *period, uint64_t objects, uint64_t bytes)
{
    period->moved_in_objects = objects + period->free_objects + period->moved_out_objects - period->alloc_objects;
    period->moved_in_bytes = bytes + period->free_bytes + period->moved_out_bytes - period->alloc_bytes;
}

static bool is_anything(const struct totals *t)
{
    static const struct totals none;
    return memcmp(t, &none, sizeof none) != 0;
}

/* Contexts whose number was given to another one, or that are not there any more, were recycled. */
static void close_gone(struct period *p, const struct snapshot *s)
{
    for (uint32_t i = 0; i < s->n_rows; i++) {
        struct told *told = &p->told[s->rows[i].id];
        if (told->generation == s->rows[i].generation)
            told->round = p->round;
    }
    for (uint32_t id = 0; id < p->n; id++)
        if (p->told[id].there && p->told[id].round != p->round) {
            totals_add(&p->gone, &p->told[id].totals);
            p->told[id] = (struct told){0};
        }
}

/* Where a period is to be told. */
struct telling {
    const struct snapshot *snapshot;
    period_each *each;
    void *user;
};

static void tell(const struct telling *t, uint32_t row, const struct totals *period)
{
    if (is_anything(period))
        t->each(t->user, t->snapshot, row, period);
}

static void tell_row(const struct telling *t, uint32_t row, struct totals *told)
{
    const struct totals *now = &t->snapshot->rows[row].totals;
    struct totals period = totals_grow(told, now);
    set_held(&period, totals_inuse_objects(now), totals_inuse_bytes(now));
    set_levels(&period, now);
    tell(t, row, &period);
}

/* What is gone holds nothing; what it held when the period began was freed in it. */
static void tell_retired(const struct telling *t, struct period *p)
{
    struct totals rest = t->snapshot->retired;
    totals_subtract(&rest, &p->gone);
    struct totals period = totals_grow(&p->retired, &rest);
    set_held(&period, 0, 0);
    set_levels(&period, &(struct totals){0});
    tell(t, PERIOD_RETIRED, &period);
}

int period_next(struct period *p, const struct snapshot *s, period_each *each, void *user)
{
    const struct telling t = {s, each, user};
    if (!make_room(p, s))
        return -ENOMEM;
    p->round++;
    close_gone(p, s);
    for (uint32_t i = 0; i < s->n_rows; i++) {
        struct told *told = &p->told[s->rows[i].id];
        told->there = true;
        told->round = p->round;
        told->generation = s->rows[i].generation;
        tell_row(&t, i, &told->totals);
    }
    tell_retired(&t, p);
    return 0;
}
