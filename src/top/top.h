/* SPDX-License-Identifier: BSD-2-Clause */
/* Parts of `jespan top`: the model of what is watched, and the lines that show it. */
#ifndef JESPAN_TOP_TOP_H
#define JESPAN_TOP_TOP_H

#include <stdbool.h>
#include <stdint.h>

#include "console/text.h"
#include "snapshot/limits_outside.h"
#include "snapshot/view.h"
#include "snapshot/view_threads.h"

#define TOP_HISTORY 512 /* readings in the sparkline */
#define TOP_FILTER_BYTES 128

enum top_view { TOP_CONTEXTS, TOP_THREADS, TOP_ARENAS, TOP_LIMITS, TOP_STACKS, TOP_N_VIEWS };
enum top_sort { TOP_INUSE, TOP_GROWTH, TOP_ALLOC, TOP_OBJECTS, TOP_N_SORTS };

/* Figures of a row. Rates are bytes in a second. */
struct top_figures {
    uint64_t inuse_bytes, objects, alloc_bytes;
    int64_t growth, alloc;
};

struct top_row {
    uint32_t row; /* of the snapshot; of other views, the index of the thread or item */
    uint32_t depth;
    bool has_below, is_collapsed;
    struct top_figures figures;
    double share;         /* of a thread: CPU time; of a limit: how much of it is in use */
    int64_t free_rate;    /* of a thread */
    uint64_t bound_bytes; /* of a limit or an arena; 0: none */
    uint64_t soft_bytes, refusals, mapped_bytes;
    uint64_t peak_bytes;  /* of a context */
};

/* A row of the views of arenas, limits and stacks. Threads are in view_threads, as they come from a process. */
struct top_item {
    uint64_t key; /* names it in all readings */
    wchar_t *chars; /* its text */
    size_t n_chars;
    struct top_row row;
};

/* What a view shows that is no part of each reading. */
struct top_items {
    enum top_view view; /* TOP_CONTEXTS: nothing was read */
    struct top_item *items;
    uint32_t n, room;
    uint64_t time_ns, next_ns; /* when they were read, and when they may be read again */
    const char *none; /* why there are none */
};

/* A context, or a thread, at the reading before. */
struct top_before {
    uint32_t generation; /* of a thread: 0 */
    uint64_t inuse_bytes, alloc_bytes, free_bytes, cpu_ns;
};

struct top {
    /* What the user has chosen */
    enum top_view view;
    enum top_sort sort;
    bool tree, paused;
    char filter[TOP_FILTER_BYTES];
    /* The process, or the program that is asked over HTTP */
    char url[4096]; /* "": a process; else its address, with "/?pid=17" if one of several is chosen */
    struct top_page *page;
    pid_t pid;
    char name[16];
    struct view *process;
    struct snapshot *snapshot;
    struct view_threads threads;
    struct top_items items;
    unsigned n_lacking; /* readings in a row in which the process had no jespan */
    const char *ended; /* why there are no more readings, such as top_process_ended; NULL: there are */
    uint64_t time_ns, period_ns; /* of the last reading, and since the one before */
    /* By number of context */
    struct top_before *before;
    struct top_figures *figures; /* by row of the snapshot: alone */
    uint32_t n_before;
    struct top_before *threads_before; /* by thread id: top_thread_before() */
    uint64_t threads_time_ns, threads_period_ns; /* as time_ns and period_ns: over HTTP, threads are read less often */
    bool *collapsed;                   /* by number of context */
    uint32_t n_collapsed;
    /* Rows in the order in which they are shown */
    struct top_row *rows;
    uint32_t n_rows;
    struct top_figures all;
    uint64_t history[TOP_HISTORY], n_history;
};

/* ---- top_model.c ---- */

/* Opens a process: its number, the name of its program, or its address for HTTP. Returns NULL, or the reason in words why not. */
const char *top_open(struct top *top, const char *word);

extern const char top_process_ended[]; /* not an error */

/* Reads the process once more, if it has not ended, and arranges the rows. Returns 0 or -ENOMEM. */
int top_read(struct top *top);

/* How much a figure changed in a second, between two readings that lie so far apart. */
int64_t top_rate(uint64_t period_ns, uint64_t now, uint64_t before);

/* Takes over the threads that were read. */
void top_take_threads(struct top *top, struct view_threads *threads);

/* Where the figures of a thread at the reading before are. Threads may share a place. */
struct top_before *top_thread_before(const struct top *top, const struct view_thread *t);

/* By a clock that goes on. */
uint64_t top_now_ns(void);

/* Collapses the row or expands it. */
void top_toggle(struct top *top, uint32_t row, bool collapse);
void top_toggle_all(struct top *top, bool collapse);
void top_close(struct top *top);

/* ---- top_items.c ---- */

/* Reads the arenas, limits or stacks that the view shows; other views have none. A reading that takes long is not made again
 * at once. Returns 0 or -ENOMEM. */
int top_items_read(struct top *top);
void top_items_free(struct top_items *items);

/* Adds an item whose text is `text`. NULL: there is no memory. */
struct top_item *top_items_add(struct top_items *items, uint64_t key, const struct text *text);

/* Add the items of a view. Return 0 or -ENOMEM. top_outside.c, and top_stacks.c: those with most in use */
int top_arenas_read(struct top *top, struct top_items *items);
int top_limits_read(struct top *top, struct top_items *items);
int top_stacks_read(struct top *top, struct top_items *items);

/* The text of an arena, whose label has that value, or "". */
void top_arena_text(struct text *text, const char *name, const char *value);

/* ---- top_url.c ---- */

/* Notes the address, if the word is one. */
bool top_url_take(struct top *top, const char *word);

/* Asks for the contexts, and sets top->snapshot, top->pid and top->name. Returns NULL, or the reason in words. */
const char *top_url_read(struct top *top);

/* The same for an answer, which top_url_parse() frees at last: memory of malloc(). */
const char *top_url_parse(struct top *top, char *text, size_t bytes);

/* Writes the answer to a path into the descriptor; or into *text, which is to be freed in either case. Returns NULL, or the reason. */
const char *top_url_fetch(const struct top *top, int fd, const char *path);
const char *top_url_text(const struct top *top, const char *path, char **text, size_t *bytes);
void top_url_free(struct top_page *page);

/* ---- top_url_views.c: as top_arenas_read(); limits that are found; NULL, or the reason why there are none ---- */

int top_url_arenas(struct top *top, struct top_items *items);
int top_url_threads(struct top *top, struct top_items *items);
const char *top_url_limits(struct top *top, limits_outside_found *found, void *to);

/* ---- top_rows.c ---- */

void top_add(struct top_figures *to, const struct top_figures *more);

/* Arranges the rows. To be called after a choice has changed. Returns 0 or -ENOMEM. */
int top_arrange(struct top *top);

/* ---- top_lines.c ---- */

/* Each writes one line for a terminal of so many columns. */
void top_title(struct text *text, const struct top *top, size_t columns);
void top_sparkline(struct text *text, const struct top *top, size_t columns);
void top_headings(struct text *text, const struct top *top, size_t columns);
void top_line(struct text *text, const struct top *top, uint32_t row, size_t columns);

/* Why the view has no rows; NULL: it has some, or a filter hides them. */
const char *top_none(const struct top *top);

extern const char *const top_sort_names[TOP_N_SORTS], *const top_view_names[TOP_N_VIEWS];
extern const char top_keys[]; /* lines for people */

/* ---- top_screen.c ---- */

/* Shows the process on the terminal until the user quits. Returns the exit status. */
int top_show(struct top *top, uint64_t interval_ms);

#endif
