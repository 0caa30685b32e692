/* SPDX-License-Identifier: BSD-2-Clause */
/* The service `events`: writes each enter and exit of a span to files, and flames at the end.
 *
 * One thread reads the rings of the program's threads every 20 ms, or at once again while a ring fills fast. Events
 * that are overwritten before they are read are lost, and counted: in the files where it is missing, and in a line on
 * stderr.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "events_out.h"
#include "report/service.h"

SERVICE_DEFINE(events);

#define ROUND_MS 20
#define SNAPSHOTS_A_ROUND 8
#define NS_PER_MS 1000000u
#define NAME_BYTES 15 /* of a thread, as the system knows it */

struct events {
    struct event_sink sink; /* first */
    const struct service_host *host;
    struct events_file folded, trace, flame, svg;
    struct events_paths *paths;
    struct events_memory *memory;
    struct snapshot *snapshot;
    uint64_t next_memory_ns; /* by CLOCK_MONOTONIC */
    unsigned snapshots;      /* in this round */
    bool has_begun;          /* the trace file */
    uint64_t n_events, n_lost, n_recycled;
    uint64_t read_ns; /* when events were read before this round */
    struct events_lane lanes[EVENT_RINGS_MAX];
};

/* ---- Contexts ---- */

static const struct snapshot *take_snapshot(struct events *e)
{
    struct snapshot *s = e->host->snapshot(e->snapshot);
    if (s)
        e->snapshot = s;
    return s;
}

/* A context that nobody knows yet is in a new snapshot, unless it was recycled since the event. */
static struct events_node *find_node(struct events *e, const struct event *event)
{
    struct events_node *node = events_paths_find(e->paths, event->context, event->generation);
    if (!node && e->snapshots++ < SNAPSHOTS_A_ROUND) {
        const struct snapshot *s = take_snapshot(e);
        if (s && events_paths_learn(e->paths, s))
            node = events_paths_find(e->paths, event->context, event->generation);
    }
    e->n_recycled += !node;
    return node ? node : events_paths_recycled(e->paths);
}

/* ---- Events ---- */

/* Programs that have no spans, such as the helpers of a script, make no file. The one that `jespan run` was given does. */
static bool is_first(const struct events *e)
{
    return e->host->conf->dump_at_exit_pid == (uint64_t)e->host->pid;
}

static void begin_trace(struct events *e)
{
    if (!e->has_begun)
        events_trace_begin(&e->trace, e->host->program);
    e->has_begun = true;
}

/* Names are as in Rust: the main thread is "main", and others have a name only if they were given one. */
static const char *name_of(const struct events *e, const struct event_thread *thread)
{
    if (thread->number == 1)
        return "main";
    return strncmp(thread->name, e->host->program, NAME_BYTES) == 0 ? "" : thread->name;
}

static void move_to(struct events_lane *lane, struct events_node *node, uint64_t ns)
{
    events_node_hold(node);
    events_node_release(lane->node);
    lane->node = node;
    lane->last_ns = ns;
    lane->has_gap = false;
}

static void begin_thread(struct events *e, struct events_lane *lane, const struct event_thread *thread, uint64_t ns)
{
    lane->thread = *thread;
    move_to(lane, events_paths_outside(e->paths), ns);
}

/* The name of a thread comes after its EVENT_THREAD. */
static void introduce(struct events *e, struct events_lane *lane, const struct event_thread *thread)
{
    bool is_new = lane->thread.name[0] == '\0' || lane->thread.number != thread->number;
    lane->thread = *thread;
    if (!is_new || !events_file_is_wanted(&e->trace))
        return;
    begin_trace(e);
    events_trace_thread(&e->trace, lane, thread->number == 1 ? "main" : thread->name);
}

/* Once the thread is known. */
static void mark_lost(struct events *e, struct events_lane *lane)
{
    if (lane->lost > 0 && events_file_is_wanted(&e->trace))
        events_trace_lost(&e->trace, lane, lane->lost);
    lane->lost = 0;
}

static void switch_to(struct events *e, struct events_lane *lane, struct events_node *to, uint64_t ns)
{
    events_trace_switch(&e->trace, lane, to, ns);
    move_to(lane, to, ns);
}

