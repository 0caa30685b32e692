/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue of periods to push, oldest first, bounded in bytes and age.
 *
 * No figure is lost: a period that is too much, too old or refused is merged into the period after it, which then
 * covers the time of both. Profiles that the server has accepted already are left out. A period that may be at the
 * server without an answer is not changed and keeps its ID until it is too old: a server that compares IDs can
 * recognise it. So the queue needs at most its bound and three periods.
 */
#ifndef JESPAN_PUSH_QUEUE_H
#define JESPAN_PUSH_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "digest.h"
#include "pprof.h"

/* ---- The profiles that are pushed for each period. To add one, add a row in push_queue.c ---- */

#define PUSH_N_PROFILES 3
#define PUSH_MEMORY 0 /* the index of the profile with memory in use */

struct push_profile {
    const char *name; /* Pyroscope's: the series' __name__ */
    const struct pprof_kind *kind;
    const struct pprof_kind *flows; /* the same without memory in use, for periods that do not report it */
    enum digest_figures figures; /* that it contains */
    uint64_t track_time;         /* the least value of track_time that gives these figures */
};

extern const struct push_profile push_profiles[PUSH_N_PROFILES];

/* ---- The queue ---- */

struct waiting {
    struct waiting *next;
    struct digest *digest;
    uint64_t made_ns;      /* on CLOCK_MONOTONIC */
    unsigned char id[16];  /* random; the same for each attempt */
    bool accepted[PUSH_N_PROFILES];
    bool inuse;   /* it reports memory in use */
    bool sent;    /* the server may have it */
    bool refused; /* must not be sent unchanged */
};

struct push_queue {
    struct waiting *first, *last;
    struct waiting *spare; /* for the next period */
    size_t n, bytes;
    size_t max_bytes;
    uint64_t max_age_ns;
    uint32_t max_nodes; /* of merged digests. 0: no limit */
    uint64_t merged; /* number of merged periods */
    uint64_t folded; /* number of nodes folded by merging */
};

/* Reserves memory for the next period. False: no memory. */
bool push_queue_reserve(struct push_queue *q);

/* Adds a digest and owns it. False: no memory, and the caller still owns it. */
bool push_queue_add(struct push_queue *q, struct digest *digest, uint64_t now_ns);

/* Merges periods beyond the bound of bytes, but not a first one that was sent. Merges periods that are too old, but
 * not the first one if `busy`: it is being sent. */
void push_queue_limit(struct push_queue *q, uint64_t now_ns, bool busy);

/* Merges all periods, except a first one that is being sent (`busy`) or may be at the server. */
void push_queue_gather(struct push_queue *q, bool busy);

/* Gives the first period another ID, because its contents change. */
void push_queue_rename(struct push_queue *q);

/* The server will never accept the first period. It is merged into the next one, now or when that is added. */
void push_queue_refuse(struct push_queue *q);

/* The server has accepted all of the first period. */
void push_queue_remove(struct push_queue *q);

/* Returns the first period if it may be sent, or NULL. */
struct waiting *push_queue_first(const struct push_queue *q);

void push_queue_free(struct push_queue *q);

#endif
