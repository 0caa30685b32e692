/* SPDX-License-Identifier: BSD-2-Clause */
/* Readings of another process. They work as readings of this one (reading.h), but read copies.
 *
 * A thread's frees are copied before its allocations, because the kernel copies from low to high addresses. Whatever is
 * copied may be wrong. So each address is only given to space_copy(), and each number has bounds. A sum that is negative is raised to 0.
 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/meta.h"
#include "heap/depot.h"
#include "heap/lifetimes.h"
#include "heap/timing.h"
#include "snapshot/view_parts.h"

#define MAX_DIRECTORIES_BYTES ((size_t)1 << 30) /* damaged books may want 512 GiB */
#define CHUNK_TRIES 4
#define PATIENCE_NS 100000 /* a copy of a chunk of some threads should take no longer */

/* ---- Time ---- */

uint64_t outside_ticks(struct view *view)
{
    const struct clock_state *clock = &view->outside->clock;
    if (view->space.core)
        return clock->start_ticks + clock_ns_to_ticks(view->core_age_ns, outside_scale(view));
    return clock->is_raw ? clock_raw() : clock_ns(CLOCK_MONOTONIC);
}

/* Until the process has measured its clock for CLOCK_LONGEST_NS, the scale is measured here, and stays from then on. */
static uint64_t measure_scale(struct view_outside *o, uint64_t ticks, uint64_t ns)
{
    const struct clock_state *clock = &o->clock;
    if (o->scale)
        return o->scale;
    if (ticks <= clock->start_ticks || ns <= clock->start_ns)
        return load_relaxed(&clock->scale);
    uint64_t scale = (uint64_t)(((unsigned __int128)(ns - clock->start_ns) << 32) / (ticks - clock->start_ticks));
    o->scale = ns - clock->start_ns >= CLOCK_LONGEST_NS ? scale : 0;
    return scale;
}

/* The scale that the process uses from its first second on. Before that, as exact as it can be. */
uint64_t outside_scale(struct view *view)
{
    const struct clock_state *clock = &view->outside->clock;
    uint64_t scale = load_relaxed(&clock->scale);
    if (view->space.core)
        return scale ? scale : clock->is_raw ? clock_scale() : (uint64_t)1 << 32;
    if (clock->is_raw && load_relaxed(&clock->measured_ns) < CLOCK_LONGEST_NS)
        scale = measure_scale(view->outside, outside_ticks(view), clock_ns(CLOCK_MONOTONIC));
    return scale ? scale : 1;
}

/* The time that a thread was on a processor: the kernel's sum, which getrusage(2) there would have, too. 0: unknown, as
 * the thread has ended. */
static uint64_t processor_ns(struct view *view, int thread_id)
{
    char path[64], text[32] = "";
    if (view->space.core)
        return 0;
    snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)view->space.pid, thread_id);
    int fd = descriptor_open(path, O_RDONLY, 0);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    return n > 0 ? strtoull(text, NULL, 10) : 0;
}

static uint64_t cpu_now(struct view *view, struct outside_thread *t)
{
    if (!t->cpu_now) {
        uint64_t ns = processor_ns(view, load_relaxed(&t->cpu.thread_id)), then = load_relaxed(&t->cpu.ns);
        uint64_t more = ns > then ? clock_ns_to_ticks(ns - then, outside_scale(view)) : 0;
        t->cpu_now = load_relaxed(&t->cpu.ticks) + more;
    }
    return t->cpu_now;
}

/* ---- A reading ---- */

struct reading {
    struct view *view;
};

size_t outside_bytes(struct view *view, uint32_t end)
{
    (void)view, (void)end;
    return sizeof(struct reading);
}

static int add_moved(struct view *view, const struct outside_thread *t, uint64_t *copy, uint32_t n_chunks)
{
    const struct piece piece = {copy, t->moved, n_chunks * sizeof *copy};
    int error = space_copy(&view->space, &piece, 1);
    for (uint32_t i = 0; !error && i < n_chunks; i++)
        view->outside->moved[i] += copy[i];
    return error;
}

uint64_t outside_moved(const struct reading *r, uint32_t chunk)
{
    return r->view->outside->moved[chunk];
}

