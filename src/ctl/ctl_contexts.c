/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of contexts and of sums: spans.<id>.*, spans.<id>.total.*, spans.all.*, spans.retired.*.
 *
 * Figures of memory are read live. Times, opens and outlived objects are read from a new snapshot.
 */
#include <errno.h>
#include <string.h>

#include "base/lock.h"
#include "conf/conf.h"
#include "ctl/ctl.h"
#include "heap/sums.h"
#include "heap/timing.h"
#include "jespan/jespan.h"
#include "snapshot/snapshot.h"
#include "span/age.h"
#include "span/tree.h"

/* ---- Figures ---- */

bool ctl_figure_is_known(size_t offset)
{
    switch (offset) {
    case offsetof(struct totals, wall):
    case offsetof(struct totals, busy):
    case offsetof(struct totals, idle):
        return timing_is_on;
    case offsetof(struct totals, cpu):
        return cpu_clock_in_use() != CPU_CLOCK_NONE;
    case offsetof(struct totals, cpu_user):
    case offsetof(struct totals, cpu_system):
        return cpu_clock_in_use() == CPU_CLOCK_RUSAGE;
    case offsetof(struct totals, lifetimes):
        return conf.lifetimes;
    default:
        return true;
    }
}

#define FIGURE(name, handle, member) {#name, handle, offsetof(struct totals, member)}
#define MEMORY_FIGURES(handle)                                                                                         \
    FIGURE(alloc_objects, handle, alloc_objects), FIGURE(alloc_bytes, handle, alloc_bytes),                            \
        FIGURE(alloc_requested_bytes, handle, alloc_requested_bytes), FIGURE(free_objects, handle, free_objects),      \
        FIGURE(free_bytes, handle, free_bytes), FIGURE(credited_in_objects, handle, credited_in_objects),                    \
        FIGURE(credited_in_bytes, handle, credited_in_bytes), FIGURE(credited_out_objects, handle, credited_out_objects),          \
        FIGURE(credited_out_bytes, handle, credited_out_bytes), {"inuse_objects", handle, TOTALS_INUSE_OBJECTS},                    \
        {"inuse_bytes", handle, TOTALS_INUSE_BYTES}, FIGURE(enters, handle, enters),                       \
        FIGURE(temporary_objects, handle, temporary_objects)
#define SNAPSHOT_FIGURES(handle)                                                                                       \
    FIGURE(opens, handle, opens), FIGURE(wall_ns, handle, wall), FIGURE(busy_ns, handle, busy),                        \
        FIGURE(idle_ns, handle, idle), FIGURE(cpu_ns, handle, cpu), FIGURE(cpu_user_ns, handle, cpu_user),                     \
        FIGURE(cpu_system_ns, handle, cpu_system), FIGURE(lifetimes_us, handle, lifetimes),                       \
        FIGURE(outlived_objects, handle, outlived_objects), FIGURE(outlived_bytes, handle, outlived_bytes)

const struct snapshot *ctl_look(void)
{
    static struct snapshot *latest;
    struct snapshot *s = snapshot_retake(latest);
    if (s)
        latest = s;
    return s;
}

static int from_snapshot(const struct ctl_name *self, uint32_t id, const struct ctl_call *call,
                         int (*take)(const struct snapshot *, uint32_t, struct totals *))
{
    struct totals t;
    if (!ctl_figure_is_known(self->offset))
        return ENOENT;
    ctl_flush_own();
    lock(LOCK_CTL);
    const struct snapshot *s = ctl_look();
    int error = s ? take(s, id, &t) : EAGAIN;
    unlock(LOCK_CTL);
    return error ? error : ctl_read_u64(call, totals_figure(&t, self->offset));
}

static int take_self(const struct snapshot *s, uint32_t id, struct totals *t)
{
    const struct snapshot_row *row = snapshot_find(s, id);
    if (row)
        *t = row->totals;
    return row ? 0 : ENOENT;
}

static int take_inclusive(const struct snapshot *s, uint32_t id, struct totals *t)
{
    const struct snapshot_row *row = snapshot_find(s, id);
    if (row) {
        *t = snapshot_inclusive(s, (uint32_t)(row - s->rows));
        snapshot_keep_idle(row, t);
    }
    return row ? 0 : ENOENT;
}

static int take_all(const struct snapshot *s, uint32_t id, struct totals *t)
{
    (void)id;
    *t = s->all;
    return 0;
}

static int take_retired(const struct snapshot *s, uint32_t id, struct totals *t)
{
    (void)id;
    *t = s->retired;
    return 0;
}

static int context_snapshot_figure(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    return from_snapshot(self, id, call, take_self);
}

static int total_figure(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    return from_snapshot(self, id, call, take_inclusive);
}

