/* SPDX-License-Identifier: BSD-2-Clause */
/* How events become files: contexts with their paths, pieces of text, files, and the two formats. */
#ifndef JESPAN_EVENTS_OUT_H
#define JESPAN_EVENTS_OUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "report/service.h"
#include "snapshot/event_reader.h"
#include "snapshot/snapshot.h"

/* ---- events_text.c: pieces of text. A function writes at `to`, at most to `end`, and returns where the text ends ---- */

char *events_text(char *to, const char *end, const char *text);
char *events_number(char *to, const char *end, uint64_t n);

/* With the escapes of docs/folded.md. */
char *events_folded(char *to, const char *end, const char *text);

/* With quotes and escapes of JSON. A byte that is not UTF-8 becomes U+FFFD. The quotes always fit if there is room for 2. */
char *events_json(char *to, const char *end, const char *text);

/* Microseconds with three decimals. */
char *events_us(char *to, const char *end, uint64_t ns);

/* ---- events_file.c: a file of events. It is made when the first line is written, and never grows beyond its bound ---- */

#define EVENTS_PIECE_BYTES ((size_t)16 << 10) /* the longest piece that can be added */

struct events_file {
    const struct service_host *host;
    char path[CONF_STRING_BYTES + 32];
    int fd; /* −1: not made yet */
    bool is_full;   /* the bound is reached */
    bool is_broken; /* an error, which was said */
    uint64_t bytes, max_bytes;
    uint64_t left_out; /* lines beyond the bound, or after the error */
    size_t n;
    char buffer[(size_t)256 << 10];
};

/* `path` may be empty: then all lines are ignored. A process that `jespan run` did not start itself gets a file of its own:
 * its number is added to the name. */
void events_file_open(struct events_file *f, const struct service_host *host, const char *path, uint64_t max_bytes);

static inline bool events_file_is_wanted(const struct events_file *f)
{
    return f->path[0] != '\0';
}

/* The place for a piece of at most EVENTS_PIECE_BYTES, which events_file_added() then adds up to `end`. NULL: it is left
 * out, and counted. */
char *events_file_line(struct events_file *f);
void events_file_added(struct events_file *f, const char *end);

/* Opens a file to which nothing was written, and makes it if it is not there. Returns false after an error, which was said. */
bool events_file_touch(struct events_file *f);
bool events_file_is_empty(const struct events_file *f);

/* Writes what was added. */
void events_file_flush(struct events_file *f);

/* Adds the last piece, for which there is always room, and closes the file, if it was made. */
void events_file_close(struct events_file *f, const char *last);

/* ---- events_paths.c: contexts by number, with their paths as text ---- */

/* A path is made once, from a snapshot, and kept while its number is that of the same context, or a thread is in it. So
 * events of a context that was recycled meanwhile are still known. */

/* A context. `depth` is 0 for the root and the contexts of threads, which are outside of spans. */
struct events_node {
    struct events_node *parent;
    uint32_t users, depth;
    uint32_t id, generation;
    uint32_t path_bytes;
    char *path;   /* from the outermost span on, each after a ';' */
    char *json;   /* a trace event's members name, cat and args */
    uint32_t json_name_bytes; /* of the name alone */
};

struct events_paths;

/* Which parts of names the paths have. */
struct events_names {
    bool module_path, file_and_line, labels, json;
};

/* NULL: no memory. */
struct events_paths *events_paths_make(const struct events_names *names);
void events_paths_free(struct events_paths *p);

/* The node outside of spans, and that of contexts that were recycled before they were known. */
struct events_node *events_paths_outside(struct events_paths *p);
struct events_node *events_paths_recycled(struct events_paths *p);

/* NULL: it is not known yet. */
struct events_node *events_paths_find(const struct events_paths *p, uint32_t id, uint32_t generation);

/* Learns all contexts of the snapshot. Returns false without memory. */
bool events_paths_learn(struct events_paths *p, const struct snapshot *s);

/* A holder keeps the node until it releases it. Both functions accept NULL. */
void events_node_hold(struct events_node *node);
void events_node_release(struct events_node *node);

/* ---- events_formats.c: lines of folded stacks, and Chrome trace events ---- */

/* A thread whose events come. */
struct events_lane {
    struct events_node *node; /* for which time passes, held. NULL: no thread */
    uint64_t last_ns;         /* of its last event */
    struct event_thread thread;
    bool has_gap; /* events before the next one were lost */
    uint64_t lost; /* how many; 0: the trace has the mark */
};

/* A line for the time since the last event. `name` is the thread's, or "". */
void events_folded_write(struct events_file *f, const struct events_lane *lane, const char *name, uint64_t now_ns);

/* The trace. */
#define EVENTS_TRACE_END "\n]\n"

void events_trace_begin(struct events_file *f, const char *program);
void events_trace_thread(struct events_file *f, const struct events_lane *lane, const char *name);

/* Time passes for `to` instead of lane->node: ends spans and begins others. */
void events_trace_switch(struct events_file *f, const struct events_lane *lane, const struct events_node *to, uint64_t now_ns);

/* Events are missing from lane->last_ns on. */
void events_trace_lost(struct events_file *f, const struct events_lane *lane, uint64_t n);

/* ---- events_flame.c: what is written once, at the end ---- */

/* The busy times as folded stacks, and a figure (flame_svg_figure) as a flame graph. */
void events_flame_folded(struct events_file *f, const struct snapshot *s);
void events_flame_svg(struct events_file *f, const struct snapshot *s, const char *program);

/* Memory at that time: of all, resident, and of the contexts that hold most. */
struct events_memory;
struct events_memory *events_memory_make(void);
void events_memory_free(struct events_memory *m);
void events_trace_memory(struct events_file *f, struct events_memory *m, const struct snapshot *s, uint64_t now_ns);

#endif
