/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes and maps the state file. A file of this name stays as it is unless a process that has ended left it there. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

static int why_exists(int fd)
{
    struct stat status;
    Elf64_Ehdr header;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_uid != geteuid() || status.st_nlink != 1 ||
        pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header ||
        memcmp(header.e_ident + STATE_MAGIC_AT, STATE_MAGIC, sizeof STATE_MAGIC - 1) != 0)
        return -EEXIST;
    pid_t pid = (pid_t)header.e_flags;
    return pid > 0 && pid != getpid() && (!kill(pid, 0) || errno == EPERM) ? -EBUSY : 0;
}

/* The file of a process that has ended, or of the program that this process executed before, makes place. */
static int make_place(const char *path)
{
    int fd = descriptor_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);
    if (fd < 0)
        return errno == ENOENT ? 0 : -EEXIST;
    int error = why_exists(fd);
    close(fd);
    if (!error && unlink(path) && errno != ENOENT)
        error = -errno;
    return error;
}

static int create(const char *path)
{
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW;
    int fd = descriptor_open(path, flags, 0600);
    if (fd >= 0 || errno != EEXIST)
        return fd >= 0 ? fd : -errno;
    int error = make_place(path);
    if (error)
        return error;
    fd = descriptor_open(path, flags, 0600);
    return fd >= 0 ? fd : -errno;
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
