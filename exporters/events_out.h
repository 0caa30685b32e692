/* SPDX-License-Identifier: BSD-2-Clause */
/* What is written of events: lines of folded stacks, and Chrome trace events. */
#ifndef JESPAN_EVENTS_OUT_H
#define JESPAN_EVENTS_OUT_H

#include "events_file.h"
#include "events_paths.h"
#include "snapshot/event_reader.h"

/* A thread whose events come. */
struct events_lane {
    struct events_node *node; /* for which time passes, held. NULL: no thread */
    uint64_t last_ns;         /* of its last event */
    struct event_thread thread;
    bool has_gap; /* events before the next one were lost */
    uint64_t lost; /* how many; 0: the trace has the mark */
};

/* ---- events_folded.c ---- */

/* A line for the time since the last event. `name` is the thread's, or "". */
void events_folded_write(struct events_file *f, const struct events_lane *lane, const char *name, uint64_t now_ns);

/* ---- events_trace.c ---- */

#define EVENTS_TRACE_END "\n]\n"

void events_trace_begin(struct events_file *f, const char *program);
void events_trace_thread(struct events_file *f, const struct events_lane *lane, const char *name);

/* Time passes for `to` instead of lane->node: ends spans and begins others. */
void events_trace_switch(struct events_file *f, const struct events_lane *lane, const struct events_node *to, uint64_t now_ns);

/* Events are missing from lane->last_ns on. */
void events_trace_lost(struct events_file *f, const struct events_lane *lane, uint64_t n);

/* Memory at that time: of all, resident, and of the contexts that hold most. */
struct events_memory;
struct events_memory *events_memory_make(void);
void events_memory_free(struct events_memory *m);
void events_trace_memory(struct events_file *f, struct events_memory *m, const struct snapshot *s, uint64_t now_ns);

#endif
