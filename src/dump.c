/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps: a snapshot through an exporter into a file that is whole or absent. */
#include "dump.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compiler.h"
#include "conf.h"
#include "die.h"
#include "meta.h"
#include "module.h"
#include "span.h"
#include "track.h"

#define PATH_BYTES 4096

/* What the files of each profile begin with, and what the profile is called. */
static const char *const profile_names[EXPORTER_N_PROFILES] = {[EXPORTER_HEAP] = "heap", [EXPORTER_TIME] = "time"};

/* One dump at a time. Held over file operations, so fork does not wait for it: the child gets a new one. */
static pthread_mutex_t dump_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sequence; /* dump_mutex, as is all that is static below */
static bool failing;
static _Atomic uint64_t written, lost, by_reason[DUMP_N_REASONS];
static const struct exporter_memory *memory; /* of the dump at hand; NULL: malloc */
static bool in_haste;                        /* it may be the program's last moment */

struct file_sink {
    struct exporter_sink sink;
    int fd;
};

static int write_all(struct exporter_sink *sink, const void *data, size_t bytes)
{
    int fd = ((struct file_sink *)sink)->fd;
    for (const char *at = data; bytes;) {
        ssize_t n = write(fd, at, bytes);
        if (n < 0 && errno != EINTR)
            return -errno;
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* What is dumped: all files of one dump show the same moment. */
struct source {
    const struct exporter *exporter;
    struct snapshot *snapshot;
};

static int source_take(struct source *source)
{
    source->exporter = module_find("pprof");
    source->snapshot = source->exporter ? snapshot_take() : NULL;
    return source->snapshot ? 0 : source->exporter ? -ENOMEM : -ENOENT;
}

static int encode_to(int fd, const struct source *source, enum exporter_profile profile)
{
    struct file_sink file = {{write_all, memory}, fd};
    return source->exporter->encode(source->snapshot, profile, &file.sink);
}

/* Without this the new name may survive a crash of the machine without the new contents, or the other way round. */
static int sync_directory_of(const char *path)
{
    static char directory[PATH_BYTES]; /* a thread's stack may be small */
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    int error = fsync(fd) && errno != EINVAL && errno != ENOTSUP ? -errno : 0;
    close(fd);
    return error;
}

static int write_file(const char *path, const char *temporary, const struct source *source,
                      enum exporter_profile profile)
{
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int error = encode_to(fd, source, profile);
    if (!error && in_haste && rename(temporary, path)) /* what is synced first may never be named */
        error = -errno;
    if (!error && fsync(fd))
        error = -errno;
    if (close(fd) && !error)
        error = -errno;
    if (!error && !in_haste && rename(temporary, path))
        error = -errno;
    if (error)
        unlink(temporary);
    return error ? error : sync_directory_of(path);
}

static int write_by_way_of(const char *path, const struct source *source, enum exporter_profile profile)
{
    static char temporary[PATH_BYTES];
    int n = snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, (int)getpid());
    if (n < 0 || (size_t)n >= sizeof temporary)
        return -ENAMETOOLONG;
    int error = write_file(path, temporary, source, profile);
    if (error == -EEXIST) { /* left behind by a process of the same pid that was killed */
        unlink(temporary);
        error = write_file(path, temporary, source, profile);
    }
    return error;
}

/* Where there is no source, `error` says why. */
static int write_path(const char *path, int error, const struct source *source, enum exporter_profile profile)
{
    if (!error)
        error = write_by_way_of(path, source, profile);
    atomic_fetch_add_explicit(error ? &lost : &written, 1, memory_order_relaxed);
    return error;
}

/* A file larger than RLIMIT_FSIZE is an error of ours, not the end of the program. */
static void hold_sigxfsz(sigset_t *before)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &set, before);
}

static void release_sigxfsz(const sigset_t *before)
{
    sigset_t pending, set;
    sigemptyset(&set);
    sigaddset(&set, SIGXFSZ);
    if (!sigismember(before, SIGXFSZ) && sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ))
        sigtimedwait(&set, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, before, NULL);
}

/* What a caller asks for. */
struct order {
    int (*write)(const struct order *);
    enum exporter_profile profile;
    const char *path;
    const char *reason; /* of a numbered dump; "": none but its time */
};

static int write_as_ourselves(struct thread *t, const struct order *order)
{
    bool inside = t && span_enter_self(t) == 0;
    pthread_mutex_lock(&dump_mutex);
    int error = order->write(order);
    pthread_mutex_unlock(&dump_mutex);
    if (inside)
        span_leave_self(t);
    return error;
}

/* Carries out an order under the dump mutex, credited to "(jespan)", with errno, signals and cancellation as they
 * were. */
