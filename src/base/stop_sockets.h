/* SPDX-License-Identifier: BSD-2-Clause */
/* A pair of sockets that tells a thread to stop, and tells whether descriptors are still the same files.
 *
 * Some programs close all descriptors that they do not know, soon after they start or when they become daemons. Their
 * next files get these numbers, and a library that still used the numbers would write into the program's files. Each
 * socket has a cookie that no other socket has while the machine runs. So this pair knows whether it is still open.
 */
#ifndef JESPAN_STOP_SOCKETS_H
#define JESPAN_STOP_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

struct stop_sockets {
    int fds[2]; /* the first becomes readable */
    uint64_t cookies[2];
};

/* Returns 0 or a negative errno. */
int stop_sockets_open(struct stop_sockets *p);

/* Whether the numbers still stand for this pair. To be asked before the descriptors are used. */
bool stop_sockets_is_whole(const struct stop_sockets *p);

/* Both leave descriptors alone that are no longer this pair. */
void stop_sockets_signal(const struct stop_sockets *p);
void stop_sockets_close(const struct stop_sockets *p);

#endif