static int all_snapshot_figure(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    return from_snapshot(self, id, call, take_all);
}

static int retired_snapshot_figure(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    return from_snapshot(self, id, call, take_retired);
}

/* ---- Peaks ---- */

enum { PEAK_OWN, PEAK_TOTAL, PEAK_AT, RETIRED_TOTAL, RETIRED_AT };

static uint64_t peak_of(const struct snapshot *s, const struct snapshot_row *row, size_t which)
{
    switch (which) {
    case PEAK_OWN:
        return row->peaks.own_bytes;
    case PEAK_TOTAL:
        return row->peaks.total_bytes;
    case PEAK_AT:
        return row->peaks.at_peak_bytes;
    case RETIRED_TOTAL:
        return s->retired_peaks.total_bytes;
    default:
        return s->retired_peaks.at_peak_bytes;
    }
}

static int peak_figure(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    ctl_flush_own();
    lock(LOCK_CTL);
    const struct snapshot *s = ctl_look();
    const struct snapshot_row *row = s ? snapshot_find(s, id) : NULL;
    uint64_t bytes = row ? peak_of(s, row, self->offset) : 0;
    unlock(LOCK_CTL);
    return row ? ctl_read_u64(call, bytes) : s ? ENOENT : EAGAIN;
}

/* The peaks of the process, which is the root, and of recycled contexts. */
static int root_peak_figure(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    return peak_figure(self, CONTEXT_ID_ROOT, call);
}

/* A period is not shown as a context. Its figures belong to its parent. */
static bool is_shown(uint32_t id)
{
    return tree_is_live(id) && !tree_is_part(contexts[id].kind);
}

static int context_figure(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    if (age_is_on && id != CONTEXT_ID_UNSAMPLED) /* unsampled spans have no periods and no row in the snapshot */
        return context_snapshot_figure(self, id, call);
    ctl_flush_own();
    lock(LOCK_TREE);
    bool live = is_shown(id);
    struct totals t = live ? tree_totals(id) : (struct totals){0};
    unlock(LOCK_TREE);
    return live ? ctl_read_u64(call, totals_figure(&t, self->offset)) : ENOENT;
}

static int all_figure(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    ctl_flush_own();
    struct totals t = sums_of_all(tree_end());
    return ctl_read_u64(call, totals_figure(&t, self->offset));
}

static int retired_figure(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    lock(LOCK_TREE);
    struct totals t = tree_retired();
    unlock(LOCK_TREE);
    return ctl_read_u64(call, totals_figure(&t, self->offset));
}

/* ---- What a context is ---- */

static int read_text(const struct ctl_call *call, const char *text)
{
    return text ? ctl_read(call, &text, sizeof text) : ENOENT;
}

/* A text of the context's site, which is never freed. */
static int context_site(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    lock(LOCK_TREE);
    const char *text = is_shown(id) ? *(const char *const *)((const char *)contexts[id].site + self->offset) : NULL;
    unlock(LOCK_TREE);
    return read_text(call, text);
}

static int context_kind(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    lock(LOCK_TREE);
    const char *text = is_shown(id) ? kind_text(contexts[id].kind) : NULL;
    unlock(LOCK_TREE);
    return read_text(call, text);
}

/* The time since the last span of the context closed. */
static int context_closed(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    lock(LOCK_CTL);
    const struct snapshot *s = ctl_look();
    const struct snapshot_row *row = s ? snapshot_find(s, id) : NULL;
    uint64_t value = row ? snapshot_closed_ns(s, row) : 0;
    unlock(LOCK_CTL);
    return row ? ctl_read_u64(call, value) : s ? ENOENT : EAGAIN;
}

/* Under LOCK_CTL. */
static int answer_ages(const struct snapshot *s, uint32_t row, const struct ctl_call *call)
{
    size_t n = 0, room = ctl_room(call, sizeof(struct jespan_age));
    for (uint32_t i = 0; i < s->n_ages; i++) {
        const struct snapshot_age *age = &s->ages[i];
        if (age->row != row || !totals_inuse_objects(&age->totals))
            continue;
        if (n < room)
            ((struct jespan_age *)call->old)[n] = (struct jespan_age){
                age->oldest_ns, totals_inuse_objects(&age->totals), totals_inuse_bytes(&age->totals)};
        n++;
    }
    ctl_end_array(call, n, sizeof(struct jespan_age));
    return 0;
}

static int context_ages(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    if (call->new_value || call->new_bytes)
        return EPERM;
    if (!age_is_on)
        return ENOENT;
    if (!call->old_bytes)
        return EINVAL;
    ctl_flush_own();
    lock(LOCK_CTL);
    const struct snapshot *s = ctl_look();
    const struct snapshot_row *row = s ? snapshot_find(s, id) : NULL;
    int error = row ? answer_ages(s, (uint32_t)(row - s->rows), call) : s ? ENOENT : EAGAIN;
    unlock(LOCK_CTL);
    return error;
}

