/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of a view. This process has one view of itself (snapshot_own.c); view.c makes views of others. */
#ifndef JESPAN_VIEW_PARTS_H
#define JESPAN_VIEW_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "snapshot/books.h"
#include "snapshot/reading.h"
#include "snapshot/snapshot.h"
#include "snapshot/space.h"

struct view;

/* The figures of a context that earlier snapshots of the view showed. */
struct seen {
    uint32_t life;
    /* Live memory of closed spans. While a span is open, its memory cannot be told from that of closed spans. Then this
     * is the last value from when none was open, at most the live bytes. */
    uint64_t outlived_objects, outlived_bytes;
    uint64_t exits, closed_time; /* exits then, and in ticks: when a change of them was noticed */
    struct shown {
        uint64_t wall, wall_inclusive, busy, cpu, cpu_user, cpu_system, idle, idle_inclusive; /* in ns: the highest so far */
    } shown;
};

/* How figures are read: where they are, or out of another process. Errors are negative errnos. */
struct view_reader {
    /* Memory for a reading of contexts below `end`. */
    size_t (*bytes)(struct view *view, uint32_t end);
    /* As reading_begin() and so on, in reading.h. */
    int (*begin)(struct view *view, struct reading **r, void *memory, size_t bytes, uint32_t end);
    int (*chunk)(struct reading *r, uint32_t first, struct totals sums[READING_CHUNK]);
    uint64_t (*end)(struct reading *r, void (*add)(void *to, uint32_t context, uint32_t bytes), void *to);
    /* A site whose strings can be read here as long as there is the view. NULL: *error says why. */
    const struct site *(*site)(struct view *view, const struct site *there, int *error);
    /* The frames of stacks, which can be read here as long as there is the view, their end, and a copy of the figures. */
    int (*frames)(struct view *view, const struct stack_frame **frames, uint32_t *n_frames, struct stacks_stats *stats);
    /* Time there. */
    uint64_t (*ticks)(struct view *view);
    uint64_t (*scale)(struct view *view);
    /* Waits before another try to find recycling at rest. Returns true where nothing is recycled until end_wait(). */
    bool (*wait)(unsigned tries);
    void (*end_wait)(void);
};

struct view {
    const struct view_reader *reader;
    struct space space;
    struct books books; /* addresses there */
    uint32_t pid;
    uint64_t epoch; /* of the last snapshot */
    bool times, cpu_times; /* they are tracked there */
    uint64_t start_ns;     /* by CLOCK_BOOTTIME: when tracking began there */
    struct seen *seen;     /* by id */
    uint32_t seen_room;
    struct shown retired_shown, all_shown;
    struct view_outside *outside; /* view.c; NULL: this process */
};

/* Returns the figures that were shown of a context; `spare` if none were, or without memory. */
struct seen *view_seen(struct view *view, uint32_t id, uint32_t life, struct seen *spare);

/* As view_snapshot(). Returns 0 or a negative errno. On success, *old is the new one. */
int view_take(struct view *view, struct snapshot **old);

#endif
