/* SPDX-License-Identifier: BSD-2-Clause */
/* The file, FIFO or device that a dump is written to. */
#include "report/dump_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"

#define NS_PER_MS 1000000u
#define STREAM_IDLE_NS (10000ull * NS_PER_MS) /* the reader must take some bytes in this time */
#define STREAM_NS (60000ull * NS_PER_MS)      /* the reader must take everything in this time */
#define MAX_STAMPS 100

/* ---- Looking at a path ---- */

static int place_of(const struct stat *at)
{
    switch (at->st_mode & S_IFMT) {
    case S_IFREG:
        return DUMP_PLACE_FILE;
    case S_IFIFO:
    case S_IFCHR:
        return DUMP_PLACE_STREAM;
    case S_IFDIR:
        return -EISDIR;
    default:
        return -EOPNOTSUPP;
    }
}

/* Finds the path of an open file, if it still has one. */
static int name_of_descriptor(char resolved[DUMP_PATH_BYTES], int fd, const struct stat *at)
{
    char link[40];
    struct stat now;
    snprintf(link, sizeof link, "/proc/thread-self/fd/%d", fd);
    ssize_t n = readlink(link, resolved, DUMP_PATH_BYTES - 1);
    if (n < 0)
        return -errno;
    resolved[n] = '\0';
    if (lstat(resolved, &now) != 0 || now.st_dev != at->st_dev || now.st_ino != at->st_ino)
        return -ENOENT;
    return DUMP_PLACE_FILE;
}

/* Whether the program has the file open. /dev/stdout is a link to an open file, for instance. An open file must not be
 * replaced: everything that the program writes to it afterwards would be lost. */
#define MOST_DESCRIPTORS 1024
static bool is_open(const struct stat *at, int except)
{
    struct stat other;
    for (int fd = 0; fd < MOST_DESCRIPTORS; fd++)
        if (fd != except && fstat(fd, &other) == 0 && other.st_dev == at->st_dev && other.st_ino == at->st_ino)
            return true;
    return false;
}

/* The kernel follows the link. So it can refuse a link that another user made in a directory like /tmp. */
static int follow(char resolved[DUMP_PATH_BYTES], const char *path)
{
    struct stat at;
    int fd = descriptor_open(path, O_PATH, 0);
    if (fd < 0)
        return -errno;
    int place = fstat(fd, &at) != 0 ? -errno : place_of(&at);
    if (place == DUMP_PLACE_FILE)
        place = is_open(&at, fd) ? -EBUSY : name_of_descriptor(resolved, fd, &at);
    close(fd);
    return place;
}

int dump_file_look(char resolved[DUMP_PATH_BYTES], const char *path)
{
    struct stat at;
    if (strlen(path) >= DUMP_PATH_BYTES)
        return -ENAMETOOLONG;
    strcpy(resolved, path);
    if (lstat(path, &at) != 0)
        return DUMP_PLACE_FILE; /* creating the file reports any error */
    return S_ISLNK(at.st_mode) ? follow(resolved, path) : place_of(&at);
}

/* ---- Writing ---- */

#define SUFFIX_BYTES 32 /* the longest suffix of a temporary name */

/* How many bytes of the path begin the temporary name. A name that would be too long is cut at its end. */
static int beginning_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strlen(name), most = NAME_MAX - SUFFIX_BYTES;
    return (int)((size_t)(name - path) + (n <= NAME_MAX && n > most ? most : n));
}

/* Processes in different namespaces may have the same pid. The stamp keeps their temporary names apart. */
static int create(struct dump_file *file, const char *path)
{
    uint32_t stamp = (uint32_t)(clock_unix_ns() * UINT64_C(0x9e3779b97f4a7c15) >> 32);
    for (uint32_t i = 0; i < MAX_STAMPS; i++) {
        int n = snprintf(file->temporary, sizeof file->temporary, "%.*s.%d.%08x.tmp", beginning_of(path), path, (int)getpid(), stamp + i);
        if (n < 0 || (size_t)n >= sizeof file->temporary)
            return -ENAMETOOLONG;
        int fd = descriptor_open(file->temporary, O_WRONLY | O_CREAT | O_EXCL, 0600);
        if (fd >= 0 || errno != EEXIST)
            return fd >= 0 ? fd : -errno;
    }
    return -EEXIST;
}

