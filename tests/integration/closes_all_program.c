/* SPDX-License-Identifier: BSD-2-Clause */
/* For closes_all.sh: closes all descriptors that it does not know, as daemons do. It opens files of its own under the
 * freed numbers, and says at its end whether these files are as it left them.
 *
 * usage: closes_all_program DIRECTORY MILLISECONDS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <jespan/jespan.h>

#define FILES 40

static void fail(const char *what, int i)
{
    fprintf(stderr, "%s %d\n", what, i);
    exit(1);
}

/* Files and sockets with something to read, so that a stranger's read would take it. */
static void open_own(const char *directory, FILE *files[FILES], int sockets[FILES][2])
{
    char path[4096];
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%d", directory, i);
        files[i] = fopen(path, "w+");
        if (files[i] == NULL || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets[i]) || send(sockets[i][1], "own", 3, 0) != 3)
            fail("open", i);
    }
}

static void check_own(FILE *files[FILES], int sockets[FILES][2])
{
    char text[16];
    for (int i = 0; i < FILES; i++) {
        if (fseek(files[i], 0, SEEK_END) || ftell(files[i]) != 0)
            fail("somebody wrote into file", i);
        if (recv(sockets[i][0], text, sizeof text, MSG_DONTWAIT) != 3 || memcmp(text, "own", 3) != 0)
            fail("somebody read from socket", i);
        if (recv(sockets[i][0], text, sizeof text, MSG_DONTWAIT) >= 0)
            fail("somebody closed or wrote into socket", i);
    }
}

int main(int argc, char **argv)
{
    static FILE *files[FILES];
    static int sockets[FILES][2];
    if (argc != 3)
        return 2;
    usleep(1000u * (unsigned)atoi(argv[2])); /* a request may be under way */
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    open_own(argv[1], files, sockets);
    for (int i = 0; i < 20; i++) {
        JESPAN("work");
        free(malloc(1000));
        usleep(50000);
    }
    check_own(files, sockets);
    puts("own");
    return 0;
}
