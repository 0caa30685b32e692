/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes the events of threads into their rings. A thread gets its ring when it first enters a span. */
#include "span/events.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/meta.h"
#include "conf/conf.h"
#include "heap/thread.h"
#include "heap/timing.h"
#include "span/tree.h"

#define RECORDS_MAX_BYTES (UINT64_C(128) << 20) /* of all rings together */

struct event_rings event_rings;
static uint32_t event_life;               /* another one in each forked child */
static _Atomic uint32_t last_number = 1;  /* of a thread. The main thread has 1 */

static void put(struct event_ring *ring, struct event_record record)
{
    uint64_t head = load_relaxed(&ring->head);
    struct event_record *to = &ring->records[head & (ring->n_records - 1)];
    store_relaxed(&to->when, record.when);
    store_relaxed(&to->what, record.what);
    store_release(&ring->head, head + 1);
}

static struct event_record record_of(enum event_kind kind, uint64_t now, uint32_t low, uint32_t high)
{
    return (struct event_record){now | (uint64_t)kind << EVENT_KIND_SHIFT, low | (uint64_t)high << 32};
}

/* ---- Rings ---- */

static uint32_t records_wanted(void)
{
    uint32_t n = 1;
    while (2 * n * sizeof(struct event_record) <= conf.events_buffer_bytes) /* with the ring's head: a page more */
        n *= 2;
    return n;
}

static size_t ring_bytes(uint32_t n_records)
{
    return sizeof(struct event_ring) + n_records * sizeof(struct event_record);
}

/* NULL: there are too many, or there is no memory. */
static COLD struct event_ring *make_ring(void)
{
    uint32_t n_records = records_wanted();
    uint64_t fit = RECORDS_MAX_BYTES / (n_records * sizeof(struct event_record)), most = fit < EVENT_RINGS_MAX ? fit : EVENT_RINGS_MAX;
    uint32_t place = load_relaxed(&event_rings.n);
    do
        if (place >= most)
            return NULL;
    while (!atomic_compare_exchange_weak(&event_rings.n, &place, place + 1));
    struct event_ring *ring = meta_map(ring_bytes(n_records));
    if (!ring)
        return NULL;
    ring->n_records = n_records;
    ring->life = event_life;
    store_release(&event_rings.all[place], ring);
    return ring;
}

/* ---- Threads ---- */

/* The names are written first: a reader that finds the new owner_head finds them. */
static void introduce(struct event_ring *ring, const struct thread *t)
{
    pid_t id = (pid_t)syscall(SYS_gettid);
    uint32_t number = id == getpid() ? 1 : atomic_fetch_add_explicit(&last_number, 1, memory_order_relaxed) + 1;
    uint64_t name[EVENT_NAME_WORDS] = {0};
    prctl(PR_GET_NAME, name);
    const struct event_record records[] = {record_of(EVENT_THREAD, t->began, number, (uint32_t)id),
                                           {(uint64_t)EVENT_NAME << EVENT_KIND_SHIFT, name[0]},
                                           {(uint64_t)EVENT_NAME << EVENT_KIND_SHIFT, name[1]}};
    uint64_t head = load_relaxed(&ring->head);
    for (int i = 0; i < 1 + EVENT_NAME_WORDS; i++) {
        store_relaxed(&ring->owner[i].when, records[i].when);
        store_relaxed(&ring->owner[i].what, records[i].what);
    }
    store_release(&ring->owner_head, head);
    for (int i = 0; i < 1 + EVENT_NAME_WORDS; i++)
        put(ring, records[i]);
}

/* A thread's block keeps its ring for the next thread. Threads that enter no span, such as jespan's own, need none. */
static COLD struct event_ring *begin(struct thread *t)
{
    if (t->ring_is_refused) {
        atomic_fetch_add_explicit(&event_rings.without, 1, memory_order_relaxed);
        return NULL;
    }
    if (!t->depth || t->base == CONTEXT_ID_SELF)
        return NULL;
    if (t->ring && t->ring->life != event_life) {
        meta_unmap(t->ring, ring_bytes(t->ring->n_records));
        t->ring = NULL;
    }
    if (!t->ring)
        t->ring = make_ring();
    if (!t->ring) {
        t->ring_is_refused = true;
        atomic_fetch_add_explicit(&event_rings.without, 1, memory_order_relaxed);
        return NULL;
    }
    t->ring->is_inside = false;
    introduce(t->ring, t);
    return t->events = t->ring;
}

/* The context for which time passes. A JESPAN_CREDIT() block changes the owner of memory and not of time. */
static uint32_t timed_context(const struct thread *t)
{
    uint32_t i = t->depth;
    while (i && entry_kind(&t->entries[i - 1]) == ENTRY_CREDIT)
        i--;
    return tree_whole(i ? t->entries[i - 1].context : t->base);
}

/* Whether the thread does work of jespan's own. No span was entered for it, so its time counts for the span around
 * it. */
static bool is_own_work(const struct thread *t, struct event_ring *ring)
{
    bool is_inside = t->depth && entry_kind(&t->entries[t->depth - 1]) == ENTRY_SELF;
    bool was_inside = ring && ring->is_inside;
    if (unlikely(ring && is_inside != was_inside))
        ring->is_inside = is_inside;
    return is_inside || was_inside;
}

/* errno is kept: begin() makes system calls. */
void timing_record(struct thread *t, uint64_t now)
{
    struct event_ring *ring = t->events;
    if (unlikely(is_own_work(t, ring)))
        return;
    if (unlikely(!ring)) {
        int saved = errno;
        ring = begin(t);
        errno = saved;
    }
    if (unlikely(!ring))
        return;
    uint32_t context = timed_context(t);
    put(ring, record_of(EVENT_SWITCH, now, context, tree_incarnation(load_relaxed(&context_lives[context]))));
}

COLD void timing_record_end(struct thread *t, uint64_t now)
{
    if (t->events)
        put(t->events, record_of(EVENT_END, now, 0, 0));
    t->events = NULL;
    t->ring_is_refused = false;
}

/* ---- Fork ---- */

COLD void events_after_fork(void)
{
    if (!timing_is_recorded)
        return;
    event_life++;
    store_relaxed(&event_rings.n, 0);
    store_relaxed(&event_rings.without, 0);
    store_relaxed(&last_number, 1);
    memset((void *)event_rings.all, 0, sizeof event_rings.all);
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        t->events = NULL, t->ring_is_refused = false;
    struct thread *own = thread_current;
    timing_is_recorded = timing_is_recorded && conf.follow_fork;
    if (own && timing_is_recorded) {
        own->began = clock_ticks();
        timing_record(own, own->began);
    }
}
