/* SPDX-License-Identifier: BSD-2-Clause */
/* Chrome trace events: the JSON array format, which readers also take without its end. ui.perfetto.dev opens it.
 * The format: docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/process_stat.h"
#include "events_out.h"

/* `"ph":"X","pid":1,"tid":2`, after what separates it from the event before. tid 0: none. */
static char *begin(struct events_file *f, char **end, const char *phase, int32_t tid)
{
    char *to = events_file_line(f);
    *end = to + EVENTS_PIECE_BYTES;
    if (!to)
        return NULL;
    to = events_text(to, *end, f->bytes == 0 ? "[\n{\"ph\":\"" : ",\n{\"ph\":\"");
    to = events_text(events_text(to, *end, phase), *end, "\",\"pid\":");
    to = events_number(to, *end, (uint64_t)f->host->pid);
    return tid != 0 ? events_number(events_text(to, *end, ",\"tid\":"), *end, (uint64_t)tid) : to;
}

static char *add_time(char *to, const char *end, uint64_t ns)
{
    return events_us(events_text(to, end, ",\"ts\":"), end, ns);
}

static void name_it(struct events_file *f, const char *what, int32_t tid, const char *name)
{
    char *end, *to = begin(f, &end, "M", tid);
    if (!to)
        return;
    to = events_text(events_text(events_text(to, end, ",\"name\":\""), end, what), end, "\",\"args\":{\"name\":");
    events_file_added(f, events_text(events_json(to, end, name), end, "}}"));
}

void events_trace_begin(struct events_file *f, const char *program)
{
    if (events_file_is_wanted(f))
        name_it(f, "process_name", 0, program);
}

void events_trace_thread(struct events_file *f, const struct events_lane *lane, const char *name)
{
    name_it(f, "thread_name", lane->thread.id, name);
}

/* ---- Spans ---- */

static void begin_span(struct events_file *f, const struct events_lane *lane, const struct events_node *node, uint64_t ns)
{
    char *end, *to = begin(f, &end, "B", lane->thread.id);
    if (!to)
        return;
    to = events_text(add_time(to, end, ns), end, ",");
    events_file_added(f, events_text(events_text(to, end, node->json), end, "}"));
}

/* The format needs no name here, but speedscope ends only a span of the same name. */
static void end_span(struct events_file *f, const struct events_lane *lane, const struct events_node *node, uint64_t ns)
{
    char *end, *to = begin(f, &end, "E", lane->thread.id);
    if (!to)
        return;
    to = events_text(add_time(to, end, ns), end, ",");
    to = mempcpy(to, node->json, node->json_name_bytes); /* fits: names have at most JESPAN_MAX_STRING_BYTES */
    events_file_added(f, events_text(to, end, "}"));
}

static void begin_below(struct events_file *f, const struct events_lane *lane, const struct events_node *to, uint32_t depth,
                        uint64_t ns)
{
    enum { DEEPEST = 512 };
    const struct events_node *path[DEEPEST];
    uint32_t n = 0;
    for (; to && to->depth > depth; to = to->parent)
        if (n < DEEPEST || to->depth <= depth + DEEPEST)
            path[n++ % DEEPEST] = to;
    while (n-- > 0)
        begin_span(f, lane, path[n % DEEPEST], ns);
}

/* The nearest context above both. Its depth is 0 where there is none. */
static uint32_t common_depth(const struct events_node *a, const struct events_node *b)
{
    while (a && b && a != b && a->depth > 0 && b->depth > 0) {
        uint32_t depth = a->depth;
        a = depth >= b->depth ? a->parent : a;
        b = b->depth >= depth ? b->parent : b;
    }
    return a && a == b ? a->depth : 0;
}

void events_trace_switch(struct events_file *f, const struct events_lane *lane, const struct events_node *to, uint64_t now_ns)
{
    if (!events_file_is_wanted(f))
        return;
    uint32_t depth = common_depth(lane->node, to);
    for (const struct events_node *node = lane->node; node && node->depth > depth; node = node->parent)
        end_span(f, lane, node, now_ns);
    begin_below(f, lane, to, depth, now_ns);
}

void events_trace_lost(struct events_file *f, const struct events_lane *lane, uint64_t n)
{
    char *end, *to = begin(f, &end, "i", lane->thread.id);
    if (!to)
        return;
    to = events_text(add_time(to, end, lane->last_ns), end, ",\"s\":\"t\",\"name\":\"lost events\",\"args\":{\"events\":");
    events_file_added(f, events_text(events_number(to, end, n), end, "}}"));
}

/* ---- Memory ---- */

enum { TRACKS_MAX = 16, SHOWN = 4 }; /* contexts with a track of their own; how many of the largest get one at a time */

struct events_memory {
    uint32_t n;
    struct track {
        uint32_t id, generation;
    } tracks[TRACKS_MAX];
};

struct events_memory *events_memory_make(void)
{
    return calloc(1, sizeof(struct events_memory));
}

