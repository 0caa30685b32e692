/* SPDX-License-Identifier: BSD-2-Clause */
/* The changes between one snapshot and the next. */
#include "period.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "snapshot/snapshot_delta.h"

struct period {
    struct snapshot_delta delta;
};

struct period *period_make(void)
{
    return calloc(1, sizeof(struct period));
}

void period_free(struct period *p)
{
    if (!p)
        return;
    free(p->delta.told);
    free(p);
}

static bool make_room(struct snapshot_delta *d, const struct snapshot *s)
{
    uint32_t end = snapshot_ids_end(s);
    if (end <= d->end)
        return true;
    size_t room = d->end;
    if (array_reserve(&d->told, &room, end, sizeof *d->told))
        return false;
    memset(d->told + d->end, 0, (room - d->end) * sizeof *d->told);
    d->end = (uint32_t)room;
    return true;
}

/* outlived_* are no sums. */
static void set_levels(struct totals *period, const struct totals *now)
{
    period->outlived_objects = now->outlived_objects;
    period->outlived_bytes = now->outlived_bytes;
}

/* The context held at the start what it holds now, less what came and plus what went. */
static void set_held(struct totals *period, uint64_t objects, uint64_t bytes)
{
    period->credited_in_objects = objects + period->free_objects + period->credited_out_objects - period->alloc_objects;
    period->credited_in_bytes = bytes + period->free_bytes + period->credited_out_bytes - period->alloc_bytes;
}

static struct totals of_row(struct snapshot_delta *d, const struct snapshot_row *row)
{
    struct totals period = snapshot_delta_of_row(d, row);
    set_held(&period, totals_inuse_objects(&row->totals), totals_inuse_bytes(&row->totals));
    set_levels(&period, &row->totals);
    return period;
}

/* Recycled contexts hold nothing. What they held when the period began was freed in it. */
static struct totals of_retired(struct snapshot_delta *d, const struct snapshot *s)
{
    struct totals period = snapshot_delta_of_retired(d, s);
    set_held(&period, 0, 0);
    set_levels(&period, &(struct totals){0});
    return period;
}

int period_next(struct period *p, const struct snapshot *s, period_each *each, void *user)
{
    struct snapshot_delta *d = &p->delta;
    if (!make_room(d, s))
        return -ENOMEM;
    snapshot_delta_begin(d, s);
    for (uint32_t id = 0; id < d->end; id++)
        if (snapshot_delta_is_gone(d, id))
            snapshot_delta_close(d, id);
    for (uint32_t i = 0; i < s->n_rows; i++) {
        snapshot_delta_open(d, &s->rows[i]);
        struct totals period = of_row(d, &s->rows[i]);
        if (totals_any(&period))
            each(user, s, i, &period);
    }
    struct totals retired = of_retired(d, s);
    if (totals_any(&retired))
        each(user, s, PERIOD_RETIRED, &retired);
    return 0;
}
