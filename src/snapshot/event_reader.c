/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the rings of events of a process. */
#include "snapshot/event_reader.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/clock.h"
#include "base/meta.h"
#include "snapshot/space.h"

#define RECORDS_AT_ONCE 4096u
#define RECORDS_MAX (UINT32_C(1) << 24)
#define THREAD_RECORDS (1 + EVENT_NAME_WORDS)

/* How far a ring was read. */
struct ring_state {
    uint64_t address; /* there; 0: not seen yet */
    uint64_t tail;    /* the next record to read */
    uint64_t last_ns; /* times never go back, though the clock's rate becomes more exact in the first second */
    struct event_thread thread;
    unsigned named;   /* words of its name */
    bool is_known;    /* the thread whose events come */
};

struct event_reader {
    struct ring_state rings[EVENT_RINGS_MAX];
    uint64_t addresses[EVENT_RINGS_MAX];
    struct event_record records[RECORDS_AT_ONCE];
};

struct event_reader *event_reader_make(void)
{
    return meta_map(sizeof(struct event_reader));
}

void event_reader_free(struct event_reader *r)
{
    if (r)
        meta_unmap(r, sizeof *r);
}

/* ---- Records ---- */

static uint64_t time_of(struct ring_state *state, const struct event_source *from, uint64_t ticks)
{
    uint64_t ns = ticks > from->start_ticks ? clock_ticks_to_ns(ticks - from->start_ticks, from->scale) : 0;
    if (ns > state->last_ns)
        state->last_ns = ns;
    return state->last_ns;
}

static void begin_thread(struct ring_state *state, uint64_t what)
{
    state->thread = (struct event_thread){.number = (uint32_t)what, .id = (int32_t)(what >> 32)};
    state->named = 0;
    state->is_known = true;
}

static void add_name(struct ring_state *state, uint64_t what)
{
    if (state->named < EVENT_NAME_WORDS)
        memcpy(state->thread.name + 8 * state->named++, &what, sizeof what);
}

static void take_record(struct event_reader *r, uint32_t ring, const struct event_source *from, struct event_sink *sink,
                        const struct event_record *record)
{
    struct ring_state *state = &r->rings[ring];
    uint64_t when = load_relaxed(&record->when), what = load_relaxed(&record->what);
    struct event event = {.kind = (enum event_kind)(when >> EVENT_KIND_SHIFT)};
    uint64_t ticks = when & ((UINT64_C(1) << EVENT_KIND_SHIFT) - 1);
    if (event.kind == EVENT_NAME) {
        add_name(state, what);
        return;
    }
    if (event.kind == EVENT_THREAD) {
        begin_thread(state, what);
        state->last_ns = 0;
    }
    if (!state->is_known || (unsigned)event.kind > EVENT_END) {
        sink->lost(sink, ring, 1);
        return;
    }
    event.ns = time_of(state, from, ticks);
    event.context = (uint32_t)what;
    event.generation = (uint32_t)(what >> 32);
    sink->event(sink, ring, &state->thread, &event);
    if (event.kind == EVENT_END)
        state->is_known = false;
}

/* ---- Rings ---- */

/* How many of the lost records were no events, but introduced the ring's owner. */
static uint64_t names_lost(const struct event_ring *head, uint64_t tail, uint64_t first)
{
    uint64_t begin = load_relaxed(&head->owner_head), end = begin + THREAD_RECORDS;
    begin = begin > tail ? begin : tail;
    end = end < first ? end : first;
    return end > begin ? end - begin : 0;
}

/* The records up to `first` were overwritten. The thread whose events come next is the ring's owner, if it began before
 * `first`; else its events up to the next EVENT_THREAD have no name. */
static void skip_to(struct event_reader *r, uint32_t ring, const struct event_ring *head, uint64_t first, struct event_sink *sink)
{
    struct ring_state *state = &r->rings[ring];
    sink->lost(sink, ring, first - state->tail - names_lost(head, state->tail, first));
    bool same = load_relaxed(&head->owner_head) < state->tail;
    if (!same) {
        state->is_known = false;
        if (load_relaxed(&head->owner_head) < first) {
            begin_thread(state, load_relaxed(&head->owner[0].what));
            for (int i = 1; i < THREAD_RECORDS; i++)
                add_name(state, load_relaxed(&head->owner[i].what));
        }
    }
    state->tail = first;
}

