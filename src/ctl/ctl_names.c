/* SPDX-License-Identifier: BSD-2-Clause */
/* The names under spans.*, except those of contexts (ctl_contexts.c, ctl_paths.c), span arenas (ctl_arenas.c), alerts (ctl_alerts.c)
 * and jespan itself (ctl_stats.c). To add a name, add a row to a table.
 *
 * Figures are exact for the calling thread: its free buffer is counted first. spans.count and spans.ids answer as of
 * the last write to spans.epoch. Returned names point to memory that is never freed.
 */
#include <config.h>
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "base/figures.h"
#include "base/lock.h"
#include "ctl/ctl.h"
#include "malloc/track.h"
#include "report/dump.h"
#include "snapshot/outlived.h"
#include "snapshot/snapshot.h"
#include "span/peaks.h"
#include "span/stack_mode.h"
#include "stacks/stacks.h"

int ctl_read_u64(const struct ctl_call *call, uint64_t value)
{
    return ctl_read(call, &value, sizeof value);
}

void ctl_flush_own(void)
{
    struct thread *t = track_thread();
    if (t)
        track_flush_any(t);
}

/* ---- spans.NAME ---- */

static struct snapshot *enumerated; /* LOCK_CTL */

/* Under LOCK_CTL. */
static int refresh(void)
{
    struct snapshot *s = snapshot_retake(enumerated);
    if (!s)
        snapshot_free(enumerated);
    enumerated = s;
    return s ? 0 : EAGAIN;
}

static int with_enumeration(int (*answer)(const struct ctl_call *), const struct ctl_call *call)
{
    lock(LOCK_CTL);
    int error = enumerated ? 0 : refresh();
    if (!error)
        error = answer(call);
    unlock(LOCK_CTL);
    return error;
}

static int answer_epoch(const struct ctl_call *call)
{
    const struct ctl_call read_only = {call->old, call->old_bytes, NULL, 0};
    uint64_t ignored;
    int error = call->new_value || call->new_bytes ? ctl_write(call, &ignored, sizeof ignored) : 0;
    if (!error && call->new_value)
        error = refresh();
    return error ? error : ctl_read_u64(&read_only, enumerated->epoch);
}

static int answer_count(const struct ctl_call *call)
{
    return ctl_read_u64(call, enumerated->n_rows);
}

static int answer_ids(const struct ctl_call *call)
{
    int error = ctl_check_array(call);
    if (error)
        return error;
    size_t room = ctl_room(call, sizeof(uint32_t)), n = enumerated->n_rows;
    const struct snapshot_row *row = NULL;
    for (size_t i = 0; i < room && (row = snapshot_next(enumerated, row)); i++)
        ((uint32_t *)call->old)[i] = row->id;
    ctl_end_array(call, n, sizeof(uint32_t));
    return 0;
}

static int top_epoch(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    ctl_flush_own();
    if (call->new_value)
        ctl_refresh_jemalloc();
    return with_enumeration(answer_epoch, call);
}

static int top_count(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    return with_enumeration(answer_count, call);
}

static int top_ids(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    return with_enumeration(answer_ids, call);
}

static int top_dump(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    const char *path;
    if (call->old || call->old_bytes)
        return EPERM;
    int error = ctl_write(call, &path, sizeof path);
    if (error || !path || !path[0])
        return EINVAL;
    ctl_flush_own();
    return -dump_to_path((enum exporter_profile)self->offset, path);
}

/* Under LOCK_CTL. */
static int answer_outlived(const struct ctl_call *call)
{
    size_t n;
    const struct snapshot *s = ctl_look();
    if (!s || outlived_list(s, call->old, ctl_room(call, sizeof(struct jespan_outlived)), &n))
        return EAGAIN;
    ctl_end_array(call, n, sizeof(struct jespan_outlived));
    return 0;
}

