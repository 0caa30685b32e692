/* SPDX-License-Identifier: BSD-2-Clause */
/* The threads of another process: copies of the parts of their blocks that a reading needs, and what waits in their free buffers. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/meta.h"
#include "snapshot/view_parts.h"

#define MAX_THREADS (1u << 17)
#define BUFFER_TRIES 8

static int grow_threads(struct view_outside *o)
{
    enum { LEAST = 64 };
    uint32_t room = o->room ? 2 * o->room : LEAST;
    if (room > MAX_THREADS)
        return -EBADMSG;
    struct outside_thread *more = meta_map(room * sizeof *more);
    if (!more)
        return -ENOMEM;
    if (o->threads)
        memcpy(more, o->threads, o->room * sizeof *more);
    meta_unmap(o->threads, o->room * sizeof *more);
    o->threads = more;
    o->room = room;
    return 0;
}

uint32_t outside_magazine_objects(const struct view_outside *o, uint64_t thread, const struct thread *copy, unsigned class,
                                  size_t *bottom)
{
    uint64_t top = space_address(load_relaxed(&copy->magazine_top[class])) - thread;
    *bottom = magazine_bottom_offset(&o->magazine_bottoms, class, top);
    size_t first_end = offsetof(struct thread, magazine_first) + sizeof copy->magazine_first;
    size_t end = *bottom < first_end ? first_end : offsetof(struct thread, magazine) + sizeof copy->magazine;
    uint64_t n = (top - *bottom) / sizeof(struct free_object);
    return top >= *bottom && top < end && n <= o->magazine_max[class] ? (uint32_t)n : 0;
}

static uint64_t magazine_bytes_of(const struct view_outside *o, uint64_t thread, const struct thread *copy)
{
    uint64_t bytes = 0;
    size_t bottom;
    for (unsigned class = 1; class < CLASSES_MAX; class++)
        bytes += (uint64_t)outside_magazine_objects(o, thread, copy, class, &bottom) * o->class_bytes[class];
    return bytes;
}

/* The objects of one class in magazines for a span arena. If the thread changes them meanwhile, it may be wrong. */
static uint64_t objects_for_arena(const struct arena_magazines *m, unsigned class)
{
    uint64_t top = space_address(load_relaxed(&m->top[class])), bottom = space_address(load_relaxed(&m->bottom[class]));
    uint64_t n = (top - bottom) / sizeof(struct free_object);
    return n <= ARENA_MAGAZINE_MAX ? n : 0;
}

/* Bytes in all magazines for span arenas. What cannot be read counts as none. */
static uint64_t arena_magazine_bytes_of(struct view *view, const struct thread *copy)
{
    uint64_t bytes = 0, at = space_address(load_relaxed(&copy->arena_magazines));
    struct arena_magazines m;
    for (uint32_t i = 0; at && i < UINT16_MAX && !space_copy(&view->space, &(struct piece){&m, at, sizeof m}, 1); i++) {
        for (unsigned class = 1; class < CLASS_IN_ARENA; class++)
            bytes += objects_for_arena(&m, class) * view->outside->class_bytes[class];
        at = space_address(m.next);
    }
    return bytes;
}

/* A header in the other process, and its copy. */
struct header_copy {
    uint64_t at;
    uint16_t header, more;
    unsigned class;
};

/* Copies the second words of those headers that have one. */
static int read_more(struct view *view, struct header_copy *headers, int n)
{
    struct piece pieces[FREE_BUFFER_MAX] = {{0}};
    size_t used = 0;
    for (int i = 0; i < n; i++) {
        bool is_big = view->outside->class_bytes[headers[i].class] > HEADER_PAGE_BYTES;
        uint64_t at = (uintptr_t)header_more((header_t *)(uintptr_t)headers[i].at, is_big);
        if (header_has_more(headers[i].header))
            pieces[used++] = (struct piece){&headers[i].more, at, sizeof headers[i].more};
    }
    return space_copy(&view->space, pieces, used);
}

