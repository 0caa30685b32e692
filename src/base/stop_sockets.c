/* SPDX-License-Identifier: BSD-2-Clause */
/* A pair of sockets that tells a thread to stop. */
#include "base/stop_sockets.h"

#include <errno.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor.h"

/* Returns 0 where fd is no socket, or the kernel is older than 4.12 and has no cookies. */
static uint64_t cookie_of(int fd)
{
    uint64_t cookie = 0;
    socklen_t bytes = sizeof cookie;
    return getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &bytes) ? 0 : cookie;
}

static bool is_ours(const struct stop_sockets *p, int i)
{
    return cookie_of(p->fds[i]) == p->cookies[i];
}

static int make_pair(int fds[2])
{
    struct stdio_holes holes;
    stdio_holes_fill(&holes);
    int error = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) ? -errno : 0;
    for (int i = 0; i < 2 && !error; i++) {
        fds[i] = descriptor_lift(fds[i]);
        if (fds[i] < 0) {
            error = -errno;
            close(fds[!i]);
        }
    }
    stdio_holes_empty(&holes);
    return error;
}

int stop_sockets_open(struct stop_sockets *p)
{
    int fds[2], error = make_pair(fds);
    for (int i = 0; i < 2 && !error; i++) {
        p->fds[i] = fds[i];
        p->cookies[i] = cookie_of(fds[i]);
    }
    return error;
}

bool stop_sockets_is_whole(const struct stop_sockets *p)
{
    return is_ours(p, 0) && is_ours(p, 1);
}

void stop_sockets_signal(const struct stop_sockets *p)
{
    if (is_ours(p, 1))
        shutdown(p->fds[1], SHUT_WR);
}

void stop_sockets_close(const struct stop_sockets *p)
{
    for (int i = 0; i < 2; i++)
        if (is_ours(p, i))
            close(p->fds[i]);
}
