/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of threads: spans.threads.count, spans.threads.ids, spans.threads.<thread>.*. A thread has the kernel's number.
 *
 * Threads that have ended are found in their block until the next thread takes it over, and then among thread_pasts. All figures
 * are read live, and are exact while threads are quiet.
 */
#include <errno.h>
#include <string.h>

#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "ctl/ctl.h"
#include "heap/sums.h"
#include "snapshot/thread_bounds.h"
#include "span/tree.h"

/* ---- Which thread ---- */

struct found {
    struct thread *block;
    bool live;
    uint32_t lives;
    char name[16];
    struct thread_sums before; /* of the block: what it had counted when the thread began */
    struct thread_sums sums;   /* of a thread whose block was taken over. Else they are read later */
    bool is_past;
    uint64_t n_threads; /* that have had the block */
};

typedef bool each_function(void *to, const struct found *f, int thread_id);

static const struct thread_past *past_of(uint64_t i)
{
    return &load_relaxed(&thread_pasts.chunks[i % THREAD_PASTS / THREAD_PASTS_AT_ONCE])[i % THREAD_PASTS_AT_ONCE];
}

/* The newest first, so far as that is known: threads with a block, and then records. Until the function returns false. */
static void each_thread(each_function *each, void *to)
{
    jespan_assert(lock_is_held(LOCK_THREADS));
    for (struct thread *t = thread_next(thread_first()); t; t = thread_next(t)) {
        struct found f = {.block = t, .live = load_relaxed(&t->live), .lives = t->lives, .before = t->before};
        memcpy(f.name, t->name, sizeof f.name);
        if (t->lives && t->thread_id && !each(to, &f, t->thread_id))
            return;
    }
    uint64_t n = load_relaxed(&thread_pasts.n), first = n > THREAD_PASTS ? n - THREAD_PASTS : 0;
    while (n-- > first) {
        const struct thread_past *past = past_of(n);
        struct found f = {.block = past->block, .lives = past->lives, .sums = past->sums, .is_past = true};
        memcpy(f.name, past->name, sizeof f.name);
        if (past->thread_id && !each(to, &f, past->thread_id))
            return;
    }
}

struct search {
    int thread_id;
    struct found found;
};

static bool is_wanted(void *to, const struct found *f, int thread_id)
{
    struct search *s = to;
    if (thread_id == s->thread_id && (!s->found.block || (f->live && !s->found.live)))
        s->found = *f;
    return !s->found.live;
}

static bool has_block(void *to, const struct found *f, int thread_id)
{
    struct found *found = to;
    (void)thread_id;
    found->n_threads += f->block == found->block ? f->lives : 0;
    return true;
}

static bool find(struct found *found, uint32_t id)
{
    struct search s = {.thread_id = (int)id};
    lock(LOCK_THREADS);
    each_thread(is_wanted, &s);
    if (s.found.block)
        each_thread(has_block, &s.found);
    unlock(LOCK_THREADS);
    *found = s.found;
    return found->block;
}

/* ---- Figures ---- */

struct figures {
    uint64_t alloc_objects, alloc_bytes, free_objects, free_bytes;
    struct thread_shares shares;
};

/* What a context has in all blocks and in one; and the context that a stack or a period counts for. */
struct cell {
    struct thread_flow all, own;
    uint32_t owner;
};

/* The parent of a stack may be a period. */
static void find_owners(struct cell *cells, uint32_t end)
{
    lock(LOCK_TREE);
    for (uint32_t id = 0; id < end; id++) {
        const struct context *c = &contexts[id];
        bool is_part = c->kind == CONTEXT_STACK || c->kind == CONTEXT_PERIOD;
        cells[id].owner = id == CONTEXT_ID_UNSAMPLED ? CONTEXT_ID_ROOT : is_part && c->parent < end ? c->parent : id;
    }
    unlock(LOCK_TREE);
}

static struct cell *owner_of(struct cell *cells, uint32_t id)
{
    return &cells[cells[cells[id].owner].owner];
}

static void add_flow(struct thread_flow *flow, const struct totals *t)
{
    flow->in += t->alloc_bytes + t->credited_in_bytes;
    flow->out += t->free_bytes + t->credited_out_bytes;
}

static void add_own(struct figures *figures, const struct totals *t)
{
    figures->alloc_objects += t->alloc_objects;
    figures->alloc_bytes += t->alloc_bytes;
    figures->free_objects += t->free_objects;
    figures->free_bytes += t->free_bytes;
}

