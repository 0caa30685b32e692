/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots of other processes that threads share. */
#include "sidecar/readings.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "snapshot/alert_figures.h"
#include "snapshot/fork_base.h"
#include "snapshot/names_outside.h"
#include "snapshot/view.h"

#define MOST 9 /* the loop and each service use at most two at a time; watched.c keeps one */

struct reading {
    struct snapshot *snapshot; /* NULL: unused */
    unsigned users;
    bool is_base; /* its figures were changed, so it is not used again */
};

struct readings {
    pthread_mutex_t mutex;
    struct view *view;
    struct program program; /* constant; all snapshots have its address */
    struct service_process process; /* constant, except inuse_bytes */
    struct reading all[MOST], *last;
    uint64_t last_ns;
    struct view *events_view;           /* another one, as a view is for one thread at a time. NULL: not opened */
    struct event_reader *event_reader;
    struct alert_figures alerts[ALERTS_MOST]; /* sidecar/watched.c writes them */
    int error;
    unsigned owners;             /* and snapshots in use */
    struct readings *next_listed; /* under list_mutex */
};

static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER; /* may be locked before that of readings */
static struct readings *first_listed;

/* ---- One process ---- */

int readings_open(struct readings **to, pid_t pid, const char *name, const struct exporter *exporter)
{
    struct readings *r = calloc(1, sizeof *r);
    int error = r ? view_open(&r->view, pid) : -ENOMEM;
    if (error) {
        free(r);
        return error;
    }
    pthread_mutex_init(&r->mutex, NULL);
    r->owners = 1;
    r->process.pid = pid;
    snprintf(r->process.name, sizeof r->process.name, "%s", name);
    if (exporter && exporter->identify)
        exporter->identify(&r->program, pid);
    snprintf(r->program.name, sizeof r->program.name, "%s", name);
    *to = r;
    return 0;
}

void readings_hold(struct readings *r)
{
    pthread_mutex_lock(&r->mutex);
    r->owners++;
    pthread_mutex_unlock(&r->mutex);
}

void readings_release(struct readings *r)
{
    pthread_mutex_lock(&r->mutex);
    bool is_last = --r->owners == 0;
    pthread_mutex_unlock(&r->mutex);
    if (!is_last)
        return;
    for (struct reading *one = r->all; one < r->all + MOST; one++)
        snapshot_free(one->snapshot);
    view_close(r->view);
    view_close(r->events_view);
    event_reader_free(r->event_reader);
    free(r);
}

int readings_events(struct readings *r, struct event_sink *sink)
{
    int error = r->events_view ? 0 : view_open(&r->events_view, r->process.pid);
    if (!error && !r->event_reader)
        r->event_reader = event_reader_make();
    return error ? error : r->event_reader ? view_read_events(r->events_view, r->event_reader, sink) : -ENOMEM;
}

struct alert_figures *readings_alerts(struct readings *r)
{
    return r->alerts;
}

int readings_get(struct readings *r, const char *name, struct mailbox_answer *answer)
{
    pthread_mutex_lock(&r->mutex);
    int error = r->last && !r->error ? names_outside_get(r->view, r->last->snapshot, name, answer) : -EAGAIN;
    pthread_mutex_unlock(&r->mutex);
    return error;
}

pid_t readings_pid(const struct readings *r)
{
    return r->process.pid;
}

/* A reading that nobody uses, with its old snapshot. NULL: all are in use. */
static struct reading *find_unused(struct readings *r)
{
    struct reading *found = NULL;
    for (struct reading *one = r->all; one < r->all + MOST; one++)
        if (one->users == 0 && one != r->last && (!found || one->snapshot))
            found = one;
    return found;
}

/* Reads into one that nobody uses. NULL: r->error says why. */
static struct reading *read_one(struct readings *r)
{
    struct reading *one = find_unused(r);
    struct snapshot *s = one ? view_snapshot(r->view, one->snapshot) : NULL;
    r->error = s ? 0 : one ? (errno > 0 ? -errno : errno) : -ENOMEM;
    if (!s)
        return NULL;
    s->program = &r->program;
    one->snapshot = s;
    return one;
}

