/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps: a snapshot through an exporter into a file that is whole or absent. */
#include "report/dump.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/die.h"
#include "base/meta.h"
#include "conf/conf.h"
#include "malloc/track.h"
#include "report/dump_dir.h"
#include "report/dump_file.h"
#include "report/module.h"
#include "span/span.h"

#define MAX_RANGES 32
#define MAX_CLASHES 100

/* Held during a dump, with its file operations. fork does not wait for it: the child gets a new one. */
static pthread_mutex_t dump_mutex = PTHREAD_MUTEX_INITIALIZER;
static bool failing; /* the last dump failed. All static variables below are under dump_mutex, except the atomic ones */
static _Atomic uint64_t written, lost, by_reason[DUMP_N_REASONS];
static const struct exporter_memory *memory; /* for the present dump. NULL: malloc */
static bool in_emergency;                    /* the process may be killed during the present dump */

/* The numbers of this process's dumps, so that it removes no others. They are kept as ranges, because numbers that
 * were taken already are skipped. With too many ranges the oldest is forgotten, and its dumps are never removed. */
static struct {
    bool is_known;
    uint64_t life, last; /* last: the number of the last dump, 0: none yet */
    struct range {
        uint64_t first, end;
    } ranges[MAX_RANGES];
    unsigned n_ranges;
} own;

struct file_sink {
    struct exporter_sink sink;
    struct dump_file *file;
};

static int write_all(struct exporter_sink *sink, const void *data, size_t bytes)
{
    return dump_file_write(((struct file_sink *)sink)->file, data, bytes);
}

/* All files of one dump show the same snapshot. */
struct source {
    const struct exporter *exporter;
    struct snapshot *snapshot;
};

static int source_take(struct source *source)
{
    source->exporter = module_find("pprof");
    source->snapshot = source->exporter ? snapshot_take() : NULL;
    return source->snapshot ? 0 : source->exporter ? -ENOMEM : -ENOPKG;
}

static int encode_to(struct dump_file *file, const struct source *source, enum exporter_profile profile)
{
    struct file_sink to = {{write_all, memory}, file};
    return source->exporter->encode(source->snapshot, profile, &to.sink);
}

typedef int name_function(const struct dump_file *file, const char *path);

/* In an emergency the file gets its name before it is synced: the process may be killed during the sync. */
static int finish_file(const struct dump_file *file, int error, const char *path, name_function *name)
{
    if (!error && in_emergency)
        error = name(file, path);
    if (!error && fsync(file->fd))
        error = -errno;
    if (close(file->fd) && !error)
        error = -errno;
    if (!error && !in_emergency)
        error = name(file, path);
    if (error)
        unlink(file->temporary);
    return error ? error : dump_file_sync_directory(path);
}

static int write_file(const char *path, const struct source *source, enum exporter_profile profile, name_function *name)
{
    static struct dump_file file;
    int error = dump_file_begin(&file, path);
    return error ? error : finish_file(&file, encode_to(&file, source, profile), path, name);
}

static int write_stream(const char *path, const struct source *source, enum exporter_profile profile)
{
    static struct dump_file file;
    int error = dump_file_begin_stream(&file, path);
    if (error)
        return error;
    error = encode_to(&file, source, profile);
    return close(file.fd) && !error ? -errno : error;
}

static int count(int error)
{
    atomic_fetch_add_explicit(error ? &lost : &written, 1, memory_order_relaxed);
    return error;
}

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

static int write_to_path(const struct request *request, const struct source *source)
{
    static char path[DUMP_PATH_BYTES];
    int place = dump_file_look(path, request->path);
    if (place < 0)
        return place;
    return place == DUMP_PLACE_STREAM ? write_stream(path, source, request->profile)
                                      : write_file(path, source, request->profile, dump_file_replace);
}

static int write_one(const struct request *request)
{
    struct source source;
    int error = source_take(&source);
    if (!error)
        error = write_to_path(request, &source);
    snapshot_free(source.snapshot);
    return count(error);
}

int dump_to_path(enum exporter_profile profile, const char *path)
{
    return run_dump((struct request){write_one, profile, path});
}

/* ---- Numbered dumps ---- */

static bool is_wanted(enum exporter_profile profile)
{
    return profile == EXPORTER_HEAP || conf.dump_time;
}

static void begin_life(void)
{
    own.life = dump_dir_new_life(conf.dump_dir, (uint64_t)getpid());
    own.is_known = true;
}

static struct dump_name name_of(enum exporter_profile profile, uint64_t number, enum dump_reason reason)
{
    return (struct dump_name){.profile = profile, .pid = (uint64_t)getpid(), .life = own.life, .number = number,
                              .reason = reason};
}

static void path_of(char path[DUMP_PATH_BYTES], const struct dump_name *name)
{
    char text[DUMP_NAME_BYTES];
    dump_name_make(text, sizeof text, name);
    snprintf(path, DUMP_PATH_BYTES, "%s/%s", conf.dump_dir, text);
}

/* Whether no file or directory has that number, with any profile and reason. */
static bool is_free(uint64_t number)
{
    static char path[DUMP_PATH_BYTES];
    struct stat at;
    for (enum exporter_profile profile = 0; profile < EXPORTER_N_PROFILES; profile++)
        for (enum dump_reason reason = 0; reason <= DUMP_N_REASONS; reason++) {
            struct dump_name name = name_of(profile, number, reason);
            path_of(path, &name);
            if (lstat(path, &at) == 0)
                return false;
        }
    return true;
}

