/* SPDX-License-Identifier: BSD-2-Clause */
/* For closes_twice.sh: closes the epoll set of the HTTP service, as a program does that closes a descriptor twice. The
 * number of that descriptor may belong to jespan when the second close comes.
 *
 * usage: closes_twice_program SOCKET TIMES
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <jespan/jespan.h>

#define DESCRIPTORS 256

static struct sockaddr_un address = {.sun_family = AF_UNIX};

static int is_epoll_set(int fd)
{
    char name[32], target[64] = "";
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    return readlink(name, target, sizeof target - 1) > 0 && strstr(target, "eventpoll");
}

/* Whether fd is the service's end of a connection. */
static int is_connection(int fd)
{
    struct sockaddr_un at = {0};
    int listens;
    socklen_t bytes = sizeof at, int_bytes = sizeof listens;
    return getsockname(fd, (struct sockaddr *)&at, &bytes) == 0 && strcmp(at.sun_path, address.sun_path) == 0
        && getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &int_bytes) == 0 && !listens;
}

static int get_answer(void)
{
    static const char request[] = "GET /healthz HTTP/1.0\r\n\r\n";
    char byte;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int answered = connect(fd, (struct sockaddr *)&address, sizeof address) == 0
        && send(fd, request, sizeof request - 1, MSG_NOSIGNAL) > 0 && recv(fd, &byte, 1, 0) == 1;
    close(fd);
    return answered;
}

/* Waits until the service has answered and closed its end: libmicrohttpd is not at work then. */
static void await_service(void)
{
    while (!get_answer())
        usleep(1000);
    for (int fd = 0; fd < DESCRIPTORS; fd++)
        while (is_connection(fd))
            usleep(1000);
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 2;
    JESPAN("work");
    snprintf(address.sun_path, sizeof address.sun_path, "%s", argv[1]);
    for (int times = atoi(argv[2]); times > 0; times--) {
        await_service();
        for (int fd = 0; fd < DESCRIPTORS; fd++)
            if (is_epoll_set(fd))
                close(fd);
    }
    return 0;
}
