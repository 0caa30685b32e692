/* SPDX-License-Identifier: BSD-2-Clause */
/* A reporter that remembers its calls and checks that they come in the promised order. It allocates nothing from the
 * heap, so figures can be compared to the byte. `wrong` names the first broken promise. */
#ifndef JESPAN_TESTS_TOLD_H
#define JESPAN_TESTS_TOLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#include <jespan/reporter.h>

#define TOLD_SPANS 8192

struct told_span {
    uint64_t id; /* of the last span that had this number, plus 1 */
    bool open;
    uint32_t open_children;
    uint64_t text; /* a hash of all that its info says */
    struct jespan_heap heap;
    struct jespan_allocations allocations;
};

struct told {
    struct told_span spans[TOLD_SPANS]; /* by the number of their context */
    struct jespan_cpu cpu;
    struct jespan_wall wall;
    struct jespan_allocations allocations;
    uint64_t heap_objects, heap_bytes, opened, closed, inits, shutdowns;
    _Atomic uint64_t rounds;
    const char *wrong;
    bool in_call;
    /* What the reporter does in its callbacks: */
    int init_error;
    _Atomic int flush_error;
    _Atomic uint64_t flush_ms; /* how long that takes */
    _Atomic bool stuck;        /* and how long it does not come back */
    void (*in_flush)(struct told *);
};

static inline void told_expect(struct told *t, bool condition, const char *promise)
{
    if (!condition && !t->wrong)
        t->wrong = promise;
}

static inline uint64_t told_hash(uint64_t h, const char *text)
{
    do
        h = (h ^ (unsigned char)*text) * 1099511628211u;
    while (*text++);
    return h;
}

static inline uint64_t told_text(const struct jespan_span_info *info)
{
    uint64_t h = told_hash(told_hash(told_hash(told_hash(info->id, info->kind), info->name), info->target), info->file);
    for (uint32_t i = 0; i < info->n_labels; i++)
        h = told_hash(told_hash(h, info->labels[i].key), info->labels[i].value);
    return h * 31 + info->line;
}

/* Each pair of calls of a reporter comes one after the other. */
static inline void told_begin(struct told *t)
{
    told_expect(t, t->inits == 1 && !t->shutdowns, "init comes first, shutdown last, both once");
    told_expect(t, !t->in_call, "one call at a time");
    t->in_call = true;
}

static inline struct told_span *told_span(struct told *t, const struct jespan_span_info *info)
{
    struct told_span *s = &t->spans[(uint32_t)info->id % TOLD_SPANS];
    told_begin(t);
    told_expect(t, s->open && s->id == info->id + 1, "opened before all else, closed after it");
    told_expect(t, s->text == told_text(info), "what a span is stays as it was");
    t->in_call = false;
    return s;
}

static inline int told_init(void *user)
{
    struct told *t = user;
    told_expect(t, !t->inits && !t->opened, "init comes first, shutdown last, both once");
    t->inits++;
    return t->init_error;
}

static inline void told_span_opened(void *user, const struct jespan_span_info *info)
{
    struct told *t = user;
    struct told_span *s = &t->spans[(uint32_t)info->id % TOLD_SPANS];
    told_begin(t);
    told_expect(t, !s->open && s->id < info->id + 1, "a number comes back with a higher id only");
    told_expect(t, (info->parent == NULL) == (strcmp(info->kind, "root") == 0), "all but the root have a parent");
    if (info->parent) {
        struct told_span *parent = &t->spans[(uint32_t)info->parent->id];
        told_expect(t, parent->open && parent->id == info->parent->id + 1, "parents are opened before their children");
        parent->open_children++;
    }
    *s = (struct told_span){.id = info->id + 1, .open = true, .text = told_text(info)};
    t->opened++;
    t->in_call = false;
}

static inline void told_span_closed(void *user, const struct jespan_span_info *info)
{
    struct told *t = user;
    struct told_span *s = told_span(t, info);
    told_expect(t, !s->open_children, "children are closed before their parents");
    told_expect(t, !s->heap.inuse_objects && !s->heap.inuse_bytes, "what is closed holds nothing");
    told_expect(t, info->parent, "the root stays");
    t->spans[(uint32_t)info->parent->id].open_children--;
    s->open = false;
    t->closed++;
}

static inline void told_cpu(void *user, const struct jespan_span_info *info, const struct jespan_cpu *d)
{
    struct told *t = user;
    told_span(t, info);
    told_expect(t, (int64_t)(d->cpu_ns | d->user_ns | d->system_ns) > 0, "differences are positive");
    t->cpu.cpu_ns += d->cpu_ns;
    t->cpu.user_ns += d->user_ns;
    t->cpu.system_ns += d->system_ns;
}

static inline void told_wall(void *user, const struct jespan_span_info *info, const struct jespan_wall *d)
{
    struct told *t = user;
    told_span(t, info);
    uint64_t all_bits = d->opens | d->enters | d->wall_ns | d->busy_ns | d->idle_ns;
    told_expect(t, (int64_t)all_bits > 0, "differences are positive");
    t->wall.opens += d->opens;
    t->wall.enters += d->enters;
    t->wall.wall_ns += d->wall_ns;
    t->wall.busy_ns += d->busy_ns;
    t->wall.idle_ns += d->idle_ns;
}

static inline void told_add(struct jespan_allocations *sum, const struct jespan_allocations *d)
{
    uint64_t *to = (uint64_t *)sum;
    for (size_t i = 0; i < sizeof *d / sizeof *to; i++)
        to[i] += ((const uint64_t *)d)[i];
}

static inline void told_allocations(void *user, const struct jespan_span_info *info, const struct jespan_allocations *d)
{
    struct told *t = user;
    struct told_span *s = told_span(t, info);
    bool any = false;
    for (size_t i = 0; i < sizeof *d / sizeof(uint64_t); i++) {
        told_expect(t, (int64_t)((const uint64_t *)d)[i] >= 0, "differences are positive");
        any |= ((const uint64_t *)d)[i] != 0;
    }
    told_expect(t, any, "only what changed is told");
    told_add(&s->allocations, d);
    told_add(&t->allocations, d);
}

static inline void told_heap(void *user, const struct jespan_span_info *info, const struct jespan_heap *now)
{
    struct told *t = user;
    struct told_span *s = told_span(t, info);
    told_expect(t, s->heap.inuse_objects != now->inuse_objects || s->heap.inuse_bytes != now->inuse_bytes,
                "only what changed is told");
    t->heap_objects += now->inuse_objects - s->heap.inuse_objects;
    t->heap_bytes += now->inuse_bytes - s->heap.inuse_bytes;
    s->heap = *now;
}

static inline void told_sleep_ms(uint64_t ms)
{
    nanosleep(&(struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

static inline int told_flush(void *user)
{
    struct told *t = user;
    told_begin(t);
    told_sleep_ms(t->flush_ms);
    t->in_call = false;
    if (t->in_flush)
        t->in_flush(t);
    t->rounds++;
    while (t->stuck)
        told_sleep_ms(1);
    return t->flush_error;
}

static inline void told_shutdown(void *user)
{
    struct told *t = user;
    told_begin(t);
    t->shutdowns++;
    t->in_call = false;
}

static inline struct jespan_reporter told_reporter(struct told *t, const char *name)
{
    return (struct jespan_reporter){
        .size = sizeof(struct jespan_reporter), .name = name, .user = t, .init = told_init,
        .span_opened = told_span_opened, .span_closed = told_span_closed, .cpu = told_cpu, .wall = told_wall,
        .allocations = told_allocations, .heap = told_heap, .flush = told_flush, .shutdown = told_shutdown};
}

#endif
