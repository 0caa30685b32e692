/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads the threads of another process, from the thread blocks that the last snapshot has found. */
#include "snapshot/view_threads.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/descriptor.h"
#include "base/meta.h"
#include "base/number.h"
#include "snapshot/view_parts.h"
#include "span/tree.h"

struct threads_reading {
    struct view_threads *to;
    struct view *view;
    uint32_t *owners;
    uint32_t n_contexts;
    size_t threads_room, cells_room, most_cells;
    size_t *places; /* by context: the index of its last cell, if that is of this block */
    const bool *is_as_one; /* by context: see view_threads_read_within(); NULL: none is */
};

/* ---- What a block has counted ---- */

static struct view_cell *find_cell(struct threads_reading *r, uint32_t block, uint32_t context)
{
    struct view_threads *to = r->to;
    size_t *place = &r->places[context];
    if (*place < to->n_cells && to->cells[*place].block == block && to->cells[*place].context == context)
        return &to->cells[*place];
    if (array_reserve(&to->cells, &r->cells_room, to->n_cells + 1, sizeof *to->cells))
        return NULL;
    *place = to->n_cells;
    to->cells[*place] = (struct view_cell){.block = block, .context = context};
    return &to->cells[to->n_cells++];
}

/* A stack or a period counts for the context that it is a part of. */
static uint32_t owner_of(const struct threads_reading *r, uint32_t id)
{
    for (int step = 0; step < 2 && id < r->n_contexts; step++)
        id = r->owners[id];
    return id < r->n_contexts ? id : 0;
}

static int add_cell(struct threads_reading *r, uint32_t block, uint32_t id, uint64_t in_bytes, uint64_t out_bytes)
{
    uint32_t context = owner_of(r, id);
    if (in_bytes == 0 && out_bytes == 0)
        return 0;
    struct view_cell *cell = find_cell(r, block, r->is_as_one && r->is_as_one[context] ? 0 : context);
    if (!cell)
        return -ENOMEM;
    cell->in_bytes += in_bytes;
    cell->out_bytes += out_bytes;
    return r->to->n_cells > r->most_cells ? -E2BIG : 0;
}

static int add_counters(struct threads_reading *r, uint32_t block, struct view_thread *t)
{
    struct totals sums[READING_CHUNK];
    int error = 0;
    for (uint32_t first = 0; first < r->n_contexts && !error; first += READING_CHUNK) {
        error = outside_chunk_of(r->view, block, first, sums);
        for (uint32_t i = 0; i < READING_CHUNK && first + i < r->n_contexts && !error; i++) {
            const struct totals *s = &sums[i];
            t->alloc_objects += s->alloc_objects;
            t->alloc_bytes += s->alloc_bytes;
            t->free_objects += s->free_objects;
            t->free_bytes += s->free_bytes;
            t->busy_ns += s->busy;
            t->cpu_ns += s->cpu;
            error = add_cell(r, block, first + i, s->alloc_bytes + s->credited_in_bytes, s->free_bytes + s->credited_out_bytes);
        }
    }
    return error;
}

static int add_buffered(struct threads_reading *r, uint32_t block, struct view_thread *t)
{
    const struct outside_thread *o = &r->view->outside->threads[block];
    int error = 0;
    for (int i = 0; i < o->n_freed && !error; i++) {
        t->free_objects++;
        t->free_bytes += o->freed[i].bytes;
        error = add_cell(r, block, o->freed[i].context & ~TAG_SURVIVOR, 0, o->freed[i].bytes);
    }
    return error;
}

/* ---- Threads ---- */

static struct view_thread *add_thread(struct threads_reading *r)
{
    struct view_threads *to = r->to;
    if (array_reserve(&to->threads, &r->threads_room, to->n_threads + 1, sizeof *to->threads))
        return NULL;
    to->threads[to->n_threads] = (struct view_thread){0};
    return &to->threads[to->n_threads++];
}

static uint64_t to_ns(const struct threads_reading *r, uint64_t ticks)
{
    return clock_ticks_to_ns(ticks, outside_scale(r->view));
}

/* The sums of a thread that runs are read after the sums at its start. So only damaged books have negative figures. */
static void leave_out(const struct threads_reading *r, struct view_thread *t, const struct thread_sums *before)
{
    t->alloc_objects = saturating_sub(t->alloc_objects, before->alloc_objects);
    t->alloc_bytes = saturating_sub(t->alloc_bytes, before->alloc_bytes);
    t->free_objects = saturating_sub(t->free_objects, before->free_objects);
    t->free_bytes = saturating_sub(t->free_bytes, before->free_bytes);
    t->busy_ns = to_ns(r, saturating_sub(t->busy_ns, before->busy));
    t->cpu_ns = to_ns(r, saturating_sub(t->cpu_ns, before->cpu));
}

