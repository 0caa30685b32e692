/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads of another process, also those that have ended: the figures of each thread, and its figures for each
 * context.
 *
 * The header of an object has its context, and not its thread. So it is known what a thread allocated and freed in each
 * context, but not whose objects it freed there, unless only one thread allocates in the context.
 */
#ifndef JESPAN_VIEW_THREADS_H
#define JESPAN_VIEW_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot/thread_bounds.h"
#include "snapshot/view.h"

struct view_thread {
    uint32_t block;   /* which thread block it has or had */
    uint32_t context; /* that it is in now; 0: it has ended, or the root */
    bool live;
    uint32_t lives; /* the number of threads, one after the other, that this entry stands for */
    int thread_id;  /* of the last one; 0: those without a block: at their start, and after their end */
    char name[16];  /* when jespan looked last; "": unknown */
    uint64_t alloc_objects, alloc_bytes, free_objects, free_bytes; /* by this thread */
    uint64_t busy_ns, cpu_ns;                                      /* 0 where times are not tracked */
};

/* The figures of a block's threads in a context. Memory that jespan_credit() brings counts as allocated, and memory that it takes
 * away as freed. */
struct view_cell {
    uint32_t block, context;
    uint64_t in_bytes, out_bytes;
};

struct view_threads {
    struct view_thread *threads; /* those with a block first, by block */
    uint32_t n_threads, n_blocks;
    uint64_t n_left_out; /* threads that ended so long ago that they are not kept */
    struct view_cell *cells; /* by block, and then by context */
    size_t n_cells;
    uint32_t n_as_one; /* contexts whose cells have the number 0 instead of theirs */
};

/* To be called after view_snapshot(), with the same view. Returns 0 or a negative errno. E2BIG: there are more than `most_cells`
 * cells, of 24 bytes each. */
int view_threads_read(struct view_threads *threads, struct view *view, size_t most_cells);

/* The same with the view's snapshot. If there are more cells, the contexts in which least was allocated count as one, so that the
 * bounds of what threads have in use are further apart. All else is as exact. E2BIG: there are more thread blocks than that. */
int view_threads_read_within(struct view_threads *threads, struct view *view, const struct snapshot *s, size_t most_cells);
void view_threads_free(struct view_threads *threads);

#define VIEW_MOST_CELLS ((size_t)1 << 24) /* damaged books may want any number */

/* Gives the name that a thread has now, which jespan may not have seen yet, to each that is alive. */
void view_threads_rename(struct view_threads *threads, pid_t pid);

static inline const char *view_thread_name(const struct view_thread *t)
{
    return t->thread_id == 0 ? "(no thread)" : t->name;
}

/* The block of threads that have none has nothing to tell if it counted nothing. */
static inline bool view_thread_has_figures(const struct view_thread *t)
{
    return t->live || t->alloc_objects > 0 || t->free_objects > 0 || (t->thread_id != 0 && t->lives > 0);
}

/* ---- view_shares.c ---- */

/* Returns an array with an item for each thread, to be freed; NULL: out of memory. */
struct thread_shares *view_threads_shares(const struct view_threads *threads);

#endif
