/* SPDX-License-Identifier: BSD-2-Clause */
/* The state of a service that pushes, which one thread has. pusher.c has its loop, push_outcome.c what an answer of the
 * server means for it. */
#ifndef JESPAN_PUSHER_H
#define JESPAN_PUSHER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "digest.h"
#include "label_names.h"
#include "period.h"
#include "push_calls.h"
#include "push_queue.h"
#include "push_protocol.h"
#include "push_send.h"
#include "report/service.h"

#define MAX_MESSAGES 3
#define ms_to_ns(ms) ((ms) * (uint64_t)1000000)

struct pusher {
    const struct service_host *host;
    const struct push_protocol *protocol;
    struct push_settings settings;
    struct push_stats *stats;
    struct digest_shape shape;
    struct label_names names;
    void *source; /* the protocol's */
    struct push_sender sender;
    struct push_queue queue;
    struct period *period;
    struct period_stacks stacks; /* as `period`, of stacks */
    struct snapshot *snapshot; /* the next snapshot reuses its memory */
    uint32_t last_nodes;       /* number of nodes of the last digest before folding */
    uint64_t period_from_unix_ns;
    uint64_t next_period_ns;    /* this and the following times are on CLOCK_MONOTONIC */
    uint64_t first_inuse_ns, next_inuse_ns; /* when memory in use is reported, first and next */
    uint64_t not_before_ns;     /* nothing is sent until then */
    uint64_t backoff_ns;        /* 0: the last attempt succeeded */
    uint64_t stop_by_ns;        /* 0: the program goes on */
    unsigned slow;              /* number of consecutive pushes that took longer than a period */
    size_t max_samples;
    size_t max_samples_before;  /* before they were halved on suspicion. 0: they were not */
    struct sending {
        bool profiles[PUSH_N_PROFILES];
        size_t profile_bytes[PUSH_N_PROFILES], bytes, samples;
    } sending;                  /* the present request */
    struct message {
        const char *error;
        uint64_t at_ns;
    } messages[MAX_MESSAGES];   /* the last ones */
    const char *last_error;     /* these four are used while the program ends */
    char last_detail[PUSH_DETAIL_BYTES];
    bool tried_again;           /* after a connection was cut */
    bool gave_up;
};

static inline uint64_t now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static inline void add_stat(_Atomic uint64_t *stat, uint64_t n)
{
    atomic_fetch_add_explicit(stat, n, memory_order_relaxed);
}

#define SAY(p, ...) (p)->host->say((const char *const[]){(p)->protocol->name, ": ", __VA_ARGS__, NULL})

/* Acts on the result of the present request: statistics, messages, what is sent again, when, and how large. */
void pusher_act_on(struct pusher *p, const struct push_result *result);

/* Acts on a request that failed, as pusher_act_on() does, but counts no failure. */
void pusher_act_on_failure(struct pusher *p, const struct push_result *result);

/* Sends nothing for a while, and for twice as long after each further failure; not before `retry_after_s`. */
void pusher_back_off(struct pusher *p, uint64_t retry_after_s);

#endif