/* What threads say of their chunks is copied before any address of a chunk. */
static int copy_directories(struct view *view, uint32_t end, bool keeps)
{
    struct view_outside *o = view->outside;
    uint32_t n_chunks = (end + READING_CHUNK - 1) / READING_CHUNK;
    size_t each = n_chunks * sizeof *o->directories, bytes = each * (o->n_threads + 2);
    if (bytes > MAX_DIRECTORIES_BYTES)
        return -ENOMEM;
    if (bytes > o->directories_bytes) {
        meta_unmap(o->directories, o->directories_bytes);
        o->directories_bytes = 2 * bytes;
        o->directories = meta_map(o->directories_bytes);
    }
    if (!o->directories) {
        o->directories_bytes = 0;
        return -ENOMEM;
    }
    int error = 0;
    o->moved = o->directories + (size_t)o->n_threads * n_chunks;
    memset(o->moved, 0, each);
    for (uint32_t i = 0; !error && keeps && i < o->n_threads; i++)
        error = add_moved(view, &o->threads[i], o->moved + n_chunks, n_chunks);
    for (uint32_t i = 0; !error && i < o->n_threads; i++) {
        const struct piece piece = {o->directories + (size_t)i * n_chunks, o->threads[i].chunks, each};
        error = space_copy(&view->space, &piece, 1);
    }
    o->n_chunks = error ? 0 : n_chunks;
    return error;
}

int outside_begin(struct view *view, struct reading **r, void *memory, size_t bytes, uint32_t end)
{
    struct view_outside *o = view->outside;
    (void)bytes;
    *r = memory;
    (*r)->view = view;
    o->n_chunks = 0; /* a reading that fails has other threads than the directories of the one before */
    int error = outside_read_threads(view);
    if (error)
        return error;
    if (!o->slots)
        o->slots = meta_map(OUTSIDE_SLOTS * sizeof *o->slots);
    return o->slots ? copy_directories(view, end, sums_kept_begin(view, end, o->n_threads)) : -ENOMEM;
}

/* Ends the times that pass in a copy, at the moment `now` before it was copied. */
static void end_times(struct view *view, struct counters_chunk *chunk, struct outside_thread *t, uint64_t now)
{
    for (uint32_t i = 0; i < COUNTERS_PER_CHUNK; i++) {
        _Atomic uint64_t *busy = &chunk->counters[i].busy, *cpu = &chunk->cpu[i];
        store_relaxed(busy, timing_resolve(load_relaxed(busy), now));
        if (unlikely(!timing_is_over(load_relaxed(cpu))))
            store_relaxed(cpu, timing_resolve(load_relaxed(cpu), cpu_now(view, t)));
        if (!timing_is_over(load_relaxed(cpu)))
            store_relaxed(cpu, 0); /* damaged */
        if (!timing_is_over(load_relaxed(busy)))
            store_relaxed(busy, 0);
    }
    for (uint32_t left = load_relaxed(&chunk->more_used); left; left &= left - 1) {
        struct counters_more *more = &chunk->more[__builtin_ctz(left)];
        struct counters *c = &chunk->counters[__builtin_ctz(left)];
        uint64_t opens = load_relaxed(&more->opens), n = opens & (((uint64_t)1 << OPENS_SHIFT) - 1);
        uint64_t wall = timing_resolve_open(load_relaxed(&more->wall), n, view->times ? now : 0);
        store_relaxed(&more->wall, timing_is_over(wall) ? wall : 0);
        store_relaxed(&more->opens, opens - n);
        store_relaxed(&more->lifetimes, lifetimes_until(c, more, now));
        store_relaxed(&more->lifetimes_at, 0);
    }
}

/* The rarer counters of those chunks that have some. */
static int copy_more(struct view *view, const uint64_t *addresses, uint32_t n)
{
    struct counters_chunk *slots = view->outside->slots;
    struct piece pieces[OUTSIDE_SLOTS];
    size_t used = 0;
    for (uint32_t i = 0; i < n; i++)
        if (load_relaxed(&slots[i].more_used))
            pieces[used++] = (struct piece){slots[i].more, addresses[i] + offsetof(struct counters_chunk, more), sizeof slots[i].more};
    return space_copy(&view->space, pieces, used);
}

/* Copies the chunks again where it took long, since others may free meanwhile what was read as allocated. */
static int copy_chunks(struct view *view, const uint64_t *addresses, uint32_t n, uint64_t *now)
{
    struct counters_chunk *slots = view->outside->slots;
    struct piece pieces[OUTSIDE_SLOTS];
    uint64_t patience = clock_ns_to_ticks(PATIENCE_NS, outside_scale(view));
    int error = 0;
    for (uint32_t i = 0; i < n; i++)
        pieces[i] = (struct piece){&slots[i], addresses[i], offsetof(struct counters_chunk, has_temporary) + sizeof slots[i].has_temporary};
    for (int i = 0; !error && i < CHUNK_TRIES; i++) {
        *now = outside_ticks(view);
        error = space_copy(&view->space, pieces, n);
        if (outside_ticks(view) - *now <= patience)
            break;
    }
    return error ? error : copy_more(view, addresses, n);
}

