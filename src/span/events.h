/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the events of threads into their rings. timing.c calls it on the slow side of enter and exit, which they
 * always take while events are recorded. So events cost nothing while they are not recorded. */
#ifndef JESPAN_EVENTS_H
#define JESPAN_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

extern struct event_rings event_rings;

/* In a forked child: forgets what the parent recorded. */
void events_after_fork(void);

/* ---- Rings ---- */

/* The events of a thread: each enter and exit, in a ring that the thread overwrites.
 *
 * A ring has one writer, its thread, which never waits: it stores the record, then the new head with release. A reader,
 * of this process or of another one, copies records and then reads the head again. Records that the writer may have
 * overwritten meanwhile are lost, and the heads tell how many. Rings are never unmapped while the process lives, except
 * by their thread in a forked child. */

enum event_kind {
    EVENT_SWITCH, /* time passes for another context from now on: `what` is its number and its incarnation */
    EVENT_THREAD, /* a thread begins, outside of spans: its number and its id in the system. Two names follow */
    EVENT_NAME,   /* eight bytes of its name */
    EVENT_END,    /* the thread ends: time passes for nothing */
};

#define EVENT_KIND_SHIFT 60 /* ticks are below that */

struct event_record {
    _Atomic uint64_t when; /* ticks, and the kind above them */
    _Atomic uint64_t what; /* two numbers of 32 bits, the first one low */
};

#define EVENT_NAME_WORDS 2

struct event_ring {
    _Atomic uint64_t head;       /* records ever written */
    _Atomic uint64_t owner_head; /* where the last EVENT_THREAD is */
    struct event_record owner[1 + EVENT_NAME_WORDS]; /* what is there, since it may be overwritten */
    uint32_t n_records; /* a power of two */
    uint32_t life;      /* event_life when it was made */
    bool is_inside;     /* the thread is in work of jespan's own */
    struct event_record records[];
};

/* All rings of the process. A ring is NULL while it is being made. */
#define EVENT_RINGS_MAX 1024
struct event_rings {
    _Atomic uint32_t n;
    _Atomic uint64_t without; /* events of threads for which there was no ring */
    _Atomic(struct event_ring *) all[EVENT_RINGS_MAX];
};

#endif