static int read_block(struct threads_reading *r, uint32_t block)
{
    uint64_t at = r->view->outside->threads[block].address;
    struct thread *copy = &r->view->outside->copy;
    struct view_thread *t = add_thread(r);
    uint8_t live = 0; /* of damaged books, no bool */
    const struct piece pieces[] = {{&copy->tag, at + offsetof(struct thread, tag), sizeof copy->tag},
                                   {&live, at + offsetof(struct thread, live), sizeof live},
                                   {&copy->lives, at + offsetof(struct thread, lives), sizeof copy->lives},
                                   {&copy->before, at + offsetof(struct thread, before), sizeof copy->before},
                                   {&copy->thread_id, at + offsetof(struct thread, thread_id), sizeof copy->thread_id},
                                   {copy->name, at + offsetof(struct thread, name), sizeof copy->name}};
    int error = t ? space_copy(&r->view->space, pieces, sizeof pieces / sizeof pieces[0]) : -ENOMEM;
    if (error)
        return error;
    *t = (struct view_thread){.block = block, .live = live != 0, .lives = copy->lives, .thread_id = copy->thread_id};
    t->context = t->live ? owner_of(r, copy->tag & ~TAG_SURVIVOR) : 0;
    memcpy(t->name, copy->name, sizeof t->name - 1);
    error = add_counters(r, block, t);
    if (!error)
        error = add_buffered(r, block, t);
    leave_out(r, t, &copy->before);
    return error;
}

/* ---- Threads that have ended ---- */

static int by_address(const void *a, const void *b)
{
    const struct outside_thread *const *x = a, *const *y = b;
    return ((*x)->address > (*y)->address) - ((*x)->address < (*y)->address);
}

static uint32_t find_block(const struct threads_reading *r, const struct outside_thread *const *sorted, uint64_t address)
{
    uint32_t low = 0, high = r->to->n_blocks;
    while (low + 1 < high) {
        uint32_t middle = (low + high) / 2;
        if (sorted[middle]->address <= address)
            low = middle;
        else
            high = middle;
    }
    return (uint32_t)(sorted[low] - r->view->outside->threads);
}

static int add_past(struct threads_reading *r, const struct outside_thread *const *sorted, const struct thread_past *past)
{
    struct view_thread *t = add_thread(r);
    if (!t)
        return -ENOMEM;
    const struct thread_sums *s = &past->sums;
    *t = (struct view_thread){.block = find_block(r, sorted, space_address(past->block)), .lives = past->lives,
                              .thread_id = past->thread_id, .alloc_objects = s->alloc_objects, .alloc_bytes = s->alloc_bytes,
                              .free_objects = s->free_objects, .free_bytes = s->free_bytes, .busy_ns = to_ns(r, s->busy),
                              .cpu_ns = to_ns(r, s->cpu)};
    memcpy(t->name, past->name, sizeof t->name - 1);
    return 0;
}

/* Records of the chunk that were not overwritten while they were copied. */
static int add_chunk(struct threads_reading *r, const struct outside_thread *const *sorted, uint64_t pasts, uint64_t chunk_at,
                     uint64_t first, uint64_t end)
{
    static struct thread_past records[THREAD_PASTS_AT_ONCE];
    uint64_t after = 0;
    const struct piece pieces[] = {{records, chunk_at, (size_t)(end - first) * sizeof *records},
                                   {&after, pasts + offsetof(struct thread_pasts, n), sizeof after}};
    int error = space_copy(&r->view->space, pieces, 2);
    for (uint64_t i = first; i < end && !error; i++) {
        if (i + THREAD_PASTS > after)
            error = add_past(r, sorted, &records[i - first]);
        else
            r->to->n_left_out++;
    }
    return error;
}

static int read_pasts(struct threads_reading *r, const struct outside_thread *const *sorted)
{
    uint64_t at = space_address(r->view->books.thread_pasts), first;
    struct thread_pasts pasts;
    const struct piece piece = {&pasts, at, sizeof pasts};
    int error = space_copy(&r->view->space, &piece, 1);
    uint64_t n = load_relaxed(&pasts.n);
    if (error || n > UINT64_MAX / 2)
        return error ? error : -EBADMSG;
    first = n > THREAD_PASTS ? n - THREAD_PASTS : 0;
    r->to->n_left_out = first;
    for (uint64_t end; first < n && !error; first = end) {
        end = (first / THREAD_PASTS_AT_ONCE + 1) * THREAD_PASTS_AT_ONCE;
        end = end < n ? end : n;
        uint64_t chunk = space_address(load_relaxed(&pasts.chunks[first % THREAD_PASTS / THREAD_PASTS_AT_ONCE]));
        error = add_chunk(r, sorted, at, chunk + first % THREAD_PASTS_AT_ONCE * sizeof(struct thread_past), first, end);
    }
    return error;
}

