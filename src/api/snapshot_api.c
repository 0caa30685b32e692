/* SPDX-License-Identifier: BSD-2-Clause */
/* The public view of snapshots. A jespan_snapshot_t is a struct snapshot, and a jespan_row_t one of its rows: both have
 * functions in place of members, so that their layout may change. */
#include <errno.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "base/cpu_clock.h"
#include "conf/conf.h"
#include "ctl/ctl.h"
#include "heap/timing.h"
#include "jespan/snapshot.h"
#include "malloc/track.h"
#include "snapshot/row_path.h"
#include "snapshot/snapshot.h"
#include "span/span.h"

static const struct snapshot *inside(const jespan_snapshot_t *snapshot)
{
    return (const struct snapshot *)snapshot;
}

static const struct snapshot_row *row_inside(const jespan_row_t *row)
{
    return (const struct snapshot_row *)row;
}

static const jespan_row_t *row_outside(const struct snapshot_row *row)
{
    return (const jespan_row_t *)row;
}

/* ---- Snapshots ---- */

EXPORT jespan_snapshot_t *jespan_snapshot_take(void)
{
    int saved = errno;
    struct snapshot *s = NULL;
    if (track_thread()) {
        ctl_flush_own();
        s = snapshot_take();
    }
    errno = s ? saved : ENOMEM;
    return (jespan_snapshot_t *)s;
}

EXPORT void jespan_snapshot_free(jespan_snapshot_t *snapshot)
{
    int saved = errno;
    snapshot_free((struct snapshot *)snapshot);
    errno = saved;
}

EXPORT uint64_t jespan_snapshot_time_ns(const jespan_snapshot_t *snapshot)
{
    return snapshot ? inside(snapshot)->time_unix_ns : 0;
}

EXPORT const jespan_row_t *jespan_snapshot_next(const jespan_snapshot_t *snapshot, const jespan_row_t *row)
{
    const struct snapshot *s = inside(snapshot);
    if (!s)
        return NULL;
    const struct snapshot_row *next = row ? row_inside(row) + 1 : s->rows;
    return next < s->rows + s->n_rows ? row_outside(next) : NULL;
}

EXPORT const jespan_row_t *jespan_snapshot_find(const jespan_snapshot_t *snapshot, jespan_context_t context)
{
    struct thread *t = track_thread();
    if (t && (context == JESPAN_CURRENT || context == JESPAN_BASE))
        context = tree_whole(span_context_named(t, context));
    const struct snapshot_row *row = snapshot ? snapshot_find(inside(snapshot), context) : NULL;
    if (!row)
        errno = ENOENT;
    return row_outside(row);
}

/* ---- What a row is ---- */

EXPORT const jespan_row_t *jespan_row_parent(const jespan_snapshot_t *snapshot, const jespan_row_t *row)
{
    if (!snapshot || !row)
        return NULL;
    const struct snapshot_row *parent = inside(snapshot)->rows + row_inside(row)->parent_row;
    return parent == row_inside(row) ? NULL : row_outside(parent);
}

EXPORT jespan_context_t jespan_row_context(const jespan_row_t *row)
{
    return row ? row_inside(row)->id : 0;
}

static uint64_t id_of(const struct snapshot_row *row)
{
    return (uint64_t)row->generation << 32 | row->id;
}

EXPORT uint64_t jespan_row_id(const jespan_row_t *row)
{
    return row ? id_of(row_inside(row)) : 0;
}

EXPORT const char *jespan_row_kind(const jespan_row_t *row)
{
    return row ? kind_text(row_inside(row)->kind) : "";
}

EXPORT const char *jespan_row_name(const jespan_row_t *row)
{
    return row ? row_inside(row)->name : "";
}

EXPORT const char *jespan_row_target(const jespan_row_t *row)
{
    return row ? row_inside(row)->target : "";
}

EXPORT const char *jespan_row_file(const jespan_row_t *row)
{
    return row ? row_inside(row)->file : "";
}

EXPORT uint32_t jespan_row_line(const jespan_row_t *row)
{
    return row ? row_inside(row)->line : 0;
}

EXPORT uint32_t jespan_row_n_labels(const jespan_row_t *row)
{
    return row ? row_inside(row)->n_labels : 0;
}

EXPORT int jespan_row_label(const jespan_row_t *row, uint32_t i, struct jespan_label *label)
{
    if (!row || !label || i >= row_inside(row)->n_labels)
        return EINVAL;
    const struct snapshot_label *own = &row_inside(row)->labels[i];
    *label = (struct jespan_label){own->key, own->value, own->integer, own->is_integer ? JESPAN_TYPE_INTEGER : JESPAN_TYPE_STRING};
    return 0;
}

EXPORT size_t jespan_row_path(const jespan_snapshot_t *snapshot, const jespan_row_t *row, char *buffer, size_t bytes)
{
    if (bytes)
        buffer[0] = '\0';
    return snapshot && row ? row_path_whole(buffer, bytes, inside(snapshot), (uint32_t)(row_inside(row) - inside(snapshot)->rows)) : 0;
}

/* ---- Figures ---- */

enum needs { NOTHING, TIMING, CPU_CLOCK, LIFETIMES };

