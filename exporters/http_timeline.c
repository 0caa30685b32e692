/* SPDX-License-Identifier: BSD-2-Clause */
/* The history of a process. */
#include "http_timeline.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http_answer.h"
#include "http_rows.h"
#include "snapshot/alert_figures.h"

/* ---- What it consists of ---- */

/* A context. Id and generation name it for ever, so samples share it. */
struct path {
    struct path *next;
    const struct path *parent; /* in each sample that has this path. NULL: none */
    uint32_t id, generation;
    uint32_t users;  /* samples that have it */
    uint32_t number; /* while JSON is written */
    uint32_t bytes;
    char json[]; /* its name and labels: members of an object */
};

struct timeline_event {
    const char *kind, *text; /* they stay */
    uint64_t count;
};

#define N_FIGURES 9
#define MOST_PACKED_BYTES 10 /* of a number */

/* Figures are packed: they take 1 to 6 bytes each in most programs. */
struct sample {
    struct sample *next; /* the next newer one */
    uint64_t time_unix_ns, resident_bytes;
    uint32_t n_rows, n_left_out, n_events, bytes;
    struct path *paths[TIMELINE_ROWS]; /* the first n_rows are used */
    struct timeline_event *events;              /* behind the figures */
    unsigned char figures[];
};

/* What is counted, and whose growth is an event. After these come the rules of `alert`. */
static const struct {
    const char *kind, *ctl;
} counters[] = {
    {"limit", "spans.stats.limit_refusals"}, {"dump", "spans.stats.dumps"},           {"lost dump", "spans.stats.lost_dumps"},
    {"oom", "spans.stats.oom_dumps"},        {"limit dump", "spans.stats.limit_dumps"}, {"peak dump", "spans.stats.peak_dumps"},
    {"signal dump", "spans.stats.signal_dumps"},
};
#define N_COUNTERS (sizeof counters / sizeof counters[0])
#define MOST_EVENTS (N_COUNTERS + ALERTS_MOST + 1)

struct http_timeline {
    struct path *paths;
    struct sample *first, *last;
    uint32_t n_samples;
    size_t bytes;
    bool counted;   /* `counts` are those of the last sample */
    bool restarted; /* the next sample is the first of another program */
    uint64_t counts[N_COUNTERS + ALERTS_MOST];
};

struct http_timeline *http_timeline_make(void)
{
    return calloc(1, sizeof(struct http_timeline));
}

size_t http_timeline_bytes(const struct http_timeline *t)
{
    return t->bytes;
}

uint64_t http_timeline_oldest_ns(const struct http_timeline *t)
{
    return t->first ? t->first->time_unix_ns : UINT64_MAX;
}

static void drop_unused_paths(struct http_timeline *t)
{
    for (struct path **at = &t->paths, *path; (path = *at);) {
        if (path->users > 0) {
            at = &path->next;
            continue;
        }
        *at = path->next;
        t->bytes -= path->bytes;
        free(path);
    }
}

void http_timeline_drop_oldest(struct http_timeline *t)
{
    struct sample *oldest = t->first;
    t->first = oldest->next;
    if (!t->first)
        t->last = NULL;
    for (uint32_t i = 0; i < oldest->n_rows; i++)
        oldest->paths[i]->users--;
    t->n_samples--;
    t->bytes -= oldest->bytes;
    free(oldest);
    drop_unused_paths(t);
}

void http_timeline_restart(struct http_timeline *t)
{
    if (!t)
        return;
    while (t->first)
        http_timeline_drop_oldest(t);
    t->counted = false;
    t->restarted = true;
}

void http_timeline_free(struct http_timeline *t)
{
    http_timeline_restart(t);
    free(t);
}

/* ---- Events ---- */

static bool ask(const struct service_host *host, const char *name, void *value, size_t bytes)
{
    return host->mallctl(name, value, &bytes, NULL, 0) == 0;
}

/* A count that has grown since the last sample is an event. */
static void count(struct http_timeline *t, size_t i, uint64_t now, const char *kind, const char *text, struct timeline_event *events,
                  uint32_t *n)
{
    if (t->counted && now > t->counts[i])
        events[(*n)++] = (struct timeline_event){kind, text, now - t->counts[i]};
    t->counts[i] = now;
}

static uint32_t find_events(struct http_timeline *t, const struct service_host *host, struct timeline_event *events)
{
    uint32_t n = 0;
    uint64_t value, rules = 0;
    char name[64];
    const char *rule;
    if (t->restarted)
        events[n++] = (struct timeline_event){"program", "", 1};
    for (size_t i = 0; i < N_COUNTERS; i++)
        if (ask(host, counters[i].ctl, &value, sizeof value))
            count(t, i, value, counters[i].kind, "", events, &n);
    ask(host, "spans.alerts.count", &rules, sizeof rules);
    for (uint64_t i = 1; i <= rules && i <= ALERTS_MOST; i++) {
        snprintf(name, sizeof name, "spans.alerts.%" PRIu64 ".rule", i);
        bool known = ask(host, name, &rule, sizeof rule);
        snprintf(name, sizeof name, "spans.alerts.%" PRIu64 ".fired", i);
        if (known && ask(host, name, &value, sizeof value))
            count(t, N_COUNTERS + i - 1, value, "alert", rule, events, &n);
    }
    return n;
}