static int run_dump(struct order order)
{
    int saved = errno, cancel;
    sigset_t signals;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    hold_sigxfsz(&signals);
    int error = write_as_ourselves(track_thread(), &order);
    release_sigxfsz(&signals);
    pthread_setcancelstate(cancel, NULL);
    errno = saved;
    return error;
}

static int write_one(const struct order *order)
{
    struct source source;
    int error = write_path(order->path, source_take(&source), &source, order->profile);
    snapshot_free(source.snapshot);
    return error;
}

int dump_to_path(enum exporter_profile profile, const char *path)
{
    return run_dump((struct order){write_one, profile, path});
}

static void name_of(char path[PATH_BYTES], enum exporter_profile profile, uint64_t number, const char *reason)
{
    snprintf(path, PATH_BYTES, "%s/%s.%d.%llu%s%s.pb.gz", conf.dump_dir, profile_names[profile], (int)getpid(),
             (unsigned long long)number, *reason ? "." : "", reason);
}

static bool is_wanted(enum exporter_profile profile)
{
    return profile == EXPORTER_HEAP || conf.dump_time;
}

/* Ends at the first file that fails: the next dump has its number, and writes them all again. */
static int write_numbered(uint64_t number, const char *reason)
{
    static char path[PATH_BYTES];
    struct source source;
    int error = source_take(&source);
    for (enum exporter_profile profile = 0; profile < EXPORTER_N_PROFILES; profile++) {
        if (!is_wanted(profile))
            continue;
        name_of(path, profile, number, reason);
        error = write_path(path, error, &source, profile);
        if (error && !failing)
            WARN(profile_names[profile], " dump ", path, " failed: ", errno_text(-error),
                 "; further failures are only counted");
        if (error)
            break;
    }
    snapshot_free(source.snapshot);
    return error;
}

static void remove_numbered(uint64_t number)
{
    static char path[PATH_BYTES];
    for (enum exporter_profile profile = 0; profile < EXPORTER_N_PROFILES; profile++) {
        name_of(path, profile, number, "");
        if (is_wanted(profile) && unlink(path))
            for (int reason = 0; reason < DUMP_N_REASONS; reason++) {
                name_of(path, profile, number, dump_reason_names[reason]);
                unlink(path);
            }
    }
}

static int write_next(const struct order *order)
{
    int error = write_numbered(sequence + 1, order->reason);
    failing = error != 0;
    if (error)
        return error;
    sequence++;
    if (conf.dump_keep && sequence > conf.dump_keep)
        remove_numbered(sequence - conf.dump_keep);
    return 0;
}

int dump_next(void)
{
    return run_dump((struct order){.write = write_next, .reason = ""});
}

/* ---- Dumps that an event asks for ---- */

/* What precedes each piece. */
union piece {
    size_t bytes;
    max_align_t align;
};

static void *take_borrowed(size_t bytes)
{
    union piece *piece = bytes < PTRDIFF_MAX ? meta_borrow(bytes + sizeof *piece) : NULL;
    if (!piece)
        return NULL;
    piece->bytes = bytes + sizeof *piece;
    return piece + 1;
}

static void give_back(void *p)
{
    union piece *piece = p;
    if (piece)
        meta_return(piece - 1, piece[-1].bytes);
}

static const struct exporter_memory borrowed = {take_borrowed, give_back};

static int write_at_once(const struct order *order)
{
    memory = &borrowed;
    in_haste = true;
    int error = write_next(order);
    in_haste = false;
    memory = NULL;
    return error;
}

int dump_at_once(enum dump_reason reason)
{
    int error = run_dump((struct order){.write = write_at_once, .reason = dump_reason_names[reason]});
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

static int rehearse(const struct order *order)
{
    struct source source;
    struct exporter_sink sink = {keep_nothing, &borrowed};
    int error = source_take(&source);
    if (!error)
        error = source.exporter->encode(source.snapshot, order->profile, &sink);
    snapshot_free(source.snapshot);
    return error;
}

int dump_rehearse(void)
{
    return run_dump((struct order){.write = rehearse, .profile = EXPORTER_HEAP});
}

uint64_t dump_count_for(enum dump_reason reason)
{
    return load_relaxed(&by_reason[reason]);
}

static int load_module(const struct order *unused)
{
    (void)unused;
    return module_find("pprof") ? 0 : -ENOENT;
}

void dump_prepare(void)
{
    run_dump((struct order){.write = load_module});
}

uint64_t dump_count(void)
{
    return load_relaxed(&written);
}

uint64_t dump_lost_count(void)
{
    return load_relaxed(&lost);
}

void dump_after_fork(void)
{
    pthread_mutex_init(&dump_mutex, NULL);
    sequence = 0;
    store_relaxed(&written, 0);
    store_relaxed(&lost, 0);
    for (int reason = 0; reason < DUMP_N_REASONS; reason++)
        store_relaxed(&by_reason[reason], 0);
}