/* An earlier process with this pid may have left files, or a process with this pid in another namespace may write
 * there. So the first dump determines the life. In an emergency, the life that the rehearsal found is used if dump 1
 * is free. */
static uint64_t choose_number(void)
{
    if (!own.last && (!own.is_known || !in_emergency || !is_free(1)))
        begin_life();
    uint64_t number = own.last + 1;
    while (!is_free(number))
        number++;
    return number;
}

/* Servers change their user after the start. That user may not be able to write to the directory. */
static void say_failure(const char *profile, const char *path, int error)
{
    char user[NUMBER_BYTES];
    bool denied = error == -EACCES;
    const char *why = error == -ENOPKG ? "the pprof exporter is missing" : errno_text(-error);
    if (!failing)
        WARN(profile, " dump ", path, " failed: ", why, denied ? "; this process runs as user " : "",
             denied ? number_text(user, geteuid(), 10) : "", denied ? ", who must be able to write to the directory" : "",
             "; further failures are only counted");
}

/* Ends at the first file that fails. *named: the number has a file. EEXIST without it: another process took the
 * number. */
static int write_numbered(uint64_t number, enum dump_reason reason, bool *named)
{
    static char path[DUMP_PATH_BYTES];
    struct source source;
    int error = source_take(&source);
    *named = false;
    for (enum exporter_profile profile = 0; profile < EXPORTER_N_PROFILES; profile++) {
        if (!is_wanted(profile))
            continue;
        struct dump_name name = name_of(profile, number, reason);
        path_of(path, &name);
        if (!error)
            error = write_file(path, &source, profile, dump_file_name);
        if (error == -EEXIST && !*named)
            break;
        count(error);
        if (error)
            say_failure(dump_profile_names[profile], path, error);
        if (error)
            break;
        *named = true;
    }
    snapshot_free(source.snapshot);
    return error;
}

static void add_own(uint64_t number)
{
    own.last = number;
    if (own.n_ranges && own.ranges[own.n_ranges - 1].end == number) {
        own.ranges[own.n_ranges - 1].end++;
        return;
    }
    if (own.n_ranges == MAX_RANGES)
        memmove(own.ranges, own.ranges + 1, --own.n_ranges * sizeof *own.ranges);
    own.ranges[own.n_ranges++] = (struct range){number, number + 1};
}

static uint64_t own_dumps(void)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < own.n_ranges; i++)
        n += own.ranges[i].end - own.ranges[i].first;
    return n;
}

static void remove_numbered(uint64_t number)
{
    static char path[DUMP_PATH_BYTES];
    for (enum exporter_profile profile = 0; profile < EXPORTER_N_PROFILES; profile++)
        for (int reason = DUMP_N_REASONS; reason >= 0; reason--) {
            struct dump_name name = name_of(profile, number, (enum dump_reason)reason);
            path_of(path, &name);
            if (is_wanted(profile) && unlink(path) == 0)
                break;
        }
}

static void remove_oldest(void)
{
    remove_numbered(own.ranges[0].first++);
    if (own.ranges[0].first == own.ranges[0].end)
        memmove(own.ranges, own.ranges + 1, --own.n_ranges * sizeof *own.ranges);
}

static void keep(uint64_t newest, enum dump_reason reason)
{
    struct dump_name name = name_of(EXPORTER_HEAP, newest, reason);
    while (conf.dump_keep && own_dumps() > conf.dump_keep)
        remove_oldest();
    if (conf.dump_dir_files || conf.dump_dir_bytes)
        dump_dir_keep(conf.dump_dir, conf.dump_dir_files, conf.dump_dir_bytes, &name);
}

/* A dump keeps its number once it has a file with it, even if another of its files fails. */
static int write_next(const struct request *request)
{
    bool named;
    uint64_t number = choose_number();
    int error = write_numbered(number, request->reason, &named);
    for (int i = 0; error == -EEXIST && !named && i < MAX_CLASHES; i++) {
        number = choose_number();
        error = write_numbered(number, request->reason, &named);
    }
    if (error == -EEXIST && !named)
        say_failure(dump_profile_names[EXPORTER_HEAP], conf.dump_dir, count(error));
    failing = error != 0;
    if (!named)
        return error;
    add_own(number);
    keep(number, request->reason);
    return error;
}

int dump_next(void)
{
    return run_dump((struct request){.write = write_next, .reason = DUMP_N_REASONS});
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
    memory = &emergency;
    in_emergency = true;
    int error = write_next(request);
    in_emergency = false;
    memory = NULL;
    return error;
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

static int rehearse(const struct request *request)
{
    struct source source;
    struct exporter_sink sink = {keep_nothing, &emergency};
    int error = source_take(&source);
    if (!own.is_known)
        begin_life();
    if (!error)
        error = source.exporter->encode(source.snapshot, request->profile, &sink);
    snapshot_free(source.snapshot);
    return error;
}

int dump_rehearse(void)
{
    return run_dump((struct request){.write = rehearse, .profile = EXPORTER_HEAP});
}

uint64_t dump_count_for(enum dump_reason reason)
{
    return load_relaxed(&by_reason[reason]);
}

static int load_module(const struct request *unused)
{
    (void)unused;
    return module_find("pprof") ? 0 : -ENOPKG;
}

void dump_boot(void)
{
    if (conf.dump_dir[0])
        run_dump((struct request){.write = load_module});
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
    memset(&own, 0, sizeof own);
    store_relaxed(&written, 0);
    store_relaxed(&lost, 0);
    for (int reason = 0; reason < DUMP_N_REASONS; reason++)
        store_relaxed(&by_reason[reason], 0);
}