/* The chunk of up to OUTSIDE_SLOTS threads from *thread on, below `end`. */
static int add_some(struct view *view, uint32_t chunk, uint32_t *thread, uint32_t end, struct totals *sums)
{
    struct view_outside *o = view->outside;
    static const struct reading_source copies = {NULL, NULL, false};
    struct reading_batch batch = {.of = &copies};
    uint64_t addresses[OUTSIDE_SLOTS], now = 0;
    uint32_t owners[OUTSIDE_SLOTS], n = 0;
    for (; *thread < end && n < OUTSIDE_SLOTS; ++*thread) {
        uint64_t address = o->directories[(size_t)*thread * o->n_chunks + chunk];
        if (address & 7)
            return -EBADMSG;
        if (address) {
            owners[n] = *thread;
            addresses[n++] = address;
        }
    }
    int error = copy_chunks(view, addresses, n, &now);
    for (uint32_t i = 0; !error && i < n; i++) {
        end_times(view, &o->slots[i], &o->threads[owners[i]], now);
        batch.next[batch.n] = o->slots[i].counters;
        batch.chunks[batch.n++] = o->slots[i].counters;
        if (batch.n == READING_BATCH || i + 1 == n) {
            reading_add(sums, &batch);
            batch.n = 0;
        }
    }
    return error;
}

int outside_chunk(struct reading *r, uint32_t first, struct totals sums[READING_CHUNK])
{
    int error = 0;
    memset(sums, 0, READING_CHUNK * sizeof *sums);
    for (uint32_t thread = 0; !error && thread < r->view->outside->n_threads;)
        error = add_some(r->view, first / READING_CHUNK, &thread, r->view->outside->n_threads, sums);
    for (uint32_t i = 0; i < READING_CHUNK; i++) {
        totals_floor_inuse(&sums[i]);
        sums[i].enters += at_least_0(sums[i].exits - sums[i].enters);
    }
    return error;
}

/* Contexts that are newer than the snapshot have no counters in it. */
int outside_chunk_of(struct view *view, uint32_t thread, uint32_t first, struct totals sums[READING_CHUNK])
{
    memset(sums, 0, READING_CHUNK * sizeof *sums);
    return first / READING_CHUNK < view->outside->n_chunks ? add_some(view, first / READING_CHUNK, &thread, thread + 1, sums) : 0;
}

/* 0 if they cannot be read. */
static uint64_t outside_depot_bytes(struct view *view)
{
    struct depot_bytes of_parts[DEPOT_PARTS] = {0};
    uint64_t bytes = 0;
    const struct piece piece = {of_parts, space_address(view->books.depot) + offsetof(struct depot, bytes), sizeof of_parts};
    (void)space_copy(&view->space, &piece, 1);
    for (unsigned i = 0; i < DEPOT_PARTS; i++)
        bytes += load_relaxed(&of_parts[i].now);
    return bytes;
}

/* As reading_end(): frees of a buffer that was flushed meanwhile are left to the counters. */
uint64_t outside_end(struct reading *r, void (*add)(void *to, uint32_t context, uint32_t bytes), void *to)
{
    struct view_outside *o = r->view->outside;
    uint64_t pending_bytes = outside_depot_bytes(r->view);
    for (struct outside_thread *t = o->threads; t < o->threads + o->n_threads; t++) {
        uint32_t sequence;
        pending_bytes += t->magazine_bytes;
        if (!t->n_freed || outside_copy_sequence(r->view, t->address, &sequence) || sequence != t->sequence)
            continue;
        for (int i = 0; i < t->n_freed; i++) {
            pending_bytes += t->freed[i].bytes;
            add(to, t->freed[i].context, t->freed[i].bytes);
        }
    }
    return pending_bytes;
}

void outside_free(struct view_outside *o)
{
    meta_unmap(o->threads, o->room * sizeof *o->threads);
    meta_unmap(o->directories, o->directories_bytes);
    meta_unmap(o->slots, OUTSIDE_SLOTS * sizeof *o->slots);
    meta_unmap(o->inclusive.sums, o->inclusive.n_rows * sizeof *o->inclusive.sums);
    outside_free_sites(o);
    outside_free_frames(o);
}