/* The tags of what is in the free buffer. */
static int read_tags(struct view *view, struct outside_thread *t, struct thread *copy)
{
    struct header_copy headers[FREE_BUFFER_MAX] = {{0}};
    struct piece pieces[FREE_BUFFER_MAX] = {{0}};
    uint32_t count = load_relaxed(&copy->free_buffer_count);
    int n = 0;
    for (uint32_t i = load_relaxed(&copy->free_buffer_done); i < count && i < FREE_BUFFER_MAX; i++) {
        uint64_t slot = space_address(load_relaxed(&copy->free_buffer_slot[i]));
        if (!slot)
            continue;
        headers[n] = (struct header_copy){.at = slot, .class = load_relaxed(&copy->free_buffer_class[i]) % CLASSES_MAX};
        pieces[n] = (struct piece){&headers[n].header, slot, sizeof headers[n].header};
        n++;
    }
    int error = space_copy(&view->space, pieces, (size_t)n);
    if (!error)
        error = read_more(view, headers, n);
    t->n_freed = 0;
    for (int i = 0; i < n && !error; i++)
        if (headers[i].header)
            t->freed[t->n_freed++] = (struct freed){.context = tag_of_header(headers[i].header, headers[i].more),
                                                    .bytes = view->outside->class_bytes[headers[i].class]};
    return error;
}

/* Copies what is read of a thread block; the count of the buffer before what is in it. */
static int copy_block(struct view *view, uint64_t address, struct thread *copy)
{
    const uint64_t at = address;
    const struct piece pieces[] = {
        {&copy->free_buffer_sequence, at + offsetof(struct thread, free_buffer_sequence), sizeof(uint32_t)},
        {&copy->free_buffer_done, at + offsetof(struct thread, free_buffer_done), sizeof(uint32_t)},
        {&copy->free_buffer_count, at + offsetof(struct thread, free_buffer_count), sizeof(uint32_t)},
        {&copy->chunks, at + offsetof(struct thread, chunks), sizeof copy->chunks},
        {&copy->moved, at + offsetof(struct thread, moved), sizeof copy->moved},
        {copy->free_buffer_slot, at + offsetof(struct thread, free_buffer_slot), sizeof copy->free_buffer_slot},
        {copy->free_buffer_class, at + offsetof(struct thread, free_buffer_class), sizeof copy->free_buffer_class},
        {copy->magazine_top, at + offsetof(struct thread, magazine_top), sizeof copy->magazine_top},
        {&copy->arena_magazines, at + offsetof(struct thread, arena_magazines), sizeof copy->arena_magazines},
        {&copy->cpu, at + offsetof(struct thread, cpu), sizeof copy->cpu},
        {&copy->next, at + offsetof(struct thread, next), sizeof copy->next}};
    return space_copy(&view->space, pieces, sizeof pieces / sizeof pieces[0]);
}

int outside_copy_sequence(struct view *view, uint64_t address, uint32_t *sequence)
{
    const struct piece piece = {sequence, address + offsetof(struct thread, free_buffer_sequence), sizeof *sequence};
    return space_copy(&view->space, &piece, 1);
}

/* Reads again while the thread flushes its buffer. If it always does, its frees are left to the counters. */
static int read_thread(struct view *view, uint64_t address, struct outside_thread *t, uint64_t *next)
{
    struct thread *copy = &view->outside->copy;
    uint32_t sequence = 0, after;
    int error = 0;
    *t = (struct outside_thread){.address = address};
    for (int i = 0; !error && i < BUFFER_TRIES; i++) {
        error = copy_block(view, address, copy);
        sequence = load_relaxed(&copy->free_buffer_sequence);
        if (!error && !(sequence & 1))
            error = read_tags(view, t, copy);
        if (!error)
            error = outside_copy_sequence(view, address, &after);
        if (!error && !(sequence & 1) && after == sequence)
            break;
        t->n_freed = 0;
    }
    t->sequence = sequence;
    t->chunks = space_address(copy->chunks);
    t->moved = space_address(copy->moved);
    t->magazine_bytes = magazine_bytes_of(view->outside, address, copy) + arena_magazine_bytes_of(view, copy);
    t->cpu = copy->cpu.readings[load_relaxed(&copy->cpu.sequence) % 2];
    *next = space_address(load_relaxed(&copy->next));
    return error;
}

/* A list that goes in a circle meets the mark, which is moved ahead after 1, 2, 4, … steps. */
int outside_read_threads(struct view *view)
{
    struct view_outside *o = view->outside;
    uint64_t at = space_address(view->books.first_thread), mark = 0;
    int error = 0;
    for (o->n_threads = 0; at && !error; o->n_threads++) {
        if (at == mark || at & 7)
            return -EBADMSG;
        if (!(o->n_threads & (o->n_threads - 1)))
            mark = at;
        if (o->n_threads == o->room)
            error = grow_threads(o);
        if (!error)
            error = read_thread(view, at, &o->threads[o->n_threads], &at);
    }
    return error;
}