/* ---- A sample ---- */

static uint64_t inuse_of(const struct totals *t)
{
    return totals_inuse_bytes(t);
}

static uint64_t alloc_of(const struct totals *t)
{
    return t->alloc_bytes;
}

static uint64_t cpu_of(const struct totals *t)
{
    return t->cpu;
}

/* Most rows show who has memory, and some who allocates and who works. */
static bool choose(const struct snapshot *s, const struct totals *sums, bool *chosen)
{
    uint32_t room = TIMELINE_ROWS;
    return http_rows_choose(s, sums, inuse_of, TIMELINE_ROWS / 2, &room, chosen)
        && http_rows_choose(s, sums, alloc_of, TIMELINE_ROWS / 4, &room, chosen)
        && http_rows_choose(s, sums, cpu_of, TIMELINE_ROWS / 4, &room, chosen)
        && http_rows_choose(s, sums, inuse_of, UINT32_MAX, &room, chosen);
}

static struct path *find_path(const struct http_timeline *t, const struct snapshot_row *row)
{
    struct path *path = t->paths;
    while (path && (path->id != row->id || path->generation != row->generation))
        path = path->next;
    return path;
}

static struct path *make_path(struct http_timeline *t, const struct snapshot *s, uint32_t row)
{
    struct http_text text = {0};
    http_spans_write_context(&(struct http_json){.to = &text}, s, row);
    size_t bytes = sizeof(struct path) + text.n + 1;
    struct path *path = text.failed ? NULL : malloc(bytes);
    if (path) {
        *path = (struct path){.next = t->paths, .id = s->rows[row].id, .generation = s->rows[row].generation, .bytes = (uint32_t)bytes};
        memcpy(path->json, text.data, text.n);
        path->json[text.n] = '\0';
        t->paths = path;
        t->bytes += bytes;
    }
    http_text_free(&text);
    return path;
}

static unsigned char *pack(unsigned char *to, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *to++ = (unsigned char)(value | 0x80);
    *to++ = (unsigned char)value;
    return to;
}

static uint64_t unpack(const unsigned char **from)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        unsigned char byte = *(*from)++;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
}

static unsigned char *pack_figures(unsigned char *to, const struct totals *t, uint64_t wall_ns)
{
    const uint64_t figures[N_FIGURES] = {totals_inuse_bytes(t), totals_inuse_objects(t), t->outlived_bytes, t->alloc_bytes,
                                         t->opens, wall_ns, t->busy, t->cpu, t->temporary_objects};
    for (size_t i = 0; i < N_FIGURES; i++)
        to = pack(to, figures[i]);
    return to;
}

/* The names of the figures, in that order. */
static const char *const figure_names[N_FIGURES] = {"inuse_bytes", "inuse_objects", "outlived_bytes", "alloc_bytes",
                                                    "opens", "wall_ns", "busy_ns", "cpu_ns", "temporary_objects"};

/* A sample while it is made. */
struct draft {
    uint32_t n_rows, n_events;
    struct path *paths[TIMELINE_ROWS], *parents[TIMELINE_ROWS];
    unsigned char figures[TIMELINE_ROWS * N_FIGURES * MOST_PACKED_BYTES], *end;
    struct timeline_event events[MOST_EVENTS];
};

/* The figures of a row with all below it. Those of contexts that were recycled are below the root. */
static unsigned char *pack_row(unsigned char *to, const struct snapshot *s, uint32_t i, const struct totals *sums)
{
    struct totals with_retired = sums[i];
    if (s->rows[i].parent_row != i)
        return pack_figures(to, &sums[i], s->rows[i].wall_ns);
    totals_add(&with_retired, &s->retired);
    return pack_figures(to, &with_retired, s->rows[i].wall_ns + s->retired.wall);
}

static bool fill(struct draft *d, struct http_timeline *t, const struct snapshot *s, const struct totals *sums, const bool *chosen)
{
    uint32_t rows[TIMELINE_ROWS];
    d->end = d->figures;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        if (!chosen[i])
            continue;
        struct path *path = find_path(t, &s->rows[i]);
        path = path ? path : make_path(t, s, i);
        if (!path)
            return false;
        rows[d->n_rows] = i;
        d->paths[d->n_rows++] = path;
        d->end = pack_row(d->end, s, i, sums);
    }
    for (uint32_t k = 0; k < d->n_rows; k++) {
        uint32_t parent = s->rows[rows[k]].parent_row;
        d->parents[k] = parent != rows[k] && parent < s->n_rows ? find_path(t, &s->rows[parent]) : NULL;
    }
    return true;
}