void events_memory_free(struct events_memory *m)
{
    free(m);
}

static void count(struct events_file *f, const char *name, uint64_t bytes, uint64_t ns)
{
    char *end, *to = begin(f, &end, "C", 0);
    if (!to)
        return;
    to = events_json(events_text(add_time(to, end, ns), end, ",\"name\":"), end, name);
    to = events_number(events_text(to, end, ",\"args\":{\"bytes\":"), end, bytes);
    events_file_added(f, events_text(to, end, "}}"));
}

/* `in use: outer > inner {key=value}`. The outermost of a deep path are left out. */
static void name_row(char *to, const char *end, const struct snapshot *s, uint32_t row)
{
    enum { DEEPEST = 8 };
    const struct snapshot_row *path[DEEPEST];
    uint32_t n = 0;
    do
        path[n++] = &s->rows[row];
    while (n < DEEPEST && s->rows[row].parent_row != 0 && (row = s->rows[row].parent_row) != 0);
    to = events_text(to, end, "in use: ");
    for (uint32_t i = n; i-- > 0;)
        to = events_text(events_text(to, end, path[i]->id == s->rows[0].id ? "(root)" : path[i]->name), end, i > 0 ? " > " : "");
    for (uint32_t i = n; i-- > 0;)
        for (uint32_t k = 0; k < path[i]->n_labels; k++) {
            to = events_text(events_text(to, end, " {"), end, path[i]->labels[k].key);
            to = events_text(events_text(events_text(to, end, "="), end, path[i]->labels[k].value), end, "}");
        }
    *to = '\0';
}

static struct track *find_track(struct events_memory *m, const struct snapshot_row *row)
{
    for (struct track *t = m->tracks; t < m->tracks + m->n; t++)
        if (t->id == row->id && t->generation == row->generation)
            return t;
    return NULL;
}

static void add_track(struct events_memory *m, const struct snapshot_row *row)
{
    if (m->n < TRACKS_MAX && !find_track(m, row))
        m->tracks[m->n++] = (struct track){.id = row->id, .generation = row->generation};
}

/* Gives a track to the contexts that hold most. A context keeps its track. */
static void choose_tracks(struct events_memory *m, const struct snapshot *s)
{
    uint32_t largest[SHOWN], n = 0;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        uint32_t at = n;
        while (at > 0 && totals_inuse_bytes(&s->rows[i].totals) > totals_inuse_bytes(&s->rows[largest[at - 1]].totals))
            at--;
        if (at == SHOWN || totals_inuse_bytes(&s->rows[i].totals) == 0)
            continue;
        n += n < SHOWN;
        memmove(largest + at + 1, largest + at, (n - 1 - at) * sizeof *largest);
        largest[at] = i;
    }
    for (uint32_t i = 0; i < n; i++)
        add_track(m, &s->rows[largest[i]]);
}

void events_trace_memory(struct events_file *f, struct events_memory *m, const struct snapshot *s, uint64_t now_ns)
{
    char name[512];
    uint64_t resident = process_resident_bytes(f->host->pid);
    count(f, "memory in use", totals_inuse_bytes(&s->all), now_ns);
    if (resident > 0)
        count(f, "resident memory", resident, now_ns);
    choose_tracks(m, s);
    for (uint32_t i = 0; i < s->n_rows && m->n > 0; i++) {
        if (!find_track(m, &s->rows[i]))
            continue;
        name_row(name, name + sizeof name - 1, s, i);
        count(f, name, totals_inuse_bytes(&s->rows[i].totals), now_ns);
    }
}

/* ---- Lines of folded stacks, as tracing-flame writes them: `ThreadId(1)-main;outer;inner 1234`, in nanoseconds ---- */

static char *add_thread(char *to, const char *end, const struct events_lane *lane, const char *name)
{
    to = events_number(events_text(to, end, "ThreadId("), end, lane->thread.number);
    to = events_text(to, end, ")");
    return name[0] != '\0' ? events_folded(events_text(to, end, "-"), end, name) : to;
}

void events_folded_write(struct events_file *f, const struct events_lane *lane, const char *name, uint64_t now_ns)
{
    const struct conf *c = f->host->conf;
    if (!c->events_empty_samples && lane->node->depth == 0 && !lane->has_gap)
        return;
    char *to = events_file_line(f), *end = to + EVENTS_PIECE_BYTES;
    if (!to)
        return;
    to = c->events_threads_collapsed ? events_text(to, end, "all-threads") : add_thread(to, end, lane, name);
    if (lane->has_gap) {
        to = events_text(to, end, ";(lost%20events)");
    } else {
        memcpy(to, lane->node->path ? lane->node->path : "", lane->node->path_bytes);
        to += lane->node->path_bytes;
    }
    to = events_number(events_text(to, end, " "), end, now_ns - lane->last_ns);
    events_file_added(f, events_text(to, end, "\n"));
}