static const struct {
    size_t offset;
    enum needs needs;
} figures[] = {
#define FIGURE(figure, member) [figure] = {offsetof(struct totals, member), NOTHING}
    [JESPAN_INUSE_BYTES] = {TOTALS_INUSE_BYTES, NOTHING},
    [JESPAN_INUSE_OBJECTS] = {TOTALS_INUSE_OBJECTS, NOTHING},
    FIGURE(JESPAN_ALLOC_BYTES, alloc_bytes),
    FIGURE(JESPAN_ALLOC_OBJECTS, alloc_objects),
    FIGURE(JESPAN_ALLOC_REQUESTED_BYTES, alloc_requested_bytes),
    FIGURE(JESPAN_FREE_BYTES, free_bytes),
    FIGURE(JESPAN_FREE_OBJECTS, free_objects),
    FIGURE(JESPAN_CREDITED_IN_BYTES, credited_in_bytes),
    FIGURE(JESPAN_CREDITED_IN_OBJECTS, credited_in_objects),
    FIGURE(JESPAN_CREDITED_OUT_BYTES, credited_out_bytes),
    FIGURE(JESPAN_CREDITED_OUT_OBJECTS, credited_out_objects),
    FIGURE(JESPAN_OPENS, opens),
    FIGURE(JESPAN_ENTERS, enters),
    [JESPAN_WALL_NS] = {offsetof(struct totals, wall), TIMING},
    [JESPAN_BUSY_NS] = {offsetof(struct totals, busy), TIMING},
    [JESPAN_IDLE_NS] = {offsetof(struct totals, idle), TIMING},
    [JESPAN_CPU_NS] = {offsetof(struct totals, cpu), CPU_CLOCK},
    FIGURE(JESPAN_OUTLIVED_BYTES, outlived_bytes),
    FIGURE(JESPAN_OUTLIVED_OBJECTS, outlived_objects),
    FIGURE(JESPAN_TEMPORARY_OBJECTS, temporary_objects),
    [JESPAN_LIFETIMES_US] = {offsetof(struct totals, lifetimes), LIFETIMES},
};
#define FIGURES (sizeof figures / sizeof *figures)

static bool is_known(enum jespan_figure figure)
{
    if ((size_t)figure >= FIGURES)
        return false;
    switch (figures[figure].needs) {
    case TIMING:
        return timing_is_on;
    case CPU_CLOCK:
        return cpu_clock_in_use() != CPU_CLOCK_NONE;
    case LIFETIMES:
        return conf.lifetimes;
    default:
        return true;
    }
}

static uint64_t figure_of(const struct totals *t, enum jespan_figure figure)
{
    return is_known(figure) ? totals_figure(t, figures[figure].offset) : JESPAN_UNKNOWN;
}

EXPORT uint64_t jespan_snapshot_figure(const jespan_snapshot_t *snapshot, enum jespan_figure figure)
{
    return snapshot ? figure_of(&inside(snapshot)->all, figure) : 0;
}

EXPORT uint64_t jespan_row_figure(const jespan_row_t *row, enum jespan_figure figure)
{
    return row ? figure_of(&row_inside(row)->totals, figure) : 0;
}

EXPORT uint64_t jespan_row_total(const jespan_snapshot_t *snapshot, const jespan_row_t *row, enum jespan_figure figure)
{
    if (!snapshot || !row)
        return 0;
    struct totals t = snapshot_inclusive(inside(snapshot), (uint32_t)(row_inside(row) - inside(snapshot)->rows));
    snapshot_keep_idle(row_inside(row), &t);
    return figure_of(&t, figure);
}

/* ---- Two snapshots ---- */

static bool differ(const struct totals *a, const struct totals *b)
{
    for (unsigned i = JESPAN_INUSE_BYTES; i <= JESPAN_ENTERS; i++)
        if (totals_figure(a, figures[i].offset) != totals_figure(b, figures[i].offset))
            return true;
    return false;
}

/* Rows are ordered by id in both. If an id was given to another context, the recycled one comes first. */
static void take_pair(const struct snapshot *b, const struct snapshot *a, struct jespan_snapshot_change *change)
{
    const struct snapshot_row *before = change->next_before_ < b->n_rows ? &b->rows[change->next_before_] : NULL;
    const struct snapshot_row *after = change->next_after_ < a->n_rows ? &a->rows[change->next_after_] : NULL;
    if (before && after && id_of(before) != id_of(after)) {
        if (before->id <= after->id)
            after = NULL;
        else
            before = NULL;
    }
    change->next_before_ += before != NULL;
    change->next_after_ += after != NULL;
    change->before = row_outside(before);
    change->after = row_outside(after);
}

EXPORT int jespan_snapshot_next_change(const jespan_snapshot_t *before, const jespan_snapshot_t *after,
                                       struct jespan_snapshot_change *change)
{
    if (!before || !after || !change)
        return EINVAL;
    for (;;) {
        take_pair(inside(before), inside(after), change);
        if (!change->before && !change->after)
            return ENOENT;
        if (!change->before || !change->after || differ(&row_inside(change->before)->totals, &row_inside(change->after)->totals))
            return 0;
    }
}

EXPORT int64_t jespan_change_figure(const struct jespan_snapshot_change *change, enum jespan_figure figure)
{
    if (!change || !is_known(figure))
        return 0;
    if (!change->after && figure != JESPAN_INUSE_BYTES && figure != JESPAN_INUSE_OBJECTS)
        return 0;
    return (int64_t)(jespan_row_figure(change->after, figure) - jespan_row_figure(change->before, figure));
}
