/* SPDX-License-Identifier: BSD-2-Clause */
/* What asks for a dump of a process (dump_on): events, peaks, and memory that is nearly used up; and the time between two
 * dumps. A process watches itself on a thread (dump_watch.c), or its sidecar does (src/sidecar/event_dumps.c).
 *
 * One thread uses all watches, as memory_bounds.h. Nothing here allocates.
 */
#ifndef JESPAN_EVENT_WATCH_H
#define JESPAN_EVENT_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/dump_on.h"
#include "base/memory_bounds.h"
#include "conf/conf.h"

struct event_watch_calls {
    void (*dump)(void *arg, enum dump_reason reason, const char *why); /* `why`: a message to print first. NULL: none */
    void (*done)(void *arg, enum dump_reason reason, uint64_t quiet_until_ns); /* as dump_on_done() */
    uint64_t (*mapped_bytes)(void *arg); /* of the heap */
};

struct event_watch {
    const struct event_watch_calls *calls;
    void *arg;
    uint32_t wanted;   /* DUMP_BIT() of each configured reason */
    uint32_t happened; /* events that are not handled yet. The caller adds to it */
    uint64_t free_again_ns[DUMP_N_EVENTS]; /* when the cooldown of that reason ends */
    uint64_t soon_again_ns;                /* when the cooldown of a forecast or of memory pressure ends */
    struct bounds bounds;
    struct pace paces[BOUNDS_MAX];
    struct pressure pressure;
    uint64_t find_next_ns, pressure_next_ns, peak_bytes;
    bool is_pressed; /* a dump was written for memory pressure, and pressure is not below half the limit since */
};

/* `pid` 0: the calling process. */
void event_watch_begin(struct event_watch *w, const struct event_watch_calls *calls, void *arg, uint32_t wanted, pid_t pid);

/* Does what is due. Returns when to look again, in nanoseconds on the monotonic clock. */
uint64_t event_watch_look(struct event_watch *w);

/* Handles events past their cooldown; keeps the rest. Returns when the next cooldown ends. */
uint64_t event_watch_handle(struct event_watch *w);

/* Handles all events: the process ends before their cooldown does. */
void event_watch_handle_last(struct event_watch *w);

/* Closes files. */
void event_watch_end(struct event_watch *w);

/* Reads a list of reasons, fewer than CONF_STRING_BYTES bytes. Returns the DUMP_BIT() of each. `wrong` may be NULL. */
uint32_t event_watch_read(const char *list, conf_wrong_item *wrong, const char *key);

/* The reasons of the configuration, with that of on_limit. Wrong ones are named on stderr if it `says` so. */
uint32_t event_watch_wanted(bool says);

#endif