static void append(struct http_timeline *t, const struct draft *d, const struct snapshot *s)
{
    size_t figures = (size_t)(d->end - d->figures), before_events = (sizeof(struct sample) + figures + 7) / 8 * 8;
    size_t bytes = before_events + d->n_events * sizeof d->events[0];
    struct sample *made = malloc(bytes);
    if (!made)
        return;
    *made = (struct sample){.time_unix_ns = s->time_unix_ns, .resident_bytes = http_resident_bytes(s), .n_rows = d->n_rows,
                            .n_left_out = s->n_rows - d->n_rows,
                            .n_events = d->n_events, .bytes = (uint32_t)bytes, .events = (void *)((char *)made + before_events)};
    memcpy(made->paths, d->paths, d->n_rows * sizeof d->paths[0]);
    memcpy(made->figures, d->figures, figures);
    memcpy(made->events, d->events, d->n_events * sizeof d->events[0]);
    for (uint32_t i = 0; i < d->n_rows; i++) {
        d->paths[i]->users++;
        d->paths[i]->parent = d->parents[i];
    }
    *(t->last ? &t->last->next : &t->first) = made;
    t->last = made;
    t->n_samples++;
    t->bytes += bytes;
    t->counted = true;
    t->restarted = false;
}

void http_timeline_add(struct http_timeline *t, const struct snapshot *s, const struct service_host *host)
{
    if (t->last && t->last->time_unix_ns == s->time_unix_ns)
        return; /* the process has ended, and this is its last reading again */
    struct totals *sums = malloc((s->n_rows + (size_t)1) * sizeof *sums);
    bool *chosen = calloc(s->n_rows + (size_t)1, sizeof *chosen);
    struct draft *draft = calloc(1, sizeof *draft);
    if (sums && chosen && draft && http_rows_sum(s, sums) && choose(s, sums, chosen) && fill(draft, t, s, sums, chosen)) {
        draft->n_events = find_events(t, host, draft->events);
        append(t, draft, s);
    }
    free(sums);
    free(chosen);
    free(draft);
    drop_unused_paths(t);
    while (t->n_samples > TIMELINE_SAMPLES)
        http_timeline_drop_oldest(t);
}

/* ---- JSON ---- */

/* Numbers the paths of these samples, from 1. The others have 0. */
static void number_paths(const struct http_timeline *t, const struct sample *first)
{
    uint32_t n = 0;
    for (struct path *path = t->paths; path; path = path->next)
        path->number = 0;
    for (const struct sample *s = first; s; s = s->next)
        for (uint32_t i = 0; i < s->n_rows; i++)
            if (s->paths[i]->number == 0)
                s->paths[i]->number = ++n;
}

static void write_paths(struct http_json *to, const struct http_timeline *t)
{
    http_json_open(to, "contexts", '[');
    for (const struct path *path = t ? t->paths : NULL; path; path = path->next) {
        if (path->number == 0)
            continue;
        http_json_line(to);
        http_json_open(to, NULL, '{');
        http_json_number(to, "number", path->number);
        http_json_number(to, "parent", path->parent ? path->parent->number : 0);
        http_text_put(to->to, ",");
        http_text_put(to->to, path->json);
        http_json_close(to, '}');
    }
    http_json_close(to, ']');
}

static void write_sample(struct http_json *to, const struct sample *s)
{
    const unsigned char *figures = s->figures;
    http_json_line(to);
    http_json_open(to, NULL, '{');
    http_json_seconds(to, "time", s->time_unix_ns);
    http_json_number(to, "resident_bytes", s->resident_bytes);
    http_json_number(to, "left_out", s->n_left_out);
    http_json_open(to, "totals", '[');
    for (uint32_t i = 0; i < s->n_rows; i++) {
        http_json_open(to, NULL, '[');
        http_json_number(to, NULL, s->paths[i]->number);
        for (size_t k = 0; k < N_FIGURES; k++)
            http_json_number(to, NULL, unpack(&figures));
        http_json_close(to, ']');
    }
    http_json_close(to, ']');
    http_json_open(to, "events", '[');
    for (const struct timeline_event *e = s->events; e < s->events + s->n_events; e++) {
        http_json_open(to, NULL, '{');
        http_json_string(to, "kind", e->kind);
        http_json_string(to, "text", e->text);
        http_json_number(to, "count", e->count);
        http_json_close(to, '}');
    }
    http_json_close(to, ']');
    http_json_close(to, '}');
}

void http_timeline_write(struct http_json *to, const struct http_timeline *t, uint64_t after_unix_ns)
{
    http_json_open(to, "figures", '[');
    for (size_t i = 0; i < N_FIGURES; i++)
        http_json_string(to, NULL, figure_names[i]);
    http_json_close(to, ']');
    const struct sample *first = t ? t->first : NULL;
    while (first && first->time_unix_ns <= after_unix_ns)
        first = first->next;
    if (t)
        number_paths(t, first);
    write_paths(to, t);
    http_json_line(to);
    http_json_open(to, "samples", '[');
    for (const struct sample *s = first; s; s = s->next)
        write_sample(to, s);
    http_json_close(to, ']');
}