static void on_event(struct event_sink *sink, uint32_t ring, const struct event_thread *thread, const struct event *event)
{
    struct events *e = (struct events *)sink;
    struct events_lane *lane = &e->lanes[ring];
    if (event->kind == EVENT_THREAD || !lane->node) {
        lane->thread.name[0] = '\0';
        begin_thread(e, lane, thread, event->ns);
    }
    if (event->kind == EVENT_THREAD)
        return;
    introduce(e, lane, thread);
    mark_lost(e, lane);
    e->n_events += event->kind == EVENT_SWITCH;
    struct events_node *to = event->kind == EVENT_SWITCH ? find_node(e, event) : events_paths_outside(e->paths);
    if (event->kind == EVENT_SWITCH || lane->node->depth > 0)
        events_folded_write(&e->folded, lane, name_of(e, thread), event->ns);
    switch_to(e, lane, to, event->ns);
}

/* The next events of the ring may be another thread's. A ring that is new began after the last round. */
static void on_lost(struct event_sink *sink, uint32_t ring, uint64_t n)
{
    struct events *e = (struct events *)sink;
    struct events_lane *lane = &e->lanes[ring];
    e->n_lost += n;
    if (!lane->node)
        begin_thread(e, lane, &(struct event_thread){0}, e->read_ns);
    switch_to(e, lane, events_paths_outside(e->paths), lane->last_ns);
    lane->has_gap = true;
    lane->lost += n;
}

/* Spans that are still open end now. */
static void end_lanes(struct events *e)
{
    for (struct events_lane *lane = e->lanes; lane < e->lanes + EVENT_RINGS_MAX; lane++) {
        if (!lane->node)
            continue;
        uint64_t now_ns = e->sink.now_ns > lane->last_ns ? e->sink.now_ns : lane->last_ns;
        if (lane->node->depth > 0)
            events_folded_write(&e->folded, lane, name_of(e, &lane->thread), now_ns);
        switch_to(e, lane, events_paths_outside(e->paths), now_ns);
    }
}

/* ---- Memory ---- */

static void show_memory(struct events *e, bool is_last)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC), interval_ms = e->host->conf->trace_memory_ms;
    if (!e->has_begun || !events_file_is_wanted(&e->trace) || interval_ms == 0 || (now < e->next_memory_ns && !is_last))
        return;
    e->next_memory_ns = now + interval_ms * NS_PER_MS;
    const struct snapshot *s = take_snapshot(e);
    if (s)
        events_trace_memory(&e->trace, e->memory, s, e->sink.now_ns);
}

/* ---- The flames, at the end ---- */

static bool has_spans(const struct snapshot *s)
{
    bool found = s->retired.busy > 0;
    for (uint32_t i = 0; i < s->n_rows && !found; i++)
        found = s->rows[i].kind == CONTEXT_SPAN;
    return found;
}

static void write_flames(struct events *e)
{
    bool wants_folded = events_file_is_wanted(&e->flame), wants_svg = events_file_is_wanted(&e->svg);
    const struct snapshot *s = wants_folded || wants_svg ? take_snapshot(e) : NULL;
    if (s && !is_first(e) && e->host->conf->dump_at_exit_pid != 0 && !has_spans(s))
        return; /* as a helper of a script */
    if (s && wants_folded)
        events_flame_folded(&e->flame, s);
    if (s && wants_svg)
        events_flame_svg(&e->svg, s, e->host->program);
}

/* ---- The loop ---- */

static int read_events(struct events *e)
{
    e->snapshots = 0;
    e->read_ns = e->sink.now_ns;
    return e->host->events(e->host, &e->sink);
}

static bool is_stopping(const struct events *e)
{
    return e->host->stop_by_ns(e->host) != 0;
}

static void wait_for_round(struct events *e)
{
    struct pollfd stop = {.fd = e->host->stop_fd, .events = POLLIN};
    if (!e->host->has_descriptors(e->host) && e->host->renew(e->host) != 0)
        stop.fd = -1;
    else
        stop.fd = e->host->stop_fd;
    poll(&stop, 1, ROUND_MS);
}

static bool wants_events(const struct events *e)
{
    return events_file_is_wanted(&e->folded) || events_file_is_wanted(&e->trace);
}

