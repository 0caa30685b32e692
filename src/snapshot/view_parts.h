/* SPDX-License-Identifier: BSD-2-Clause */
/* The parts of a view. This process has one view of itself (snapshot_own.c); view.c makes views of others. */
#ifndef JESPAN_VIEW_PARTS_H
#define JESPAN_VIEW_PARTS_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/classes.h"
#include "heap/magazine.h"
#include "heap/sums.h"
#include "snapshot/books.h"
#include "snapshot/reading.h"
#include "snapshot/snapshot.h"
#include "snapshot/space.h"
#include "snapshot/sums_kept.h"

struct view;

/* The figures of a context that earlier snapshots of the view showed. */
struct seen {
    uint32_t life;
    uint64_t exits;
    uint64_t wall_rest; /* in ticks: what its counters add to the wall time of the context */
    struct shown {
        uint64_t busy, cpu, cpu_user, cpu_system, idle_inclusive, lifetimes; /* in ns: the highest so far */
    } shown;
    /* Live memory of closed spans. While a span is open, its memory cannot be told from that of closed spans. Then this
     * is the last value from when none was open, at most the live bytes. */
    uint64_t outlived_objects, outlived_bytes;
};

/* What the times of a row that pass by themselves are computed from. In one cache line: snapshot_again.c does so for each open span. */
struct passing {
    uint32_t handles;        /* of the context. Their highest bit: wall_rest is not 0 */
    uint64_t wall;           /* of the context, in ticks */
    uint64_t busy, recycled; /* in ns: the row's busy time before it was raised to what was shown; wall time of recycled children */
    uint64_t closed_time;    /* in ticks; of blocks, when a change of `exits` was noticed */
    struct shown_walls {
        uint64_t wall, idle, wall_inclusive; /* as in struct shown */
    } shown;
};
#define PASSING_HAS_REST (1u << 31)

/* What never changes in the life of a context. */
struct known {
    uint32_t life;
    uint32_t label_bytes;
    uint32_t text; /* the place of the labels' text in `texts`; 0: it is not there */
    uint16_t label_count;
    uint8_t kind; /* enum context_kind, or KIND_DAMAGED */
};
#define KIND_DAMAGED 255
#define LABEL_ALIGN 8u /* of texts */

/* How figures are read: where they are, or out of another process. Errors are negative errnos. */
struct view_reader {
    /* Memory for a reading of contexts below `end`. */
    size_t (*bytes)(struct view *view, uint32_t end);
    /* As reading_begin() and so on, in reading.h. */
    int (*begin)(struct view *view, struct reading **r, void *memory, size_t bytes, uint32_t end);
    int (*chunk)(struct reading *r, uint32_t first, struct totals sums[READING_CHUNK]);
    /* The sum of what all threads say of a chunk by counters_moved(), where sums are kept. */
    uint64_t (*moved)(const struct reading *r, uint32_t chunk);
    uint64_t (*end)(struct reading *r, void (*add)(void *to, uint32_t context, uint32_t bytes), void *to);
    /* A site whose strings can be read here as long as there is the view. NULL: *error says why. */
    const struct site *(*site)(struct view *view, const struct site *there, int *error);
    /* The frames of stacks, which can be read here as long as there is the view, their end, and a copy of the figures. */
    int (*frames)(struct view *view, const struct stack_frame **frames, uint32_t *n_frames, struct stacks_stats *stats);
    /* The same of the table of code, to be read after the frames. */
    int (*codes)(struct view *view, const struct code **table, uint32_t *n);
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
    bool lifetimes, times, cpu_times, cpu_parts; /* they are tracked there; with parts of the user and the system */
    uint64_t start_ns;     /* by CLOCK_BOOTTIME: when tracking began there */
    uint64_t core_age_ns;  /* of a core: how long the process had been tracked when it was written */
    struct seen *seen;     /* by id */
    struct passing *passing; /* by id */
    uint32_t seen_room, passing_room, known_room;
    struct known *known; /* by id */
    char *texts;         /* of labels */
    size_t texts_used, texts_bytes;
    struct kept_chunk *kept; /* sums_kept.h; NULL: none */
    uint32_t kept_room;
    uint64_t kept_number; /* of the array `kept`; no other one of this program has it */
    struct shown retired_shown, all_shown;
    struct shown_walls retired_walls, all_walls;
    struct view_outside *outside; /* view.c; NULL: this process */
};

/* ---- snapshot_known.c ---- */

/* Makes room for what is remembered of contexts below `end`. Without memory, contexts beyond it are as if seen for the first
 * time. view_forget() is for a view that ends. */
void view_grow(struct view *view, uint32_t end);
void view_forget(struct view *view);

/* Returns the figures that were shown of a context; `spare` if none were, or without memory. */
struct seen *view_seen(struct view *view, uint32_t id, uint32_t life, struct seen *spare);
struct passing *view_passing(struct view *view, uint32_t id, struct passing *spare); /* after view_seen() */

/* Returns what is known of a context in that life, or NULL; and keeps it. */
struct known *view_known(struct view *view, uint32_t id, uint32_t life);
void view_know(struct view *view, uint32_t id, const struct known *known);

