/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots of another process that threads share. */
#include "sidecar/readings.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/clock.h"
#include "snapshot/view.h"

#define MOST 8 /* the loop and each service use at most two at a time */

struct reading {
    struct snapshot *snapshot; /* NULL: unused */
    unsigned users;
};

struct readings {
    pthread_mutex_t mutex;
    struct view *view;
    struct program program; /* constant */
    struct reading all[MOST], *last;
    uint64_t last_ns;
    int error;
};

int readings_open(struct readings **to, pid_t pid, const struct exporter *exporter)
{
    struct readings *r = calloc(1, sizeof *r);
    int error = r ? view_open(&r->view, pid) : -ENOMEM;
    if (error) {
        free(r);
        return error;
    }
    pthread_mutex_init(&r->mutex, NULL);
    if (exporter && exporter->identify)
        exporter->identify(&r->program, pid);
    *to = r;
    return 0;
}

bool readings_close(struct readings *r)
{
    for (struct reading *one = r->all; one < r->all + MOST; one++)
        if (one->users > 0)
            return false;
    for (struct reading *one = r->all; one < r->all + MOST; one++)
        snapshot_free(one->snapshot);
    view_close(r->view);
    free(r);
    return true;
}

static void drop(struct readings *r, struct snapshot *s)
{
    for (struct reading *one = r->all; s && one < r->all + MOST; one++)
        if (one->snapshot == s)
            one->users--;
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

/* Sets r->last to a new reading. */
static void read_now(struct readings *r)
{
    struct reading *one = find_unused(r);
    uint64_t now = clock_ns(CLOCK_MONOTONIC);
    struct snapshot *s = one ? view_snapshot(r->view, one->snapshot) : NULL;
    r->error = s ? 0 : one ? (errno > 0 ? -errno : errno) : -ENOMEM;
    if (!s)
        return;
    s->program = &r->program;
    one->snapshot = s;
    r->last = one;
    r->last_ns = now;
}

static bool has_ended(const struct readings *r)
{
    return r->error == -ESRCH || r->error == -ENOENT;
}

struct snapshot *readings_next(struct readings *r, struct snapshot *old)
{
    pthread_mutex_lock(&r->mutex);
    if (!has_ended(r))
        read_now(r);
    struct snapshot *s = r->last && (!r->error || has_ended(r)) ? r->last->snapshot : NULL;
    if (s) {
        drop(r, old);
        r->last->users++;
    }
    pthread_mutex_unlock(&r->mutex);
    return s;
}

struct snapshot *readings_last(struct readings *r, uint64_t *age_ns)
{
    pthread_mutex_lock(&r->mutex);
    struct snapshot *s = r->last ? r->last->snapshot : NULL;
    if (s)
        r->last->users++;
    *age_ns = clock_ns(CLOCK_MONOTONIC) - r->last_ns;
    pthread_mutex_unlock(&r->mutex);
    return s;
}

void readings_give_back(struct readings *r, struct snapshot *s)
{
    pthread_mutex_lock(&r->mutex);
    drop(r, s);
    pthread_mutex_unlock(&r->mutex);
}

int readings_error(struct readings *r)
{
    pthread_mutex_lock(&r->mutex);
    int error = r->error;
    pthread_mutex_unlock(&r->mutex);
    return error;
}

const struct program *readings_program(const struct readings *r)
{
    return &r->program;
}
