/* SPDX-License-Identifier: BSD-2-Clause */
/* Periods that wait to be pushed, oldest first, within bounds of bytes and age.
 *
 * Nothing is thrown away: a period that must go, or that the server refused, is merged into the one after it, which
 * then covers the time of both. What the server has accepted of it already is left out of that. A period that may be at the
 * server although no answer came stays as it is, under its ID, until it is too old: a server that knew IDs could tell. So the
 * queue never needs more than its bound and three periods.
 */
#ifndef JESPAN_PYROSCOPE_QUEUE_H
#define JESPAN_PYROSCOPE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest.h"
#include "pyroscope_profile.h"

struct waiting {
    struct waiting *next;
    struct digest *digest;
    uint64_t made_ns;      /* on CLOCK_MONOTONIC */
    unsigned char id[16];  /* random: names what is sent of it, however often */
    bool accepted[PYROSCOPE_N_PROFILES];
    bool inuse;   /* it tells of memory in use */
    bool sent;    /* the server may have it */
    bool refused; /* not to be sent as it is */
};

struct pyroscope_queue {
    struct waiting *first, *last;
    struct waiting *spare; /* for the next one */
    size_t n, bytes;
    size_t max_bytes;
    uint64_t max_age_ns;
    uint32_t max_nodes; /* of what was merged; 0: any number */
    uint64_t merged; /* how many periods lost their own time */
    uint64_t folded; /* how many nodes then did */
};

/* The next period can be added. False: there is no memory for it. */
bool pyroscope_queue_reserve(struct pyroscope_queue *q);

/* Takes the digest over. False when there is no memory, and none was reserved: it stays the caller's. */
bool pyroscope_queue_add(struct pyroscope_queue *q, struct digest *digest, uint64_t now_ns);

/* Merges what is too much, but for a first that was sent, and what is too old, but for the first if `busy`: it is being
 * sent. */
void pyroscope_queue_limit(struct pyroscope_queue *q, uint64_t now_ns, bool busy);

/* Merges all but what is being sent, if `busy`, or may be at the server. */
void pyroscope_queue_gather(struct pyroscope_queue *q, bool busy);

/* The first gets another ID, as it is not going to be sent as it was. */
void pyroscope_queue_rename(struct pyroscope_queue *q);

/* The server will never take the first as it is: it becomes part of the next, also if that comes later. */
void pyroscope_queue_refuse(struct pyroscope_queue *q);

/* The server has all of the first. */
void pyroscope_queue_remove(struct pyroscope_queue *q);

/* The first, if it may be sent. */
struct waiting *pyroscope_queue_first(const struct pyroscope_queue *q);

void pyroscope_queue_free(struct pyroscope_queue *q);

#endif