static int copy_head(const struct event_source *from, uint64_t address, struct event_ring *to)
{
    const struct piece piece = {to, address, offsetof(struct event_ring, records)};
    int error = space_copy(from->space, &piece, 1);
    uint32_t n = to->n_records;
    return error ? error : !n || n > RECORDS_MAX || (n & (n - 1)) ? -EBADMSG : 0;
}

/* The first record that the writer cannot have begun to overwrite. */
static uint64_t first_whole(const struct event_ring *head)
{
    uint64_t now = load_relaxed(&head->head) + 1;
    return now > head->n_records ? now - head->n_records : 0;
}

/* Records from the tail on, up to the end of the ring's memory, and at most as many as there is room for. */
static int copy_records(struct event_reader *r, const struct event_source *from, const struct ring_state *state,
                        const struct event_ring *head, uint32_t *n)
{
    uint64_t left = load_relaxed(&head->head) - state->tail;
    uint32_t place = (uint32_t)(state->tail & (head->n_records - 1)), to_end = head->n_records - place;
    *n = left < RECORDS_AT_ONCE ? (uint32_t)left : RECORDS_AT_ONCE;
    *n = *n < to_end ? *n : to_end;
    const struct piece piece = {r->records, state->address + offsetof(struct event_ring, records) + place * sizeof *r->records,
                                *n * sizeof *r->records};
    return space_copy(from->space, &piece, 1);
}

/* Skips records that the writer may have overwritten while they were copied. */
static int read_some(struct event_reader *r, uint32_t ring, const struct event_source *from, struct event_ring *head,
                     struct event_sink *sink)
{
    struct ring_state *state = &r->rings[ring];
    uint32_t n = 0;
    if (first_whole(head) > state->tail)
        skip_to(r, ring, head, first_whole(head), sink);
    int error = copy_records(r, from, state, head, &n);
    atomic_thread_fence(memory_order_acquire);
    if (!error)
        error = copy_head(from, state->address, head);
    if (error)
        return error;
    uint64_t begin = state->tail, whole = first_whole(head);
    if (whole > state->tail)
        skip_to(r, ring, head, whole, sink);
    for (; state->tail < begin + n; state->tail++)
        take_record(r, ring, from, sink, &r->records[state->tail - begin]);
    return 0;
}

/* A ring at another address is of another process, or damaged. Reads up to the head that was found first, so that a
 * thread that is as fast does not keep the reader from the others. */
static int read_ring(struct event_reader *r, uint32_t ring, uint64_t address, const struct event_source *from,
                     struct event_sink *sink)
{
    struct event_ring head;
    struct ring_state *state = &r->rings[ring];
    if (state->address != address)
        *state = (struct ring_state){.address = address};
    int error = copy_head(from, address, &head);
    uint64_t until = error ? 0 : load_relaxed(&head.head);
    if (!error && until < state->tail)
        return -EBADMSG;
    sink->is_filling |= !error && until - state->tail > head.n_records / 4;
    while (!error && state->tail < until)
        error = read_some(r, ring, from, &head, sink);
    return error;
}

int event_reader_read(struct event_reader *r, const struct event_source *from, struct event_sink *sink)
{
    _Atomic uint32_t n_there;
    _Atomic uint64_t without;
    const struct piece counts[] = {{&n_there, from->rings_at + offsetof(struct event_rings, n), sizeof n_there},
                                   {&without, from->rings_at + offsetof(struct event_rings, without), sizeof without}};
    int error = space_copy(from->space, counts, 2);
    uint32_t n = error ? 0 : load_relaxed(&n_there);
    if (n > EVENT_RINGS_MAX)
        return -EBADMSG;
    const struct piece rings = {r->addresses, from->rings_at + offsetof(struct event_rings, all), n * sizeof *r->addresses};
    if (!error && n)
        error = space_copy(from->space, &rings, 1);
    sink->is_filling = false;
    sink->without = error ? 0 : load_relaxed(&without);
    sink->now_ns = from->now_ticks > from->start_ticks ? clock_ticks_to_ns(from->now_ticks - from->start_ticks, from->scale) : 0;
    for (uint32_t i = 0; !error && i < n; i++)
        if (r->addresses[i])
            error = read_ring(r, i, r->addresses[i], from, sink);
    return error;
}
