/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors of our own: none is 0, 1 or 2, also where the program has closed these.
 *
 * A new descriptor gets the lowest number that is free. A program that was started without descriptors 0 to 2 would find
 * ours there, and what it writes to its closed standard output would land in a dump. No system call makes a descriptor
 * with a number of our choice, so the holes are filled while one is made: with O_PATH descriptors, for which read() and
 * write() fail with EBADF, as they do for a closed descriptor.
 *
 * All is inline, as modules use it too. It is async-signal-safe. */
#ifndef JESPAN_DESCRIPTOR_H
#define JESPAN_DESCRIPTOR_H

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/types.h>
#include <unistd.h>

#define DESCRIPTOR_LEAST 3

struct stdio_holes {
    bool filled[DESCRIPTOR_LEAST];
};

/* Fills the holes. Leaves errno alone, as does the next. */
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

/* Empties them again. A number that the program has given to a file of its own meanwhile stays as it is. */
static inline void stdio_holes_empty(const struct stdio_holes *holes)
{
    int saved = errno;
    for (int fd = 0; fd < DESCRIPTOR_LEAST; fd++)
        if (holes->filled[fd] && fcntl(fd, F_GETFD) == FD_CLOEXEC && (fcntl(fd, F_GETFL) & O_PATH))
            close(fd);
    errno = saved;
}

/* The same for what libraries open, which stays where it is: first waits until no other thread fills a hole, as it would empty
 * that too early. Gives up waiting after a fifth of a second. One thread at a time, and not inside stdio_holes_fill(). */
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

/* Takes a descriptor that was just made, or -1, and returns it with a number above 2, or -1 and errno. It has such a
 * number already, unless the program closed one of 0 to 2 meanwhile. */
static inline int descriptor_lift(int fd)
{
    if (fd < 0 || fd >= DESCRIPTOR_LEAST)
        return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, DESCRIPTOR_LEAST), saved = errno;
    close(fd);
    errno = saved;
    return high;
}

/* open(2) with O_CLOEXEC. */
static inline int descriptor_open(const char *path, int flags, mode_t mode)
{
    struct stdio_holes holes;
    stdio_holes_fill(&holes);
    int fd = descriptor_lift(open(path, flags | O_CLOEXEC, mode));
    stdio_holes_empty(&holes);
    return fd;
}

#endif
