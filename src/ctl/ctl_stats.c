/* SPDX-License-Identifier: BSD-2-Clause */
/* spans.stats.*: figures of jespan itself.
 *
 * A row has a function that returns the figure, or an offset in a group of figures. The comment before it is the
 * meaning, for docs/mallctl.md (tools/ctl-table). A comment holds for all rows up to the next comment. */
#include "base/compiler.h"
#include "base/cpu_clock.h"
#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "ctl/ctl.h"
#include "guard/guard.h"
#include "heap/depot.h"
#include "heap/pagemap.h"
#include "heap/sums.h"
#include "heap/thread.h"
#include "jemalloc-hooks/extents.h"
#include "malloc/libc_malloc.h"
#include "policy/arenas.h"
#include "policy/limits.h"
#include "policy/regions.h"
#include "report/dump.h"
#include "report/reporter_session.h"
#include "report/reporters.h"
#include "report/services.h"
#include "span/peaks.h"
#include "span/sampler.h"
#include "span/sites.h"
#include "span/tree.h"
#include "stacks/stacks.h"

static int stat_value(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    return ctl_read_u64(call, self->value());
}

static uint64_t pending_bytes(void)
{
    ctl_flush_own();
    return sums_pending_bytes();
}

static uint64_t cpu_clocks_lost(void)
{
    return load_relaxed(&cpu_clock_lost);
}

static uint64_t peak_looks(void)
{
    return load_relaxed(&all_peaks.looks);
}

static uint64_t threads(void)
{
    return thread_count();
}

static int read_member(const struct ctl_name *self, const struct ctl_call *call, const void *group)
{
    return ctl_read_u64(call, *(const uint64_t *)((const char *)group + self->offset));
}

static int stat_tree(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    lock(LOCK_TREE);
    const struct tree_stats stats = tree_stats();
    unlock(LOCK_TREE);
    return read_member(self, call, &stats);
}

static int stat_limits(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    const struct limits_stats stats = limits_stats();
    return read_member(self, call, &stats);
}

static int stat_arenas(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    const struct arenas_stats stats = arenas_stats();
    return read_member(self, call, &stats);
}

static int stat_regions(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    const struct regions_stats stats = regions_stats();
    return read_member(self, call, &stats);
}

static int stat_extents(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    return ctl_read_u64(call, extents_figure((_Atomic uint64_t *)((char *)&extents_heap + self->offset)));
}

static int stat_dumps(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    return ctl_read_u64(call, dump_count_for((enum dump_reason)self->offset));
}