int dump_file_begin(struct dump_file *file, const char *path)
{
    file->give_up_ns = 0;
    file->fd = create(file, path);
    return file->fd < 0 ? file->fd : 0;
}

int dump_file_begin_stream(struct dump_file *file, const char *path)
{
    struct stat at;
    file->give_up_ns = clock_ns(CLOCK_MONOTONIC) + STREAM_NS;
    file->temporary[0] = '\0';
    file->fd = descriptor_open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY, 0);
    if (file->fd < 0)
        return -errno;
    if (fstat(file->fd, &at) == 0 && place_of(&at) == DUMP_PLACE_STREAM)
        return 0;
    close(file->fd); /* something else is at the path meanwhile */
    return -EOPNOTSUPP;
}

static int wait_for_reader(const struct dump_file *file)
{
    uint64_t begun = clock_ns(CLOCK_MONOTONIC), until = begun + STREAM_IDLE_NS;
    if (until > file->give_up_ns)
        until = file->give_up_ns;
    for (uint64_t now = begun; now < until; now = clock_ns(CLOCK_MONOTONIC)) {
        struct pollfd fd = {file->fd, POLLOUT, 0};
        if (poll(&fd, 1, (int)((until - now) / NS_PER_MS) + 1) > 0)
            return 0;
    }
    return -ETIMEDOUT;
}

int dump_file_write(struct dump_file *file, const void *data, size_t bytes)
{
    for (const char *at = data; bytes;) {
        ssize_t n = write(file->fd, at, bytes);
        int error = n >= 0 || errno == EINTR ? 0
                    : errno == EAGAIN && file->give_up_ns ? wait_for_reader(file) : -errno;
        if (error)
            return error;
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* ---- Names ---- */

int dump_file_replace(const struct dump_file *file, const char *path)
{
    return rename(file->temporary, path) != 0 ? -errno : 0;
}

/* Whether the file system or a sandbox does not have the call. */
static bool is_unsupported(int error)
{
    return error == EINVAL || error == ENOSYS || error == EPERM || error == EOPNOTSUPP;
}

/* The last resort, for file systems that have neither RENAME_NOREPLACE nor hard links, such as FAT (vfat refuses link()) on kernels
 * and FUSE servers without the flag: a name that exists must not be replaced, so an empty file of this process takes it first. A
 * process that is killed between the two steps leaves an empty file. */
static int name_over_empty_file(const char *temporary, const char *path)
{
    int fd = descriptor_open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0)
        return -errno;
    close(fd);
    if (rename(temporary, path) == 0)
        return 0;
    int error = -errno;
    unlink(path);
    return error;
}

int dump_file_name(const struct dump_file *file, const char *path)
{
    const char *temporary = file->temporary;
    if (renameat2(AT_FDCWD, temporary, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
        return 0;
    if (!is_unsupported(errno))
        return -errno;
    if (link(temporary, path) == 0) {
        unlink(temporary);
        return 0;
    }
    return is_unsupported(errno) ? name_over_empty_file(temporary, path) : -errno;
}

int dump_file_sync_directory(const char *path)
{
    static char directory[DUMP_PATH_BYTES];
    const char *slash = strrchr(path, '/');
    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    int fd = descriptor_open(directory, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return errno == EACCES ? 0 : -errno; /* files can be made in a directory that cannot be read */
    int error = fsync(fd) && errno != EINVAL && errno != ENOTSUP ? -errno : 0;
    close(fd);
    return error;
}