static int read_all_pasts(struct threads_reading *r)
{
    const struct outside_thread **sorted = malloc((r->to->n_blocks + 1) * sizeof *sorted);
    if (!sorted)
        return -ENOMEM;
    for (uint32_t i = 0; i < r->to->n_blocks; i++)
        sorted[i] = &r->view->outside->threads[i];
    qsort(sorted, r->to->n_blocks, sizeof *sorted, by_address);
    int error = read_pasts(r, sorted);
    free(sorted);
    return error;
}

/* ---- All ---- */

static int by_allocated(const void *a, const void *b)
{
    const struct snapshot_row *const *x = a, *const *y = b;
    return ((*x)->totals.alloc_bytes < (*y)->totals.alloc_bytes) - ((*x)->totals.alloc_bytes > (*y)->totals.alloc_bytes);
}

/* Leaves out the contexts in which most was allocated. Returns how many of the snapshot's are marked. */
static uint32_t mark_as_one(bool *is_as_one, uint32_t n_contexts, const struct snapshot *s, size_t n_alone)
{
    const struct snapshot_row **sorted = calloc((size_t)s->n_rows + 1, sizeof *sorted);
    uint32_t n = !sorted ? 0 : n_alone < s->n_rows ? (uint32_t)n_alone : s->n_rows;
    memset(is_as_one, true, n_contexts);
    for (uint32_t i = 0; i < s->n_rows && sorted; i++)
        sorted[i] = &s->rows[i];
    if (n > 0)
        qsort(sorted, s->n_rows, sizeof *sorted, by_allocated);
    for (uint32_t i = 0; i < n; i++)
        if (sorted[i]->id < n_contexts)
            is_as_one[sorted[i]->id] = false;
    free(sorted);
    return s->n_rows - n;
}

/* With a snapshot, some contexts count as one. */
static int read_all(struct threads_reading *r, const struct snapshot *s)
{
    struct view_threads *to = r->to;
    bool *is_as_one = NULL;
    int error = outside_owners(r->view, &r->owners, &r->n_contexts);
    if (!error && !(r->places = calloc((size_t)r->n_contexts + 1, sizeof *r->places)))
        error = -ENOMEM;
    if (!error && s && !(is_as_one = calloc((size_t)r->n_contexts + 1, sizeof *is_as_one)))
        error = -ENOMEM;
    if (is_as_one)
        to->n_as_one = mark_as_one(is_as_one, r->n_contexts, s, saturating_sub(r->most_cells / (to->n_blocks + 1), 1));
    r->is_as_one = is_as_one;
    for (uint32_t i = 0; i < to->n_blocks && !error; i++)
        error = read_block(r, i);
    if (!error && to->n_blocks > 0)
        error = read_all_pasts(r);
    free(r->owners);
    free(r->places);
    free(is_as_one);
    if (error)
        view_threads_free(to);
    return error;
}

int view_threads_read(struct view_threads *threads, struct view *view, size_t most_cells)
{
    struct threads_reading r = {.to = threads, .view = view, .most_cells = most_cells};
    *threads = (struct view_threads){.n_blocks = view->outside->n_threads};
    return read_all(&r, NULL);
}

int view_threads_read_within(struct view_threads *threads, struct view *view, const struct snapshot *s, size_t most_cells)
{
    int error = view_threads_read(threads, view, most_cells);
    struct threads_reading r = {.to = threads, .view = view, .most_cells = most_cells};
    if (error != -E2BIG)
        return error;
    *threads = (struct view_threads){.n_blocks = view->outside->n_threads};
    return read_all(&r, s);
}

static void rename_thread(struct view_thread *thread, pid_t pid)
{
    char path[64], name[sizeof thread->name + 1] = "";
    snprintf(path, sizeof path, "/proc/%d/task/%d/comm", (int)pid, thread->thread_id);
    int fd = descriptor_open(path, O_RDONLY, 0);
    ssize_t n = fd >= 0 ? read(fd, name, sizeof name - 1) : 0;
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return;
    name[n] = '\0';
    name[strcspn(name, "\n")] = '\0';
    memcpy(thread->name, name, sizeof thread->name - 1);
}

void view_threads_rename(struct view_threads *threads, pid_t pid)
{
    for (uint32_t i = 0; i < threads->n_threads; i++)
        if (threads->threads[i].live)
            rename_thread(&threads->threads[i], pid);
}

void view_threads_free(struct view_threads *threads)
{
    free(threads->threads);
    free(threads->cells);
    *threads = (struct view_threads){0};
}