/* Sets r->last to a new reading. */
static void read_now(struct readings *r)
{
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    struct reading *one = read_one(r);
    if (!one)
        return;
    r->process.inuse_bytes = totals_inuse_bytes(&one->snapshot->all);
    r->last = one;
    r->last_ns = now;
}

static bool has_ended(const struct readings *r)
{
    return r->error == -ESRCH || r->error == -ENOENT;
}

static struct snapshot *use(struct readings *r, struct reading *one)
{
    if (!one)
        return NULL;
    one->users++;
    r->owners++;
    return one->snapshot;
}

struct snapshot *readings_next(struct readings *r)
{
    pthread_mutex_lock(&r->mutex);
    if (!has_ended(r))
        read_now(r);
    struct snapshot *s = !r->error || has_ended(r) ? use(r, r->last) : NULL;
    pthread_mutex_unlock(&r->mutex);
    return s;
}

struct snapshot *readings_last(struct readings *r, uint64_t *began_ns)
{
    pthread_mutex_lock(&r->mutex);
    struct snapshot *s = use(r, r->last);
    *began_ns = r->last_ns;
    pthread_mutex_unlock(&r->mutex);
    return s;
}

struct snapshot *readings_base(struct readings *r)
{
    pthread_mutex_lock(&r->mutex);
    struct reading *one = read_one(r);
    if (one) {
        fork_base_apply(r->view, one->snapshot);
        one->is_base = true;
    }
    struct snapshot *s = use(r, one);
    pthread_mutex_unlock(&r->mutex);
    return s;
}

static struct readings *readings_of(const struct snapshot *s)
{
    return (struct readings *)((char *)(uintptr_t)s->program - offsetof(struct readings, program));
}

static struct reading *find_reading(struct readings *r, const struct snapshot *s)
{
    struct reading *one = r->all;
    while (one->snapshot != s)
        one++;
    return one;
}

void readings_share(struct snapshot *s)
{
    struct readings *r = readings_of(s);
    pthread_mutex_lock(&r->mutex);
    find_reading(r, s)->users++;
    r->owners++;
    pthread_mutex_unlock(&r->mutex);
}

void readings_give_back(struct snapshot *s)
{
    if (!s)
        return;
    struct readings *r = readings_of(s);
    pthread_mutex_lock(&r->mutex);
    struct reading *one = find_reading(r, s);
    if (--one->users == 0 && one->is_base) {
        snapshot_free(s);
        *one = (struct reading){.snapshot = NULL};
    }
    pthread_mutex_unlock(&r->mutex);
    readings_release(r);
}

int readings_error(struct readings *r)
{
    pthread_mutex_lock(&r->mutex);
    int error = r->error;
    pthread_mutex_unlock(&r->mutex);
    return error;
}

/* ---- The list ---- */

void readings_list(struct readings *r, bool as_first)
{
    pthread_mutex_lock(&list_mutex);
    struct readings **at = &first_listed;
    while (*at && !as_first)
        at = &(*at)->next_listed;
    r->next_listed = *at;
    *at = r;
    pthread_mutex_unlock(&list_mutex);
}

void readings_unlist(struct readings *r)
{
    pthread_mutex_lock(&list_mutex);
    for (struct readings **at = &first_listed; *at; at = &(*at)->next_listed)
        if (*at == r) {
            *at = r->next_listed;
            break;
        }
    pthread_mutex_unlock(&list_mutex);
}

struct readings *readings_find(pid_t pid)
{
    pthread_mutex_lock(&list_mutex);
    struct readings *r = first_listed;
    while (r && pid && r->process.pid != pid)
        r = r->next_listed;
    if (r)
        readings_hold(r);
    pthread_mutex_unlock(&list_mutex);
    return r;
}

size_t readings_all(struct service_process *all, size_t room)
{
    size_t n = 0;
    pthread_mutex_lock(&list_mutex);
    for (struct readings *r = first_listed; r; r = r->next_listed, n++) {
        if (n >= room)
            continue;
        pthread_mutex_lock(&r->mutex);
        all[n] = r->process;
        pthread_mutex_unlock(&r->mutex);
    }
    pthread_mutex_unlock(&list_mutex);
    return n;
}
