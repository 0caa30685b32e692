/* SPDX-License-Identifier: BSD-2-Clause */
/* jespan's own descriptors are never 0, 1 or 2, even where the program has closed these.
 *
 * A new descriptor gets the lowest number that is free. A program that was started without descriptors 0 to 2 would
 * find ours there, and its output would go into a dump. No system call makes a descriptor with a number of our choice.
 * So we fill the holes with O_PATH descriptors while we make one. read() and write() fail with EBADF for these, as they
 * do for a closed descriptor.
 *
 * Modules use this file too, so all of it is inline. It is async-signal-safe. */
#ifndef JESPAN_DESCRIPTOR_H
#define JESPAN_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#define DESCRIPTOR_LEAST 3

struct stdio_holes {
    bool filled[DESCRIPTOR_LEAST];
};

/* Fills the holes. This function and the next one leave errno alone. */
static inline void stdio_holes_fill(struct stdio_holes *holes)
{
    int saved = errno, n_open = 0, fd;
    *holes = (struct stdio_holes){{false}};
    for (fd = 0; fd < DESCRIPTOR_LEAST; fd++)
        n_open += fcntl(fd, F_GETFD) >= 0;
    while (n_open++ < DESCRIPTOR_LEAST && (fd = open("/", O_PATH | O_CLOEXEC)) >= 0) {
        if (fd >= DESCRIPTOR_LEAST) {
            close(fd); /* the program has filled them itself */
            break;
        }
        holes->filled[fd] = true;
    }
    errno = saved;
}

/* Empties the holes again. A number that the program has since given to its own file stays open. */
static inline void stdio_holes_empty(const struct stdio_holes *holes)
{
    int saved = errno;
    for (int fd = 0; fd < DESCRIPTOR_LEAST; fd++)
        if (holes->filled[fd] && fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & O_PATH))
            close(fd);
    errno = saved;
}

/* Fills the holes for descriptors that a library opens and that cannot be lifted. It waits until no other thread fills
 * a hole, because that thread would empty it too early. It stops waiting after a fifth of a second. One thread at a
 * time, and not inside stdio_holes_fill(). */
static inline void stdio_holes_fill_alone(struct stdio_holes *holes)
{
    int saved = errno;
    for (int tries = 0; tries < 200; tries++) {
        bool others = false;
        stdio_holes_fill(holes);
        for (int fd = 0; fd < DESCRIPTOR_LEAST; fd++)
            others |= !holes->filled[fd] && fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(fd, F_GETFL) & O_PATH;
        if (!others)
            break;
        stdio_holes_empty(holes);
        usleep(1000);
    }
    errno = saved;
}

/* Takes a new descriptor, or -1. Returns it with a number above 2, or -1 and errno. The number is above 2 already,
 * unless the program closed one of 0 to 2 meanwhile. */
static inline int descriptor_lift(int fd)
{
    if (fd < 0 || fd >= DESCRIPTOR_LEAST)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, DESCRIPTOR_LEAST), saved = errno;
    close(fd);
    errno = saved;
    return high;
}

/* open(2) with O_CLOEXEC. Not by the function of that name: libraries such as libfakechroot have one that allocates, and jespan opens a
 * file while it boots. */
static inline int descriptor_open(const char *path, int flags, mode_t mode)
{
    struct stdio_holes holes;
    stdio_holes_fill(&holes);
    int fd = descriptor_lift((int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode));
    stdio_holes_empty(&holes);
    return fd;
}

/* read(2) and close(2) that are no cancellation points: malloc is none, and the program may call it under a lock. */
static inline ssize_t descriptor_read(int fd, void *to, size_t bytes)
{
    return syscall(SYS_read, fd, to, bytes);
}

static inline void descriptor_close(int fd)
{
    syscall(SYS_close, fd);
}

#endif
