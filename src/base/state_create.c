/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes and maps the state file. A file of this name stays as it is unless a process that has ended left it there. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/die.h"
#include "base/state_file.h"

#define MOST_BYTES ((size_t)1 << 30) /* of addresses and of the file, which is sparse */
#define LEAST_BYTES ((size_t)16 << 20)

int state_file_path(char to[STATE_PATH_BYTES], const char *path, pid_t pid)
{
    char number[NUMBER_BYTES];
    size_t n = 0;
    for (; *path; path++) {
        const char *text = (const char[]){*path, '\0'};
        if (*path == '%') {
            if (*++path != 'p' && *path != '%')
                return -EINVAL;
            if (*path == 'p')
                text = number_text(number, (uint64_t)pid, 10);
        }
        size_t bytes = strlen(text);
        if (n + bytes >= STATE_PATH_BYTES)
            return -ENAMETOOLONG;
        memcpy(to + n, text, bytes);
        n += bytes;
    }
    to[n] = '\0';
    return 0;
}

/* Magic and pid are in a file right after it was made. Of several processes that start at once with one path, one has the file, and
 * the others are silent: -EBUSY. */
#define EMPTY_SECONDS 10 /* a process that was killed in between left it empty */

static int why_exists(int fd)
{
    struct stat status;
    Elf64_Ehdr header;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_nlink > 1)
        return -EEXIST;
    if (status.st_nlink == 0) /* another process makes place */
        return -EBUSY;
    if (status.st_size == 0)
        return time(NULL) - status.st_mtime < EMPTY_SECONDS ? -EBUSY : 0;
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header ||
        memcmp(header.e_ident + STATE_MAGIC_AT, STATE_MAGIC, sizeof STATE_MAGIC - 1) != 0)
        return -EEXIST;
    pid_t pid = (pid_t)header.e_flags;
    return pid > 0 && pid != getpid() && (!kill(pid, 0) || errno == EPERM) ? -EBUSY : 0;
}

/* Another process may have removed this file since it was opened, and made one of its own. The lock is for those that come at the same
 * time. */
static int remove_file(int fd, const char *path)
{
    struct stat of_fd, of_path;
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return -EBUSY;
    if (fstat(fd, &of_fd) || lstat(path, &of_path))
        return errno == ENOENT ? 0 : -errno;
    if (of_fd.st_ino != of_path.st_ino || of_fd.st_dev != of_path.st_dev)
        return -EBUSY;
    return unlink(path) ? -errno : 0;
}

/* The file of a process that has ended, or of the program that this process executed before, makes place. */
static int make_place(const char *path)
{
    int fd = descriptor_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return errno == ENOENT ? 0 : -EEXIST;
    int error = why_exists(fd);
    if (!error)
        error = remove_file(fd, path);
    close(fd);
    return error;
}

static int create_new(const char *path)
{
    Elf64_Ehdr header = {.e_flags = (Elf64_Word)getpid()};
    memcpy(header.e_ident + STATE_MAGIC_AT, STATE_MAGIC, sizeof STATE_MAGIC - 1);
    struct rlimit most;
    if (getrlimit(RLIMIT_FSIZE, &most) || most.rlim_cur < sizeof header) /* a SIGXFSZ */
        return -EFBIG;
    int fd = descriptor_open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    ssize_t n = pwrite(fd, &header, sizeof header, 0);
    if (n == (ssize_t)sizeof header)
        return fd;
    int error = n < 0 ? -errno : -ENOSPC;
    unlink(path);
    close(fd);
    return error;
}

static int create(const char *path)
{
    int fd = create_new(path);
    if (fd != -EEXIST)
        return fd;
    int error = make_place(path);
    if (error)
        return error;
    fd = create_new(path);
    return fd == -EEXIST ? -EBUSY : fd;
}

/* A file beyond RLIMIT_FSIZE would be a SIGXFSZ. */
static int map(struct state_mapping *to, int fd)
{
    struct rlimit most;
    struct stat status;
    int error = -EFBIG;
    if (getrlimit(RLIMIT_FSIZE, &most) || fstat(fd, &status))
        return -errno;
    for (size_t bytes = MOST_BYTES; error && bytes >= LEAST_BYTES; bytes /= 2) {
        if (bytes > most.rlim_cur)
            continue;
        error = ftruncate(fd, (off_t)bytes) ? -errno : 0;
        char *p = error ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (!error && p == MAP_FAILED)
            error = -errno;
        if (!error) {
            to->base = p;
            to->bytes = bytes;
        }
    }
    to->device = status.st_dev;
    to->inode = status.st_ino;
    return error;
}

int state_create(struct state_mapping *to, const char *path)
{
    int error = state_file_path(to->path, path, getpid());
    int fd = error ? error : create(to->path);
    if (fd < 0)
        return fd;
    error = map(to, fd);
    close(fd);
    if (error)
        unlink(to->path);
    return error;
}
