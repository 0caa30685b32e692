/* SPDX-License-Identifier: BSD-2-Clause */
/* What the names under spans.* mean, but for those of contexts (ctl_contexts.c) and span arenas (ctl_arenas.c). Adding one
 * is a row in a table.
 *
 * Figures are exact for the calling thread, whose buffered frees are counted first. Enumeration (count, ids) is as of the
 * last write to spans.epoch. Names point to memory that stays for good.
 */
#include <errno.h>
#include <string.h>

#include "base/compiler.h"
#include "base/cpu_clock.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/standard_error.h"
#include "ctl/ctl.h"
#include "heap/sums.h"
#include "heap/thread.h"
#include "jemalloc-hooks/extents.h"
#include "malloc/regions.h"
#include "malloc/track.h"
#include "policy/arenas.h"
#include "policy/limit.h"
#include "report/dump.h"
#include "report/reporter_session.h"
#include "report/reporters.h"
#include "report/services.h"
#include "snapshot/outlived.h"
#include "snapshot/snapshot.h"
#include "span/sampler.h"
#include "span/sites.h"
#include "span/tree.h"

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
        return EAGAIN;
    enumerated = s;
    return 0;
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

/* As many ids as there is room for. */
static int answer_ids(const struct ctl_call *call)
{
    if (call->new_value || call->new_bytes)
        return EPERM;
    if (!call->old_bytes)
        return EINVAL;
    size_t room = call->old ? *call->old_bytes / sizeof(uint32_t) : 0, n = enumerated->n_rows;
    for (size_t i = 0; i < n && i < room; i++)
        ((uint32_t *)call->old)[i] = enumerated->rows[i].id;
    *call->old_bytes = (call->old && room < n ? room : n) * sizeof(uint32_t);
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

/* Under LOCK_CTL. As many as there is room for. */
static int answer_outlived(const struct ctl_call *call)
{
    size_t n, room = call->old ? *call->old_bytes / sizeof(struct jespan_outlived) : 0;
    const struct snapshot *s = ctl_look();
    if (!s || outlived_list(s, call->old, room, &n))
        return EAGAIN;
    *call->old_bytes = (call->old && room < n ? room : n) * sizeof(struct jespan_outlived);
    return 0;
}

static int top_outlived(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    if (call->new_value || call->new_bytes)
        return EPERM;
    if (!call->old_bytes)
        return EINVAL;
    ctl_flush_own();
    lock(LOCK_CTL);
    int error = answer_outlived(call);
    unlock(LOCK_CTL);
    return error;
}

const struct ctl_name ctl_top_names[] = {
    {"outlived", top_outlived, 0},
    {"epoch", top_epoch, 0},
    {"count", top_count, 0},
    {"ids", top_ids, 0},
    {"dump", top_dump, EXPORTER_HEAP},
    {"dump_time", top_dump, EXPORTER_TIME},
    {0},
};

/* ---- spans.stats.NAME ---- */

static struct tree_stats stats_of_tree(void)
{
    lock(LOCK_TREE);
    struct tree_stats stats = tree_stats();
    unlock(LOCK_TREE);
    return stats;
}

static uint64_t stat_contexts(void)
{
    return stats_of_tree().contexts;
}

static uint64_t stat_cpu_clocks_lost(void)
{
    return load_relaxed(&cpu_clock_lost);
}

static uint64_t stat_overflow(void)
{
    return stats_of_tree().overflow;
}

static uint64_t stat_recycled(void)
{
    return stats_of_tree().recycled;
}

static uint64_t stat_pending_bytes(void)
{
    ctl_flush_own();
    return sums_pending_bytes();
}

static uint64_t stat_threads(void)
{
    return thread_count();
}

static uint64_t stat_limits(void)
{
    return limits_stats().limits;
}

static uint64_t stat_limit_refusals(void)
{
    return limits_stats().refusals;
}

static uint64_t stat_limits_lost(void)
{
    return limits_stats().lost;
}

static uint64_t stat_arenas(void)
{
    return arenas_stats().arenas;
}

static uint64_t stat_arenas_refused(void)
{
    return arenas_stats().refused;
}

static uint64_t stat_tcache_fallbacks(void)
{
    return arenas_stats().tcache_fallbacks;
}

static uint64_t stat_oom_dumps(void)
{
    return dump_count_for(DUMP_OOM);
}

static uint64_t stat_limit_dumps(void)
{
    return dump_count_for(DUMP_LIMIT);
}

static uint64_t stat_peak_dumps(void)
{
    return dump_count_for(DUMP_PEAK);
}

static uint64_t stat_signal_dumps(void)
{
    return dump_count_for(DUMP_SIGNAL);
}

#define STAT(name, function)                                                                                           \
    static int read_##name(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)                      \
    {                                                                                                                  \
        (void)self;                                                                                                    \
        (void)id;                                                                                                      \
        return ctl_read_u64(call, function());                                                                             \
    }
STAT(meta_bytes, meta_alloc_bytes)
STAT(map_bytes, meta_map_bytes)
STAT(header_bytes, tables_used_bytes)
STAT(header_held_bytes, tables_held_bytes)
STAT(pending_bytes, stat_pending_bytes)
STAT(contexts, stat_contexts)
STAT(overflow, stat_overflow)
STAT(cpu_clocks_lost, stat_cpu_clocks_lost)
STAT(recycled, stat_recycled)
STAT(truncated, sites_truncated)
STAT(unsampled, sampler_unsampled)
STAT(dumps, dump_count)
STAT(lost_dumps, dump_lost_count)
STAT(lost_messages, standard_error_lost)
STAT(oom_dumps, stat_oom_dumps)
STAT(limit_dumps, stat_limit_dumps)
STAT(peak_dumps, stat_peak_dumps)
STAT(signal_dumps, stat_signal_dumps)
STAT(reporters, reporters_count)
STAT(reporter_misses, reporters_misses)
STAT(reporter_errors, reporter_session_errors)
STAT(threads, stat_threads)
STAT(limits, stat_limits)
STAT(limit_refusals, stat_limit_refusals)
STAT(limits_lost, stat_limits_lost)
STAT(arenas, stat_arenas)
STAT(arenas_refused, stat_arenas_refused)
STAT(tcache_fallbacks, stat_tcache_fallbacks)

static int read_extents(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    return ctl_read_u64(call, extents_figure((_Atomic uint64_t *)((char *)&extents_heap + self->offset)));
}

static int read_regions(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    const struct regions_stats stats = regions_stats();
    return ctl_read_u64(call, *(const uint64_t *)((const char *)&stats + self->offset));
}

#define ROW(name) {#name, read_##name, 0}
#define REGION_ROW(name) {"regions_" #name, read_regions, offsetof(struct regions_stats, name)}
#define EXTENT_ROW(name) {#name, read_extents, offsetof(struct extent_figures, name)}
static const struct ctl_name stats_names[] = {
    ROW(meta_bytes),
    ROW(map_bytes),
    ROW(header_bytes),
    ROW(header_held_bytes),
    ROW(pending_bytes),
    EXTENT_ROW(mapped_bytes),
    EXTENT_ROW(committed_bytes),
    EXTENT_ROW(peak_mapped_bytes),
    EXTENT_ROW(purged_lazy_bytes),
    EXTENT_ROW(purged_forced_bytes),
    EXTENT_ROW(extents),
    ROW(contexts),
    ROW(overflow),
    ROW(cpu_clocks_lost),
    ROW(recycled),
    ROW(truncated),
    ROW(unsampled),
    ROW(dumps),
    ROW(lost_dumps),
    ROW(lost_messages),
    ROW(threads),
    ROW(reporters),
    ROW(reporter_misses),
    ROW(reporter_errors),
    ROW(limits),
    ROW(limit_refusals),
    ROW(limits_lost),
    REGION_ROW(released),
    REGION_ROW(released_objects),
    REGION_ROW(released_bytes),
    REGION_ROW(shared),
    REGION_ROW(set_aside),
    REGION_ROW(survivors),
    REGION_ROW(lost),
    ROW(arenas),
    ROW(arenas_refused),
    ROW(tcache_fallbacks),
    ROW(oom_dumps),
    ROW(limit_dumps),
    ROW(peak_dumps),
    ROW(signal_dumps),
    {0},
};

/* ---- spans.stats.SERVICE.NAME ---- */

static int read_pyroscope(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    return ctl_read_u64(call, load_relaxed((_Atomic uint64_t *)((char *)&services_pyroscope + self->offset)));
}

static int read_http(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    return ctl_read_u64(call, load_relaxed((_Atomic uint64_t *)((char *)&services_http + self->offset)));
}

static int read_last_error(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    const char *text = load_acquire(&services_pyroscope.last_error);
    if (!text)
        text = "";
    return ctl_read(call, &text, sizeof text);
}

#define PYROSCOPE_ROW(name) {#name, read_pyroscope, offsetof(struct pyroscope_stats, name)},
#define HTTP_ROW(name) {#name, read_http, offsetof(struct http_stats, name)},
static const struct ctl_name pyroscope_names[] = {
    PYROSCOPE_STATS(PYROSCOPE_ROW) {"last_error", read_last_error, 0}, {0}};
static const struct ctl_name http_names[] = {HTTP_STATS(HTTP_ROW) {0}};
static const struct ctl_group stats_groups[] = {
    {"pyroscope", pyroscope_names, NULL}, {"http", http_names, NULL}, {0}};

const struct ctl_group ctl_groups[] = {
    {"all", ctl_all_names, NULL},          {"retired", ctl_retired_names, NULL},
    {"stats", stats_names, stats_groups},  {"arenas", ctl_arenas_names, ctl_arenas_groups},
    {NULL, ctl_context_names, ctl_context_groups}, {0},
};