/* Returns the text of its labels, or NULL; and keeps it, if there is memory. `bytes` is a multiple of LABEL_ALIGN. */
const char *view_text(const struct view *view, const struct known *known);
void view_keep_text(struct view *view, struct known *known, const char *text, size_t bytes);

/* Drops all texts where most of the memory is of contexts that are gone. Those that there are take `needed` bytes. */
void view_tidy_texts(struct view *view, size_t needed);

/* ---- snapshot.c ---- */

/* As view_snapshot(). Returns 0 or a negative errno. On success, *old is the new one. */
int view_take(struct view *view, struct snapshot **old);

/* ---- A view of another process: the state that it keeps between snapshots ---- */

/* The copied parts of a thread block there. */
struct outside_thread {
    uint64_t address, chunks, moved; /* there */
    uint32_t sequence;
    int n_freed;
    struct freed freed[FREE_BUFFER_MAX];
    uint64_t magazine_bytes;
    struct cpu_reading cpu; /* the last one */
    uint64_t cpu_now;       /* in ticks; 0: not read yet */
};

/* Chunks of counters are copied some at a time. */
#define OUTSIDE_SLOTS 64

struct outside_site {
    uint64_t address; /* there; 0: the place is free */
    const struct site *site;
};

/* The figures of all rows of a snapshot with the rows below them: names_outside_contexts.c. `sums` NULL: none. */
struct inclusive_sums {
    const struct snapshot_row *rows;
    uint64_t epoch;
    uint32_t n_rows;
    struct totals *sums;
};

struct view_outside {
    uint64_t books_at; /* the address of the books there */
    uint64_t start_ticks;
    struct clock_state clock;
    uint64_t scale; /* measured here over at least CLOCK_LONGEST_NS, so that it stays; 0: not yet */
    uint32_t class_bytes[CLASSES_MAX];
    uint16_t magazine_max[CLASSES_MAX];
    struct magazine_bottoms magazine_bottoms;
    struct thread copy; /* the parts that are read, of one thread after the other */
    struct outside_thread *threads;
    uint32_t n_threads, room;
    uint64_t *directories; /* by thread: the addresses of its chunks */
    uint64_t *moved;       /* by chunk, where sums are kept; in the same memory */
    size_t directories_bytes;
    uint32_t n_chunks; /* of each thread; 0: there is no reading, so there are no directories */
    struct counters_chunk *slots;
    struct outside_site *sites; /* a hash table by address */
    uint32_t sites_room, n_sites;
    struct outside_text *texts; /* chunks of memory for sites */
    struct stack_frame *frames; /* a copy; the first `n_frames` */
    uint32_t n_frames;
    size_t frames_bytes;
    struct code *codes; /* a copy, with room for CODES_MOST */
    struct inclusive_sums inclusive;
    struct named_threads *named_threads; /* names_outside_threads.c; NULL: not read since the last snapshot */
};

/* ---- view_find.c ---- */

/* Finds the books in a process: their address, and a copy. Returns 0 or an error of view_open(). */
int view_find_books(struct space *space, struct books *copy, uint64_t *at);

/* Why /proc has no entry for a process: an error of view_open(). The process may exist, as with hidepid=invisible. */
int view_why_no_entry(pid_t pid);

/* ---- reading_outside.c: for struct view_reader ---- */

size_t outside_bytes(struct view *view, uint32_t end);
int outside_begin(struct view *view, struct reading **r, void *memory, size_t bytes, uint32_t end);
int outside_chunk(struct reading *r, uint32_t first, struct totals sums[READING_CHUNK]);
uint64_t outside_moved(const struct reading *r, uint32_t chunk);
uint64_t outside_end(struct reading *r, void (*add)(void *to, uint32_t context, uint32_t bytes), void *to);
uint64_t outside_ticks(struct view *view);
uint64_t outside_scale(struct view *view);
void outside_free(struct view_outside *o);

/* The figures of one thread, by its index in `threads`, as read after the last snapshot began. Times are in ticks. */
int outside_chunk_of(struct view *view, uint32_t thread, uint32_t first, struct totals sums[READING_CHUNK]);

/* ---- threads_outside.c ---- */

/* Reads the blocks of all threads. Returns 0 or a negative errno. */
int outside_read_threads(struct view *view);

/* Copies free_buffer_sequence of the thread at that address. */
int outside_copy_sequence(struct view *view, uint64_t address, uint32_t *sequence);

/* The number of objects in a magazine of the thread at that address, from a copy of its tops. If there are any, *bottom becomes
 * where its bottom is in struct thread. */
uint32_t outside_magazine_objects(const struct view_outside *o, uint64_t thread, const struct thread *copy, unsigned class,
                                  size_t *bottom);

/* ---- sites_outside.c: sites, owners, frames ---- */

/* By number of context, below *n: the context whose row has its figures. For a stack or a period its parent. To be freed. */
int outside_owners(struct view *view, uint32_t **owners, uint32_t *n);

const struct site *outside_find_site(struct view *view, const struct site *there, int *error);
void outside_free_sites(struct view_outside *o);

int outside_frames(struct view *view, const struct stack_frame **frames, uint32_t *n_frames, struct stacks_stats *stats);
void outside_free_frames(struct view_outside *o);
int outside_codes(struct view *view, const struct code **table, uint32_t *n);

#endif
