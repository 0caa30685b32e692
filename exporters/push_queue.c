/* SPDX-License-Identifier: BSD-2-Clause */
/* The queue of periods to push. */
#include "push_queue.h"

#include <stdlib.h>

#include "conf/conf.h"
#include "random.h"

/* Makes a random UUID (RFC 9562, version 4). */
static void make_id(unsigned char id[16])
{
    random_fill(id, 16);
    id[6] = (unsigned char)((id[6] & 0x0f) | 0x40);
    id[8] = (unsigned char)((id[8] & 0x3f) | 0x80);
}

static void free_period(struct waiting *w)
{
    digest_free(w->digest);
    free(w);
}

/* Counts again, because digests may have changed. */
static void count(struct push_queue *q)
{
    q->n = q->bytes = 0;
    q->last = NULL;
    for (struct waiting *w = q->first; w; w = w->next) {
        q->n++;
        q->bytes += sizeof *w + digest_bytes(w->digest);
        q->last = w;
    }
}

/* Merges `older` into the period after it. */
static void merge(struct push_queue *q, struct waiting **older)
{
    struct waiting *from = *older, *to = from->next;
    for (int i = 0; i < PUSH_N_PROFILES; i++)
        if (from->accepted[i])
            digest_clear(from->digest, push_profiles[i].figures);
    to->inuse |= from->inuse && !from->accepted[PUSH_MEMORY];
    digest_merge(to->digest, from->digest);
    if (q->max_nodes > 0)
        q->folded += digest_fold(to->digest, q->max_nodes);
    make_id(to->id);
    *older = to;
    free_period(from);
    q->merged++;
    count(q);
}

bool push_queue_reserve(struct push_queue *q)
{
    if (!q->spare)
        q->spare = calloc(1, sizeof *q->spare);
    return q->spare;
}

bool push_queue_add(struct push_queue *q, struct digest *digest, uint64_t now_ns)
{
    if (!push_queue_reserve(q))
        return false;
    struct waiting *w = q->spare;
    q->spare = NULL;
    w->digest = digest;
    w->made_ns = now_ns;
    make_id(w->id);
    if (q->last)
        q->last->next = w;
    else
        q->first = w;
    count(q);
    if (q->first->refused)
        merge(q, &q->first);
    return true;
}

static bool is_old(const struct push_queue *q, const struct waiting *w, uint64_t now_ns)
{
    return now_ns - w->made_ns >= q->max_age_ns;
}

void push_queue_limit(struct push_queue *q, uint64_t now_ns, bool busy)
{
    while (q->first) {
        bool stays = busy || (q->first->sent && !is_old(q, q->first, now_ns));
        struct waiting **oldest = stays ? &q->first->next : &q->first;
        if (!*oldest || !(*oldest)->next)
            return;
        if (q->bytes <= q->max_bytes && !is_old(q, *oldest, now_ns))
            return;
        merge(q, oldest);
    }
}

void push_queue_gather(struct push_queue *q, bool busy)
{
    if (!q->first)
        return;
    struct waiting **oldest = busy || q->first->sent ? &q->first->next : &q->first;
    while (*oldest && (*oldest)->next)
        merge(q, oldest);
}

void push_queue_rename(struct push_queue *q)
{
    make_id(q->first->id);
    q->first->sent = false;
}

void push_queue_refuse(struct push_queue *q)
{
    q->first->refused = true;
    if (q->first->next)
        merge(q, &q->first);
}

void push_queue_remove(struct push_queue *q)
{
    struct waiting *w = q->first;
    q->first = w->next;
    free_period(w);
    count(q);
}

struct waiting *push_queue_first(const struct push_queue *q)
{
    return q->first && !q->first->refused ? q->first : NULL;
}

void push_queue_free(struct push_queue *q)
{
    while (q->first)
        push_queue_remove(q);
    free(q->spare);
    q->spare = NULL;
}

/* ---- The profiles that are pushed for each period ---- */

static void read_allocations(const struct totals *t, int64_t values[PPROF_MAX_VALUES])
{
    values[0] = (int64_t)t->alloc_objects;
    values[1] = (int64_t)t->alloc_bytes;
}

static const struct pprof_kind allocations = {
    .values = {{"alloc_objects", "count"}, {"alloc_space", "bytes"}},
    .n_values = 2,
    .period = {"space", "bytes"},
    .read = read_allocations,
};

const struct push_profile push_profiles[PUSH_N_PROFILES] = {
    {"memory", &pprof_heap, &allocations, DIGEST_ALLOCATIONS, TRACK_TIME_OFF},
    {"process_cpu", &pprof_cpu, &pprof_cpu, DIGEST_CPU, TRACK_TIME_CPU},
    {"wall", &pprof_wall, &pprof_wall, DIGEST_WALL, TRACK_TIME_WALL},
};