/* The process may have ended. */
static void loop(struct events *e)
{
    int error = 0;
    while (!is_stopping(e)) {
        error = wants_events(e) && error == 0 ? read_events(e) : error;
        show_memory(e, false);
        events_file_flush(&e->folded);
        events_file_flush(&e->trace);
        if (error != 0 || !e->sink.is_filling || !wants_events(e))
            wait_for_round(e);
    }
    if (wants_events(e) && error == 0)
        read_events(e);
}

static void say_missing(const struct events *e, const struct events_file *f, uint64_t n, const char *why)
{
    char missing[24], all[24];
    snprintf(missing, sizeof missing, "%llu", (unsigned long long)n);
    snprintf(all, sizeof all, "%llu", (unsigned long long)(e->n_events + e->n_lost + e->sink.without));
    if (n > 0 && events_file_is_wanted(f))
        e->host->say((const char *const[]){f->path, ": of ", all, " events, ", missing, why, NULL});
}

/* Lines of a trace are not only of events. */
static void say_beyond(const struct events *e, const struct events_file *f)
{
    char n[24];
    snprintf(n, sizeof n, "%llu", (unsigned long long)f->left_out);
    if (f == &e->folded)
        say_missing(e, f, f->left_out, " are beyond events_max_bytes");
    else if (f->left_out > 0 && events_file_is_wanted(f))
        e->host->say((const char *const[]){f->path, ": ", n, " of its lines are beyond events_max_bytes", NULL});
}

static void say_all_missing(const struct events *e, const struct events_file *f)
{
    say_missing(e, f, e->n_lost, " were overwritten before they were read (events_buffer_bytes)");
    say_missing(e, f, e->sink.without, " were of more threads than have a buffer (events_buffer_bytes)");
    say_missing(e, f, e->n_recycled, " are shown as (recycled), since their context was");
    say_beyond(e, f);
}

/* Folded stacks have no other sign that nothing is missing. What a program wrote before it executed this one stays. */
static void say_empty(struct events *e)
{
    struct events_file *f = &e->folded;
    if (!is_first(e) || !events_file_is_wanted(f) || f->bytes > 0 || f->is_broken || !events_file_touch(f))
        return;
    e->host->say((const char *const[]){f->path, ": no span of ", e->host->program, " was seen, so ",
                                       events_file_is_empty(f) ? "the file is empty" : "the file stays as it was", NULL});
}

static int open_all(struct events *e)
{
    const struct conf *c = e->host->conf;
    const struct events_names names = {.module_path = c->events_module_path, .file_and_line = c->events_file_and_line,
                                       .labels = c->events_labels, .json = c->trace_file[0] != '\0'};
    events_file_open(&e->folded, e->host, c->events_file, c->events_max_bytes);
    events_file_open(&e->trace, e->host, c->trace_file, c->events_max_bytes);
    events_file_open(&e->flame, e->host, c->flame_file, UINT64_MAX);
    events_file_open(&e->svg, e->host, c->flame_svg_file, UINT64_MAX);
    e->paths = events_paths_make(&names);
    e->memory = events_memory_make();
    return e->paths && e->memory ? 0 : -ENOMEM;
}

static void close_all(struct events *e)
{
    events_file_close(&e->folded, "");
    events_file_close(&e->trace, EVENTS_TRACE_END);
    events_file_close(&e->flame, "");
    events_file_close(&e->svg, "");
    if (e->paths)
        events_paths_free(e->paths);
    events_memory_free(e->memory);
    e->host->free_snapshot(e->snapshot);
}

static int run(const struct service_host *host)
{
    struct events *e = calloc(1, sizeof *e);
    if (!e)
        return -ENOMEM;
    e->sink = (struct event_sink){.event = on_event, .lost = on_lost};
    e->host = host;
    host->free_snapshot(host->base);
    int error = open_all(e);
    if (error == 0 && wants_events(e) && host->conf->track_time == TRACK_TIME_OFF)
        host->say((const char *const[]){"track_time:off: there are no events", NULL});
    if (error == 0) {
        if (is_first(e))
            begin_trace(e);
        loop(e);
        end_lanes(e);
        show_memory(e, true);
        write_flames(e);
        say_empty(e);
        say_all_missing(e, &e->folded);
        say_all_missing(e, &e->trace);
    }
    close_all(e);
    free(e);
    return error;
}

const struct service jespan_service_events = {.abi = SERVICE_ABI, .name = "events", .run = run};
