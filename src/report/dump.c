/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps: a snapshot through an exporter into a file that is whole or absent. */
#include "report/dump.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "base/compiler.h"
#include "base/die.h"
#include "base/figures.h"
#include "base/forked.h"
#include "base/meta.h"
#include "base/process_stat.h"
#include "conf/conf.h"
#include "malloc/track.h"
#include "report/dump_dir.h"
#include "report/dump_series.h"
#include "report/module.h"
#include "span/span.h"

/* Held during a dump, with its file operations. fork does not wait for it: the child gets a new one. */
static pthread_mutex_t dump_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct dump_series own; /* under dump_mutex, except for the atomic fields */
static _Atomic uint64_t by_reason[DUMP_N_REASONS];
static _Atomic uint64_t *_Atomic shown[DUMP_N_EVENTS] = {by_reason, by_reason + 1, by_reason + 2, by_reason + 3}; /* or the sidecar's */
FIGURE_ROW(figure_written, "spans.stats.dumps", own.written, FIGURE_NUMBER);
FIGURE_ROW(figure_lost, "spans.stats.lost_dumps", own.lost, FIGURE_NUMBER);
FIGURE_ROW(figure_oom, "spans.stats.oom_dumps", shown[DUMP_OOM], FIGURE_AT);
FIGURE_ROW(figure_limit, "spans.stats.limit_dumps", shown[DUMP_LIMIT], FIGURE_AT);
FIGURE_ROW(figure_peak, "spans.stats.peak_dumps", shown[DUMP_PEAK], FIGURE_AT);
FIGURE_ROW(figure_signal, "spans.stats.signal_dumps", shown[DUMP_SIGNAL], FIGURE_AT);

/* A file larger than RLIMIT_FSIZE, or a FIFO without a reader, must fail the dump and not end the program. */
static const int held_signals[] = {SIGXFSZ, SIGPIPE};
#define N_HELD (sizeof held_signals / sizeof held_signals[0])

static void hold_signals(sigset_t *before)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < N_HELD; i++)
        sigaddset(&set, held_signals[i]);
    pthread_sigmask(SIG_BLOCK, &set, before);
}

