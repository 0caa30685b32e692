/* SPDX-License-Identifier: BSD-2-Clause */
/* Heap dumps: a snapshot through an exporter into a file that is whole or absent. */
#include "dump.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "compiler.h"
#include "conf.h"
#include "die.h"
#include "module.h"
#include "span.h"
#include "track.h"

#define PATH_BYTES 4096

/* One dump at a time. Held over file operations, so fork does not wait for it: the child gets a new one. */
static pthread_mutex_t dump_mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t sequence; /* dump_mutex, as is all that is static below */
static bool failing;
static _Atomic uint64_t written, lost;

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

static int encode_to(int fd)
{
    const struct exporter *exporter = module_find("pprof");
    if (!exporter)
        return -ENOENT;
    struct snapshot *snapshot = snapshot_take();
    if (!snapshot)
        return -ENOMEM;
    struct file_sink file = {{write_all}, fd};
    int error = exporter->encode(snapshot, &file.sink);
    snapshot_free(snapshot);
    return error;
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

static int write_file(const char *path, const char *temporary)
{
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    int error = encode_to(fd);
    if (!error && fsync(fd))
        error = -errno;
    if (close(fd) && !error)
        error = -errno;
    if (!error && rename(temporary, path))
        error = -errno;
    if (error)
        unlink(temporary);
    return error ? error : sync_directory_of(path);
}

static int write_by_way_of(const char *path)
{
    static char temporary[PATH_BYTES];
    int n = snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, (int)getpid());
    if (n < 0 || (size_t)n >= sizeof temporary)
        return -ENAMETOOLONG;
    int error = write_file(path, temporary);
    if (error == -EEXIST) { /* left behind by a process of the same pid that was killed */
        unlink(temporary);
        error = write_file(path, temporary);
    }
    return error;
}

static int write_path(const char *path)
{
    int error = write_by_way_of(path);
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

static int write_as_ourselves(struct thread *t, int (*write)(const char *), const char *path)
{
    bool inside = t && span_enter_self(t) == 0;
    pthread_mutex_lock(&dump_mutex);
    int error = write(path);
    pthread_mutex_unlock(&dump_mutex);
    if (inside)
        span_leave_self(t);
    return error;
}

/* Runs `write` with the dump mutex, credited to "(jespan)", with errno, signals and cancellation as they were. */
static int run_dump(int (*write)(const char *), const char *path)
{
    int saved = errno, cancel;
    sigset_t signals;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    hold_sigxfsz(&signals);
    int error = write_as_ourselves(track_thread(), write, path);
    release_sigxfsz(&signals);
    pthread_setcancelstate(cancel, NULL);
    errno = saved;
    return error;
}

int dump_to_path(const char *path)
{
    return run_dump(write_path, path);
}

static void name_of(char path[PATH_BYTES], uint64_t number)
{
    snprintf(path, PATH_BYTES, "%s/heap.%d.%llu.pb.gz", conf.dump_dir, (int)getpid(), (unsigned long long)number);
}

static int write_next(const char *unused)
{
    (void)unused;
    static char path[PATH_BYTES];
    name_of(path, sequence + 1);
    int error = write_path(path);
    if (error && !failing)
        WARN("heap dump ", path, " failed: ", errno_text(-error), "; further failures are only counted");
    failing = error != 0;
    if (error)
        return error;
    sequence++;
    if (conf.dump_keep && sequence > conf.dump_keep) {
        name_of(path, sequence - conf.dump_keep);
        unlink(path);
    }
    return 0;
}

int dump_next(void)
{
    return run_dump(write_next, NULL);
}

static int load_module(const char *unused)
{
    (void)unused;
    return module_find("pprof") ? 0 : -ENOENT;
}

void dump_prepare(void)
{
    run_dump(load_module, NULL);
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
}