static void read_cells(struct cell *cells, uint32_t end, struct thread *block, struct figures *own)
{
    struct totals sums[COUNTERS_PER_CHUNK];
    for (uint32_t first = 0, n; first < end; first += n) {
        n = end - first < COUNTERS_PER_CHUNK ? end - first : COUNTERS_PER_CHUNK;
        sums_read_block(sums, block, first, first + n);
        for (uint32_t i = 0; i < n; i++) {
            add_own(own, &sums[i]);
            add_flow(&owner_of(cells, first + i)->own, &sums[i]);
        }
        sums_read(sums, first, first + n);
        for (uint32_t i = 0; i < n; i++)
            add_flow(&owner_of(cells, first + i)->all, &sums[i]);
    }
}

/* What the block has counted since the thread began; or what was counted for the thread when its block was taken over. */
static void leave_out(struct figures *figures, const struct found *f)
{
    const struct thread_sums *s = f->is_past ? &f->sums : &f->before;
    figures->alloc_objects = f->is_past ? s->alloc_objects : saturating_sub(figures->alloc_objects, s->alloc_objects);
    figures->alloc_bytes = f->is_past ? s->alloc_bytes : saturating_sub(figures->alloc_bytes, s->alloc_bytes);
    figures->free_objects = f->is_past ? s->free_objects : saturating_sub(figures->free_objects, s->free_objects);
    figures->free_bytes = f->is_past ? s->free_bytes : saturating_sub(figures->free_bytes, s->free_bytes);
}

static int measure(const struct found *f, struct figures *figures)
{
    uint32_t end = tree_end();
    size_t bytes = (size_t)end * sizeof(struct cell);
    struct cell *cells = meta_map(bytes);
    struct thread_block_shares block = {.n_threads = f->n_threads};
    *figures = (struct figures){0};
    if (!cells)
        return EAGAIN;
    find_owners(cells, end);
    read_cells(cells, end, f->block, figures);
    for (uint32_t id = 0; id < end; id++)
        thread_block_add(&block, &cells[id].own, &cells[id].all);
    meta_unmap(cells, bytes);
    leave_out(figures, f);
    figures->shares = thread_shares_of(&block, figures->alloc_bytes);
    return 0;
}

/* ---- Names ---- */

enum { LIVE, THREADS };

static int thread_figure(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    struct found found;
    struct figures figures;
    ctl_flush_own();
    int error = find(&found, id) ? measure(&found, &figures) : ENOENT;
    return error ? error : ctl_read_u64(call, *(const uint64_t *)((const char *)&figures + self->offset));
}

static int thread_state_of(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    struct found found;
    if (!find(&found, id))
        return ENOENT;
    return ctl_read_u64(call, self->offset == LIVE ? found.live : found.lives);
}

/* The thread may end, and another one take over its block, so the caller gets a copy. */
static int thread_name(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    static THREAD_LOCAL char name[sizeof((struct found *)0)->name];
    struct found found;
    const char *text = name;
    (void)self;
    if (!find(&found, id))
        return ENOENT;
    memcpy(name, found.name, sizeof name - 1);
    return ctl_read(call, &text, sizeof text);
}

struct listing {
    uint32_t *ids;
    size_t n, capacity;
};

static bool add_id(void *to, const struct found *f, int thread_id)
{
    struct listing *l = to;
    (void)f;
    if (l->n < l->capacity)
        l->ids[l->n] = (uint32_t)thread_id;
    l->n++;
    return true;
}

static struct listing list(uint32_t *ids, size_t capacity)
{
    struct listing l = {ids, 0, capacity};
    lock(LOCK_THREADS);
    each_thread(add_id, &l);
    unlock(LOCK_THREADS);
    return l;
}

static int threads_count(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    return ctl_read_u64(call, list(NULL, 0).n);
}

static int threads_ids(const struct ctl_name *self, uint32_t id, const struct ctl_call *call)
{
    (void)self;
    (void)id;
    int error = ctl_check_array(call);
    if (!error)
        ctl_end_array(call, list(call->old, ctl_room(call, sizeof(uint32_t))).n, sizeof(uint32_t));
    return error;
}

const struct ctl_name ctl_threads_names[] = {{"count", threads_count, 0}, {"ids", threads_ids, 0}, {0}};

#define FIGURE(name) {#name, thread_figure, offsetof(struct figures, name)}
#define SHARE(name, member) {#name, thread_figure, offsetof(struct figures, shares.member)}
static const struct ctl_name thread_names[] = {
    {"name", thread_name, 0},
    {"live", thread_state_of, LIVE},
    {"threads", thread_state_of, THREADS},
    FIGURE(alloc_objects),
    FIGURE(alloc_bytes),
    FIGURE(free_objects),
    FIGURE(free_bytes),
    SHARE(inuse_least_bytes, in_use.low),
    SHARE(inuse_most_bytes, in_use.high),
    SHARE(freed_by_others_least_bytes, freed_by_others.low),
    SHARE(freed_by_others_most_bytes, freed_by_others.high),
    {0},
};
const struct ctl_group ctl_threads_groups[] = {{NULL, thread_names, NULL}, {0}};