static void release_signals(const sigset_t *before)
{
    for (size_t i = 0; i < N_HELD; i++) {
        sigset_t pending, set;
        sigemptyset(&set);
        sigaddset(&set, held_signals[i]);
        if (!sigismember(before, held_signals[i]) && sigpending(&pending) == 0 && sigismember(&pending, held_signals[i]))
            sigtimedwait(&set, NULL, &(struct timespec){0});
    }
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* A requested dump. */
struct request {
    int (*write)(const struct request *);
    enum exporter_profile profile;
    const char *path;
    const struct snapshot *snapshot; /* only for write_given() */
    enum dump_reason reason; /* of a numbered dump. DUMP_N_REASONS: the interval, not an event */
};

static int write_as_ourselves(struct thread *t, const struct request *request)
{
    bool inside = t && span_enter_self(t) == 0;
    pthread_mutex_lock(&dump_mutex);
    int error = request->write(request);
    pthread_mutex_unlock(&dump_mutex);
    if (inside)
        span_leave_self(t);
    return error;
}

/* Runs a request under the dump mutex. Its memory counts for "(jespan)". errno, signals and cancellation are as before
 * afterwards. */
static int run_dump(struct request request)
{
    int saved = errno, cancel;
    sigset_t signals;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    hold_signals(&signals);
    int error = write_as_ourselves(track_thread(), &request);
    release_signals(&signals);
    pthread_setcancelstate(cancel, NULL);
    errno = saved;
    return error;
}

static const struct exporter *find_exporter(void)
{
    const struct exporter *exporter = module_find(conf.dump_format);
    if (exporter)
        dump_name_know_suffix(exporter->suffix);
    return exporter;
}

/* Runs `write` with a snapshot, or with the error of taking one. */
static int with_snapshot(struct dump_source source, const struct request *request,
                         int (*write)(const struct dump_source *source, const struct request *request))
{
    source.exporter = find_exporter();
    struct snapshot *snapshot = source.exporter ? snapshot_take() : NULL;
    source.snapshot = snapshot;
    if (snapshot)
        snapshot->resident_bytes = process_resident_bytes(0);
    source.error = snapshot ? 0 : source.exporter ? -ENOMEM : -ENOPKG;
    int error = write(&source, request);
    snapshot_free(snapshot);
    return error;
}

static int path_from(const struct dump_source *source, const struct request *request)
{
    return dump_series_write_path(&own, source, request->profile, request->path);
}

static int write_path(const struct request *request)
{
    return with_snapshot((struct dump_source){0}, request, path_from);
}

int dump_to_path(enum exporter_profile profile, const char *path)
{
    return run_dump((struct request){write_path, profile, path});
}

static int next_from(const struct dump_source *source, const struct request *request)
{
    return dump_series_write_next(&own, source, request->reason);
}

static int write_next(const struct request *request)
{
    return with_snapshot((struct dump_source){0}, request, next_from);
}

int dump_next(enum dump_reason reason)
{
    return run_dump((struct request){.write = write_next, .reason = reason});
}

static int write_given(const struct request *request)
{
    struct dump_source source = {.exporter = find_exporter(), .snapshot = request->snapshot};
    source.error = source.exporter ? 0 : -ENOPKG;
    return next_from(&source, request);
}

int dump_next_of(const struct snapshot *snapshot, enum dump_reason reason)
{
    return run_dump((struct request){.write = write_given, .snapshot = snapshot, .reason = reason});
}

/* ---- Dumps for events ---- */

/* Precedes each piece of emergency memory: its size, for meta_return(). */
union piece {
    size_t bytes;
    max_align_t align;
};

static void *take_emergency(size_t bytes)
{
    union piece *piece = bytes < PTRDIFF_MAX ? meta_emergency_alloc(bytes + sizeof *piece) : NULL;
    if (!piece)
        return NULL;
    piece->bytes = bytes + sizeof *piece;
    return piece + 1;
}

static void give_back(void *p)
{
    union piece *piece = p;
    if (piece)
        meta_return(piece - 1, piece[-1].bytes); /* piece[-1] precedes the exporter's memory */
}

static const struct exporter_memory emergency = {take_emergency, give_back};

static int write_at_once(const struct request *request)
{
    return with_snapshot((struct dump_source){.memory = &emergency, .urgent = true}, request, next_from);
}

int dump_at_once(enum dump_reason reason)
{
    int error = run_dump((struct request){.write = write_at_once, .reason = reason});
    atomic_fetch_add_explicit(&by_reason[reason], !error, memory_order_relaxed);
    return error;
}

static int keep_nothing(struct exporter_sink *sink, const void *data, size_t bytes)
{
    (void)sink;
    (void)data;
    (void)bytes;
    return 0;
}

static int rehearse_from(const struct dump_source *source, const struct request *request)
{
    struct exporter_sink sink = {keep_nothing, &emergency};
    dump_series_begin(&own);
    return source->error ? source->error : source->exporter->encode(source->snapshot, request->profile, &sink);
}

static int rehearse(const struct request *request)
{
    return with_snapshot((struct dump_source){0}, request, rehearse_from);
}

int dump_rehearse(void)
{
    return run_dump((struct request){.write = rehearse, .profile = EXPORTER_HEAP});
}

uint64_t dump_count_for(enum dump_reason reason)
{
    return load_relaxed(load_acquire(&shown[reason]));
}

void dump_show_counts(_Atomic uint64_t *counts)
{
    for (enum dump_reason reason = 0; reason < DUMP_N_EVENTS; reason++)
        store_release(&shown[reason], counts + reason);
}

static int load_module(const struct request *unused)
{
    (void)unused;
    return find_exporter() ? 0 : -ENOPKG;
}

void dump_boot(void)
{
    if (!conf.dump_dir[0] || conf.sidecar[0])
        return;
    dump_dir_note(conf.dump_dir);
    run_dump((struct request){.write = load_module});
}

uint64_t dump_count(void)
{
    return load_relaxed(&own.written);
}

uint64_t dump_lost_count(void)
{
    return load_relaxed(&own.lost);
}

COLD void dump_after_fork(void)
{
    FORKED_CLEAR(dump_mutex);
    FORKED_CLEAR(own);
    FORKED_CLEAR(by_reason);
    if (load_relaxed(&shown[0]) != by_reason)
        dump_show_counts(by_reason);
}