const struct ctl_name ctl_stats_names[] = {
    /* jespan's own memory in small pieces; address space of jespan's own mappings, most of which is never touched */
    {"meta_bytes", stat_value, .value = meta_alloc_bytes},
    {"map_bytes", stat_value, .value = meta_map_bytes},
    /* header tables in use, and those that threads keep; the chunks that they lie in (part of `map_bytes`), without
     * second words of headers. The memory of a chunk goes back to the system when all tables of the chunk are free */
    {"header_bytes", stat_value, .value = tables_used_bytes},
    {"header_held_bytes", stat_value, .value = tables_held_bytes},
    /* freed by the program and kept by threads for their next allocations; jemalloc counts these bytes as allocated */
    {"pending_bytes", stat_value, .value = pending_bytes},
    /* the part of it that threads exchange: at most 4 MiB of objects of up to 14 KiB, and 4 MiB of those of 40 KiB to 1 MiB. A write to
     * `arena.*` or `thread.*` gives it to jemalloc */
    {"depot_bytes", stat_value, .value = depot_bytes},
    /* mappings of jemalloc's arenas, without its own data (`stats.metadata`), as the extent hooks saw them: address
     * space; the part that is usable without a system call; the number of mappings */
    {"mapped_bytes", stat_extents, offsetof(struct extent_figures, mapped_bytes)},
    {"committed_bytes", stat_extents, offsetof(struct extent_figures, committed_bytes)},
    {"extents", stat_extents, offsetof(struct extent_figures, extents)},
    /* the most that was mapped at once */
    {"peak_mapped_bytes", stat_extents, offsetof(struct extent_figures, peak_mapped_bytes)},
    /* times that a thread [looked for peaks](alerts.md#the-peak-of-each-span) */
    {"peak_looks", stat_value, .value = peak_looks},
    /* bytes of pages given back to the system so far whose addresses jemalloc kept: with `MADV_FREE`, so that the
     * system takes them when it needs memory; at once */
    {"purged_lazy_bytes", stat_extents, offsetof(struct extent_figures, purged_lazy_bytes)},
    {"purged_forced_bytes", stat_extents, offsetof(struct extent_figures, purged_forced_bytes)},
    /* contexts now; contexts recycled so far; requests credited to an ancestor because all numbers were taken; labels
     * or names that were cut */
    {"contexts", stat_tree, offsetof(struct tree_stats, contexts)},
    {"recycled", stat_tree, offsetof(struct tree_stats, recycled)},
    {"overflow", stat_tree, offsetof(struct tree_stats, overflow)},
    {"truncated", stat_value, .value = sites_truncated},
    /* [guarded objects](guard.md#figures) so far; usable bytes of those in use, which are not in jemalloc's figures;
     * allocations that could not be guarded */
    {"guard_objects", stat_value, .value = guard_objects},
    {"guard_bytes", stat_value, .value = guard_bytes},
    {"guard_missed", stat_value, .value = guard_missed},
    /* threads whose rseq area was taken away while jespan used it for their [CPU time](spans.md#time) */
    {"cpu_clocks_lost", stat_value, .value = cpu_clocks_lost},
    /* spans that a sampler left out, with those inside them */
    {"unsampled", stat_value, .value = sampler_unsampled},
    /* [span arenas](arenas.md) now; refusals: contexts for which no arena was left, sites whose properties cannot be
     * fulfilled, and arenas for which there was no memory */
    {"arenas", stat_arenas, offsetof(struct arenas_stats, arenas)},
    {"arenas_refused", stat_arenas, offsetof(struct arenas_stats, refused)},
    /* times that a thread got no cache for a span arena, or that a fork lost one */
    {"tcache_fallbacks", stat_arenas, offsetof(struct arenas_stats, tcache_fallbacks)},
    /* [regions](regions.md) that were released, and the objects and bytes that were live in them */
    {"regions_released", stat_regions, offsetof(struct regions_stats, released)},
    {"regions_released_objects", stat_regions, offsetof(struct regions_stats, released_objects)},
    {"regions_released_bytes", stat_regions, offsetof(struct regions_stats, released_bytes)},
    /* regions that got no arena of their own; blocks that became no region because there was no arena */
    {"regions_shared", stat_regions, offsetof(struct regions_stats, shared)},
    {"regions_lost", stat_regions, offsetof(struct regions_stats, lost)},
    /* arenas of ended regions that still have survivors; survivors so far */
    {"regions_set_aside", stat_regions, offsetof(struct regions_stats, set_aside)},
    {"regions_survivors", stat_regions, offsetof(struct regions_stats, survivors)},
    /* dumps that an event asked for ([`dump_on`](oom.md)), also those that a [sidecar](sidecar.md) wrote */
    {"oom_dumps", stat_dumps, DUMP_OOM},
    {"limit_dumps", stat_dumps, DUMP_LIMIT},
    {"peak_dumps", stat_dumps, DUMP_PEAK},
    {"signal_dumps", stat_dumps, DUMP_SIGNAL},
    /* [limits](limits.md) now; allocations that a limit refused; contexts for which no limit was left */
    {"limits", stat_limits, offsetof(struct limits_stats, limits)},
    {"limit_refusals", stat_limits, offsetof(struct limits_stats, refusals)},
    {"limits_lost", stat_limits, offsetof(struct limits_stats, lost)},
    /* 1 if the program's `malloc` is not jespan's: the program has one of its own, as Chromium and Firefox do, or another library's comes
     * first. Unless that calls jespan's, its memory is not seen. Else 0 */
    {"other_malloc", stat_value, .value = libc_malloc_is_others},
    /* dumps that this process wrote, none with a [sidecar](sidecar.md); dumps that failed; threads that have allocated
     * and have not ended */
    {"dumps", stat_value, .value = dump_count},
    {"lost_dumps", stat_value, .value = dump_lost_count},
    {"threads", stat_value, .value = threads},
    /* messages that could not be written to stderr ([where messages go](configuration.md#messages)) */
    {"lost_messages", stat_value, .value = standard_error_lost},
    /* [reporters](reporters.md) now; rounds that came due while their reporter was busy; failures that reporters
     * returned */
    {"reporters", stat_value, .value = reporters_count},
    {"reporter_misses", stat_value, .value = reporters_misses},
    {"reporter_errors", stat_value, .value = reporter_session_errors},
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

static int read_otlp(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    return ctl_read_u64(call, load_relaxed((_Atomic uint64_t *)((char *)&services_otlp + self->offset)));
}

static int read_text(const struct ctl_call *call, _Atomic(const char *) *from)
{
    const char *text = load_acquire(from);
    if (!text)
        text = "";
    return ctl_read(call, &text, sizeof text);
}

static int read_last_error(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    return read_text(call, &services_pyroscope.last_error);
}

static int read_otlp_last_error(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    return read_text(call, &services_otlp.last_error);
}

static int read_stacks(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)id;
    return ctl_read_u64(call, load_relaxed((_Atomic uint64_t *)((char *)&stacks_stats + self->offset)));
}

static uint64_t frames(void)
{
    return load_relaxed(&stack_frames_end) - 1;
}

#define PYROSCOPE_ROW(name) {#name, read_pyroscope, offsetof(struct push_stats, name)},
#define OTLP_ROW(name) {#name, read_otlp, offsetof(struct push_stats, name)},
#define HTTP_ROW(name) {#name, read_http, offsetof(struct http_stats, name)},
static const struct ctl_name pyroscope_names[] = {
    PUSH_STATS(PYROSCOPE_ROW) {"last_error", read_last_error, 0}, {0}};
static const struct ctl_name otlp_names[] = {
    PUSH_STATS(OTLP_ROW) {"last_error", read_otlp_last_error, 0}, {0}};
static const struct ctl_name http_names[] = {HTTP_STATS(HTTP_ROW) {0}};
static const struct ctl_name stacks_names[] = {
    /* pairs of a context and a [stack](stacks.md) that have a number now; frames of all stacks */
    {"stacks", stat_tree, offsetof(struct tree_stats, stacks)},
    {"frames", stat_value, .value = frames},
    /* allocations that were credited to their context without a stack. `overflow`: all numbers were taken
     * (`max_stacks`). `missed`: a signal handler allocated while the thread walked its stack,
     * or another thread held a lock for a second */
    {"overflow", read_stacks, offsetof(struct stacks_stats, overflow)},
    {"missed", read_stacks, offsetof(struct stacks_stats, missed)},
    /* stacks that end before their outermost frame */
    {"ended_early", read_stacks, offsetof(struct stacks_stats, ended_early)},
    /* how often a new stack was [cut](stacks.md#bounds), since few numbers were left */
    {"cut", read_stacks, offsetof(struct stacks_stats, cut)},
    {0},
};
const struct ctl_group ctl_stats_groups[] = {
    {"stacks", stacks_names, NULL},
    {"pyroscope", pyroscope_names, NULL}, {"otlp", otlp_names, NULL}, {"http", http_names, NULL}, {0}};