/* Under LOCK_TREE. Labels are freed with their context, so the caller gets a copy: "key\0value\0" for each label, cut
 * to the caller's buffer. */
static int answer_labels(const struct label_set *set, const struct ctl_call *call)
{
    size_t bytes = set ? set->bytes : 0, capacity = call->old ? *call->old_bytes : 0;
    if (call->old && set)
        memcpy(call->old, set->text, capacity < bytes ? capacity : bytes);
    *call->old_bytes = call->old && capacity < bytes ? capacity : bytes;
    return 0;
}

static int context_labels(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    if (call->new_value || call->new_bytes)
        return EPERM;
    if (!call->old_bytes)
        return EINVAL;
    lock(LOCK_TREE);
    int error = is_shown(id) ? answer_labels(contexts[id].labels, call) : ENOENT;
    unlock(LOCK_TREE);
    return error;
}

/* Open blocks of one context, or of one of its periods. */
static uint64_t open_blocks(uint32_t id)
{
    uint64_t n = 0;
    for (struct thread *t = thread_first(); t; t = thread_next(t)) {
        struct counters *c = counters_find(t, id);
        struct counters_more *more = c ? counters_used_more(c) : NULL;
        n += more ? load_relaxed(&more->opens) & (((uint64_t)1 << OPENS_SHIFT) - 1) : 0;
    }
    return n;
}

/* Under LOCK_TREE. */
static uint64_t open_now(uint32_t id)
{
    uint64_t n = load_relaxed(&contexts[id].handles) + open_blocks(id);
    for (uint32_t i = CONTEXT_ID_ROOT; age_is_on && i < tree_end(); i++)
        if (tree_is_live(i) && contexts[i].kind == CONTEXT_PERIOD && contexts[i].parent == id)
            n += open_blocks(i);
    return n;
}

enum { LINE, PARENT, OPEN };

/* Under LOCK_TREE. */
static uint64_t number_of(uint32_t id, size_t which)
{
    switch (which) {
    case LINE:
        return contexts[id].site->line;
    case PARENT:
        return contexts[id].parent;
    default:
        return open_now(id);
    }
}

static int context_number(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    lock(LOCK_TREE);
    bool shown = is_shown(id);
    uint64_t value = shown ? number_of(id, self->offset) : 0;
    unlock(LOCK_TREE);
    return shown ? ctl_read_u64(call, value) : ENOENT;
}

const struct ctl_name ctl_context_names[] = {
    {"name", context_site, offsetof(struct site, name)},
    {"target", context_site, offsetof(struct site, target)},
    {"file", context_site, offsetof(struct site, file)},
    {"line", context_number, LINE},
    {"kind", context_kind, 0},
    {"parent", context_number, PARENT},
    {"closed_ns", context_closed, 0},
    {"open", context_number, OPEN},
    {"ages", context_ages, 0},
    {"labels", context_labels, 0},
    {"arena", ctl_context_arena, 0},
    {"limit_soft", ctl_context_limit, CTL_LIMIT_SOFT},
    {"limit_hard", ctl_context_limit, CTL_LIMIT_HARD},
    {"limit_inuse_bytes", ctl_context_limit_figure, CTL_LIMIT_INUSE},
    {"limit_refusals", ctl_context_limit_figure, CTL_LIMIT_REFUSALS},
    {"peak_bytes", peak_figure, PEAK_OWN},
    {"at_peak_bytes", peak_figure, PEAK_AT},
    MEMORY_FIGURES(context_figure),
    SNAPSHOT_FIGURES(context_snapshot_figure),
    {0},
};
const struct ctl_name ctl_all_names[] = {
    {"peak_bytes", root_peak_figure, PEAK_TOTAL}, MEMORY_FIGURES(all_figure), SNAPSHOT_FIGURES(all_snapshot_figure), {0}};
const struct ctl_name ctl_retired_names[] = {
    {"peak_bytes", root_peak_figure, RETIRED_TOTAL}, {"at_peak_bytes", root_peak_figure, RETIRED_AT},
    MEMORY_FIGURES(retired_figure), SNAPSHOT_FIGURES(retired_snapshot_figure), {0}};
const struct ctl_name ctl_sum_names[] = {MEMORY_FIGURES(ctl_sum), SNAPSHOT_FIGURES(ctl_sum), {0}};

static const struct ctl_name total_names[] = {
    {"peak_bytes", peak_figure, PEAK_TOTAL}, MEMORY_FIGURES(total_figure), SNAPSHOT_FIGURES(total_figure), {0}};
const struct ctl_group ctl_context_groups[] = {{"total", total_names, NULL}, {0}};