static int top_outlived(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    int error = ctl_check_array(call);
    if (error)
        return error;
    ctl_flush_own();
    lock(LOCK_CTL);
    error = answer_outlived(call);
    unlock(LOCK_CTL);
    return error;
}

/* The header that programs see and the build have one version. */
#define TEXT_OF_(x) #x
#define TEXT_OF(x) TEXT_OF_(x)
static const char version[] = TEXT_OF(JESPAN_VERSION_MAJOR) "." TEXT_OF(JESPAN_VERSION_MINOR) "." TEXT_OF(JESPAN_VERSION_PATCH);
static const char *const version_text = version;
FIGURE_ROW(figure_version, "spans.version", version_text, FIGURE_TEXT);
_Static_assert(!__builtin_strcmp(PACKAGE_VERSION, TEXT_OF(JESPAN_VERSION_MAJOR) "." TEXT_OF(JESPAN_VERSION_MINOR) "."
                                 TEXT_OF(JESPAN_VERSION_PATCH)), "JESPAN_VERSION_… in jespan.h is not the version in configure.ac");

static int top_version(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    const char *text = version;
    return ctl_read(call, &text, sizeof text);
}

/* Returns the mode as it was, and then takes a new one. */
static int top_stacks(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    const struct ctl_call read_only = {call->old, call->old_bytes, NULL, 0};
    const char *was = load_acquire(&stack_mode_text), *wanted = NULL, *names;
    (void)self;
    (void)id;
    int error = call->new_value || call->new_bytes ? ctl_write(call, &wanted, sizeof wanted) : 0;
    if (!error && (call->new_value || call->new_bytes) && (!wanted || stacks_mode_of(wanted, &names) < 0))
        error = EINVAL;
    if (!error)
        error = call->old || call->old_bytes || !wanted ? ctl_read(&read_only, &was, sizeof was) : 0;
    return error || !wanted ? error : -stack_mode_set(wanted);
}

static int top_stacks_min_bytes(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    const struct ctl_call read_only = {call->old, call->old_bytes, NULL, 0};
    uint64_t wanted = load_relaxed(&stacks_min_bytes);
    (void)self;
    (void)id;
    int error = call->new_value || call->new_bytes ? ctl_write(call, &wanted, sizeof wanted) : 0;
    if (!error && (call->old || call->old_bytes))
        error = ctl_read_u64(&read_only, load_relaxed(&stacks_min_bytes));
    if (!error)
        store_relaxed(&stacks_min_bytes, wanted);
    return error;
}

/* Peaks begin again with what is in use. */
static int top_reset_peaks(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    if (call->old || call->old_bytes || call->new_value || call->new_bytes)
        return EPERM;
    ctl_flush_own();
    peaks_reset();
    peaks_look();
    return 0;
}

const struct ctl_name ctl_top_names[] = {
    {"version", top_version, 0},
    {"outlived", top_outlived, 0},
    {"epoch", top_epoch, 0},
    {"count", top_count, 0},
    {"ids", top_ids, 0},
    {"find", ctl_find, 0},
    {"dump", top_dump, EXPORTER_HEAP},
    {"dump_time", top_dump, EXPORTER_TIME},
    {"stacks", top_stacks, 0},
    {"stacks_min_bytes", top_stacks_min_bytes, 0},
    {"reset_peaks", top_reset_peaks, 0},
    {0},
};

/* ---- All groups ---- */

const struct ctl_group ctl_groups[] = {
    {"all", ctl_all_names, NULL},          {"retired", ctl_retired_names, NULL},
    {"sum", ctl_sum_names, NULL},
    {"stats", ctl_stats_names, ctl_stats_groups},  {"arenas", ctl_arenas_names, ctl_arenas_groups},
    {"alerts", ctl_alerts_names, ctl_alerts_groups}, {"threads", ctl_threads_names, ctl_threads_groups},
    {NULL, ctl_context_names, ctl_context_groups},
    {0},
};
