/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads what a walk over the headers of another process's heap needs: the page map, jespan's own memory, and the objects in
 * magazines.
 */
#include "snapshot/view_heap_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/meta.h"
#include "base/number.h"

#define MAX_OWN (1u << 20)
#define ROOT_BYTES (((size_t)1 << ROOT_BITS) * sizeof(uint64_t))
#define TABLES_BYTES (BATCH_PAGES * sizeof(struct table))

int view_heap_add_own(struct view_heap *h, uint64_t start, uint64_t bytes)
{
    if (h->n_own == MAX_OWN || array_reserve(&h->own, &h->own_room, h->n_own + 1, sizeof *h->own))
        return -ENOMEM;
    h->own[h->n_own++] = (struct range){start & ~(PAGE - 1), round_up(start + bytes, PAGE)};
    return 0;
}

static int add_cached(struct view_heap *h, uint64_t address, uint32_t bytes)
{
    if (array_reserve(&h->cached, &h->cached_room, h->n_cached + 1, sizeof *h->cached))
        return -ENOMEM;
    h->cached[h->n_cached++] = (struct cached){address, bytes};
    return 0;
}

/* The magazines of a thread: the entries up to the top of each class. */
static int read_magazines(struct view_heap *h, uint64_t thread)
{
    struct view_outside *o = h->view->outside;
    struct thread *copy = &o->copy;
    const struct piece pieces[] = {
        {copy->magazine_top, thread + offsetof(struct thread, magazine_top), sizeof copy->magazine_top},
        {copy->magazine_first, thread + offsetof(struct thread, magazine_first), sizeof copy->magazine_first},
        {copy->magazine, thread + offsetof(struct thread, magazine), sizeof copy->magazine}};
    int error = space_copy(&h->view->space, pieces, sizeof pieces / sizeof pieces[0]);
    for (unsigned class = 1; class < CLASSES_MAX && !error; class++) {
        size_t bottom;
        uint32_t n = outside_magazine_objects(o, thread, copy, class, &bottom);
        const struct free_object *objects = (const struct free_object *)((const char *)copy + bottom);
        for (uint32_t i = 1; i <= n && !error; i++)
            error = add_cached(h, space_address(objects[i].p), o->class_bytes[class]);
    }
    return error;
}

static int read_batch(struct view_heap *h, uint64_t address)
{
    struct depot_batch batch;
    const struct piece piece = {&batch, address, sizeof batch};
    int error = space_copy(&h->view->space, &piece, 1);
    for (uint32_t i = 0; !error && i < batch.n && i < DEPOT_BATCH_MAX && batch.class < CLASSES_MAX; i++)
        error = add_cached(h, space_address(batch.objects[i].p), h->view->outside->class_bytes[batch.class]);
    return error;
}

static int read_shard(struct view_heap *h, uint64_t address)
{
    struct depot_shard shard;
    const struct piece piece = {&shard, address, sizeof shard};
    int error = space_copy(&h->view->space, &piece, 1);
    uint64_t batches = error ? 0 : space_address(load_relaxed(&shard.batches));
    uint32_t end = batches ? load_relaxed(&shard.end) : 0;
    if (end > MAX_OWN)
        return -EBADMSG;
    for (uint32_t i = 0; !error && i < end; i++)
        error = read_batch(h, batches + i * sizeof(struct depot_batch));
    return error || !end ? error : view_heap_add_own(h, batches, end * sizeof(struct depot_batch));
}

/* The objects that threads exchange. */
static int read_depot(struct view_heap *h)
{
    uint64_t shards = space_address(h->view->books.depot) + offsetof(struct depot, shards);
    int error = 0;
    for (unsigned i = 0; i < DEPOT_SHARDS && !error; i++)
        error = read_shard(h, shards + i * sizeof(struct depot_shard));
    return error;
}

