/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the rings of events of a process: this one, or another. The process is not asked, stopped or changed. Whatever it
 * has in its memory, the reader returns an error or events, and never crashes.
 */
#ifndef JESPAN_EVENT_READER_H
#define JESPAN_EVENT_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "span/events.h"

/* A thread that has entered spans. `number` is 1 for the main thread; others count on as they enter their first one. */
struct event_thread {
    uint32_t number;
    int32_t id;
    char name[EVENT_NAME_WORDS * 8 + 1];
};

/* Times are in nanoseconds since tracking began in the process. */
struct event {
    enum event_kind kind; /* EVENT_THREAD, EVENT_SWITCH or EVENT_END */
    uint64_t ns;
    uint32_t context, generation; /* of EVENT_SWITCH, as in struct snapshot_row */
};

/* The receiver of the events. `ring` is below EVENT_RINGS_MAX. Events of a ring come in their order, after an
 * EVENT_THREAD. */
struct event_sink {
    void (*event)(struct event_sink *sink, uint32_t ring, const struct event_thread *thread, const struct event *event);
    /* `n` events of the ring were overwritten before they were read. The next event of the ring is one that was not. */
    void (*lost)(struct event_sink *sink, uint32_t ring, uint64_t n);
    uint64_t now_ns;    /* set before the first call: what came later may be missing */
    uint64_t without;   /* set: events of threads that got no ring, so far */
    bool is_filling;    /* set: a ring was a quarter full. More should be read soon */
};

struct event_reader;

/* Returns NULL when out of memory. */
struct event_reader *event_reader_make(void);
void event_reader_free(struct event_reader *r);

/* Where the rings are, and how ticks become time. */
struct space;
struct event_source {
    struct space *space;
    uint64_t rings_at;    /* the address of struct event_rings there */
    uint64_t start_ticks; /* when tracking began */
    uint64_t now_ticks, scale;
};

/* Gives all new events to the sink. Returns 0 or a negative errno: those of space_copy(), EBADMSG, ENOMEM. */
int event_reader_read(struct event_reader *r, const struct event_source *from, struct event_sink *sink);

#endif
