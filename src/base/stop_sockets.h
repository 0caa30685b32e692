/* SPDX-License-Identifier: BSD-2-Clause */
/* A pair of sockets by which a thread learns that it is to stop, and whether descriptors are still what they were.
 *
 * Some programs close all descriptors that they do not know, soon after they start or as they become daemons; their next
 * files get these numbers. Who goes on using the numbers then writes into the program's files. A socket has a cookie, which
 * no other has while the machine runs: so this pair can tell.
 */
#ifndef JESPAN_STOP_PAIR_H
#define JESPAN_STOP_PAIR_H

#include <stdbool.h>
#include <stdint.h>

struct stop_sockets {
    int fds[2]; /* the first becomes readable */
    uint64_t cookies[2];
};

/* Returns 0 or a negative errno. */
int stop_sockets_open(struct stop_sockets *p);

/* Whether the numbers still stand for this pair. Asked before anything is done to them. */
bool stop_sockets_is_whole(const struct stop_sockets *p);

/* Both do nothing to what is not theirs. */
void stop_sockets_signal(const struct stop_sockets *p);
void stop_sockets_close(const struct stop_sockets *p);

#endif
