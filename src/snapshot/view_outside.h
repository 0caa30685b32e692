/* SPDX-License-Identifier: BSD-2-Clause */
/* The state that a view of another process keeps between snapshots, for view.c, view_find.c and reading_outside.c. */
#ifndef JESPAN_VIEW_OUTSIDE_H
#define JESPAN_VIEW_OUTSIDE_H

#include "heap/classes.h"
#include "heap/sums.h"
#include "snapshot/reading_add.h"
#include "snapshot/view_parts.h"

/* The copied parts of a thread block there. */
struct outside_thread {
    uint64_t address, chunks; /* there */
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

struct view_outside {
    uint64_t books_at; /* the address of the books there */
    uint64_t start_ticks;
    struct clock_state clock;
    uint32_t class_bytes[CLASSES_MAX];
    uint16_t magazine_max[CLASSES_MAX];
    struct thread copy; /* the parts that are read, of one thread after the other */
    struct outside_thread *threads;
    uint32_t n_threads, room;
    uint64_t *directories; /* by thread: the addresses of its chunks */
    size_t directories_bytes;
    uint32_t n_chunks; /* of each thread */
    struct counters_chunk *slots;
    struct outside_site *sites; /* a hash table by address */
    uint32_t sites_room, n_sites;
    struct outside_text *texts; /* blocks of memory for sites */
    struct stack_frame *frames; /* a copy; the first `n_frames` */
    uint32_t n_frames;
    size_t frames_bytes;
};

/* ---- view_find.c ---- */

/* Finds the books in a process: their address, and a copy. Returns 0 or an error of view_open(). */
int view_find_books(struct space *space, struct books *copy, uint64_t *at);

/* ---- reading_outside.c: for struct view_reader ---- */

size_t outside_bytes(struct view *view, uint32_t end);
int outside_begin(struct view *view, struct reading **r, void *memory, size_t bytes, uint32_t end);
int outside_chunk(struct reading *r, uint32_t first, struct totals sums[READING_CHUNK]);
uint64_t outside_end(struct reading *r, void (*add)(void *to, uint32_t context, uint32_t bytes), void *to);
uint64_t outside_ticks(struct view *view);
uint64_t outside_scale(struct view *view);
void outside_free(struct view_outside *o);

/* The figures of one thread, by its index in `threads`, as read after the last snapshot began. Times are in ticks. */
int outside_chunk_of(struct view *view, uint32_t thread, uint32_t first, struct totals sums[READING_CHUNK]);

/* ---- owners_outside.c ---- */

/* By number of context, below *n: the context whose row has its figures. For a stack or a period its parent. To be freed. */
int outside_owners(struct view *view, uint32_t **owners, uint32_t *n);

/* ---- sites_outside.c ---- */

const struct site *outside_find_site(struct view *view, const struct site *there, int *error);
void outside_free_sites(struct view_outside *o);


/* ---- frames_outside.c ---- */

int outside_frames(struct view *view, const struct stack_frame **frames, uint32_t *n_frames, struct stacks_stats *stats);
void outside_free_frames(struct view_outside *o);

#endif