/* Objects that wait in the free buffer. Their headers still have owners, but they count as freed. */
static int read_buffer(struct view_heap *h, uint64_t thread)
{
    struct thread *copy = &h->view->outside->copy;
    const struct piece pieces[] = {
        {&copy->free_buffer_done, thread + offsetof(struct thread, free_buffer_done), sizeof copy->free_buffer_done},
        {&copy->free_buffer_count, thread + offsetof(struct thread, free_buffer_count), sizeof copy->free_buffer_count},
        {copy->free_buffer_object, thread + offsetof(struct thread, free_buffer_object), sizeof copy->free_buffer_object}};
    int error = space_copy(&h->view->space, pieces, sizeof pieces / sizeof pieces[0]);
    uint32_t end = load_relaxed(&copy->free_buffer_count);
    for (uint32_t i = load_relaxed(&copy->free_buffer_done); i < end && i < FREE_BUFFER_MAX && !error; i++) {
        if (array_reserve(&h->freed, &h->freed_room, h->n_freed + 1, sizeof *h->freed))
            return -ENOMEM;
        h->freed[h->n_freed++] = space_address(load_relaxed(&copy->free_buffer_object[i]));
    }
    return error;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static int by_address(const void *a, const void *b)
{
    const struct cached *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

static int read_threads(struct view_heap *h)
{
    struct view_outside *o = h->view->outside;
    int error = 0;
    for (uint32_t i = 0; i < o->n_threads && !error; i++) {
        error = view_heap_add_own(h, o->threads[i].address, sizeof(struct thread));
        if (!error)
            error = read_magazines(h, o->threads[i].address);
        if (!error)
            error = read_buffer(h, o->threads[i].address);
        for (uint32_t c = 0; c < o->n_chunks && o->directories && !error; c++) {
            uint64_t chunk = o->directories[(size_t)i * o->n_chunks + c];
            if (chunk)
                error = view_heap_add_own(h, chunk, sizeof(struct counters_chunk));
        }
        if (!error)
            error = view_heap_add_own(h, o->threads[i].chunks, o->n_chunks * sizeof(counters_chunk_t));
    }
    return error;
}

/* An array whose address is in a variable there. */
static int add_array(struct view_heap *h, uint64_t variable, size_t item_bytes)
{
    uint64_t start = 0;
    const struct piece piece = {&start, variable, sizeof start};
    int error = variable ? space_copy(&h->view->space, &piece, 1) : 0;
    return error || !start ? error : view_heap_add_own(h, start, (uint64_t)h->n_contexts * item_bytes);
}

static int read_books(struct view_heap *h)
{
    const struct books *b = &h->view->books;
    const struct piece pieces[] = {{&h->n_contexts, space_address(b->context_end), sizeof h->n_contexts},
                                   {h->class_slab_pages, space_address(b->class_slab_pages), sizeof h->class_slab_pages},
                                   {h->root, space_address(b->page_root), ROOT_BYTES}};
    int error = space_copy(&h->view->space, pieces, sizeof pieces / sizeof pieces[0]);
    if (!error && h->n_contexts > 1u << 24)
        error = -EBADMSG;
    for (size_t i = 0; i < (size_t)1 << ROOT_BITS && !error; i++)
        if (h->root[i])
            error = view_heap_add_own(h, h->root[i], LEAF_PAGES * sizeof(page_entry_t) + sizeof(struct leaf_more));
    if (!error)
        error = add_array(h, space_address(b->contexts), sizeof(struct context));
    if (!error)
        error = add_array(h, space_address(b->context_heads), sizeof(struct context_head));
    if (!error)
        error = add_array(h, space_address(b->context_lives), sizeof(uint32_t));
    if (!error)
        error = add_array(h, space_address(b->context_bases), sizeof(struct totals));
    if (!error)
        error = add_array(h, space_address(b->context_pasts), sizeof(struct totals));
    return error;
}

static size_t contexts_bytes(const struct view_heap *h)
{
    return ((size_t)h->n_contexts + 1) * sizeof *h->contexts;
}

/* A program may read itself. So what takes much room is mapped after the mappings were read, and is in no figure. */
int view_heap_open(struct view_heap **heap, struct view *view)
{
    struct view_heap *h = calloc(1, sizeof *h);
    int error = -ENOMEM;
    if (!h)
        return error;
    h->view = view;
    h->root = meta_map(ROOT_BYTES);
    h->tables = meta_map(TABLES_BYTES);
    if (h->root && h->tables)
        error = read_books(h);
    if (!error)
        error = outside_owners(view, &h->owners, &h->n_contexts);
    if (!error)
        error = read_threads(h);
    if (!error)
        error = read_depot(h);
    if (!error && !(h->contexts = meta_map(contexts_bytes(h))))
        error = -ENOMEM;
    if (!error && h->n_cached > 0)
        qsort(h->cached, h->n_cached, sizeof *h->cached, by_address);
    if (!error && h->n_freed > 0)
        qsort(h->freed, h->n_freed, sizeof *h->freed, by_number);
    if (error)
        view_heap_close(h);
    else
        *heap = h;
    return error;
}

void view_heap_close(struct view_heap *h)
{
    meta_unmap(h->root, ROOT_BYTES);
    meta_unmap(h->tables, TABLES_BYTES);
    meta_unmap(h->contexts, contexts_bytes(h));
    free(h->owners);
    free(h->own);
    free(h->cached);
    free(h->freed);
    free(h);
}

const struct heap_context *view_heap_contexts(const struct view_heap *h, uint32_t *n)
{
    *n = h->n_contexts;
    return h->contexts;
}
