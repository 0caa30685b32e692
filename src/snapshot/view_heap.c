/* SPDX-License-Identifier: BSD-2-Clause */
/* Walks the headers of another process's heap.
 *
 * Pages of small objects are put together to slabs: jemalloc gives back a slab only when all its objects are free, so a live
 * object pins the free bytes of its whole slab. A slab begins where an extent begins, or where the class changes, or after as
 * many pages as slabs of the class have.
 */
#include "snapshot/view_heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/meta.h"
#include "heap/pagemap.h"
#include "snapshot/view_parts.h"

#define PAGE HEADER_PAGE_BYTES
#define BATCH_PAGES 64 /* pages whose entries and headers are copied at once */
#define SLOTS_MAX (PAGE / 8)
#define LEAF_PAGES ((size_t)1 << LEAF_BITS)
#define MAX_OWN (1u << 20)
#define MAX_HOLDERS 64 /* contexts in a slab that are told apart; the others share the last place */

struct range {
    uint64_t start, end;
};

struct cached {
    uint64_t address;
    uint32_t bytes;
};

struct holder {
    uint32_t context;
    uint64_t bytes;
};

/* The slab that is being walked. */
struct slab {
    uint16_t code;
    uint32_t pages, resident_pages;
    uint64_t live, cached; /* bytes in resident pages */
    struct holder holders[MAX_HOLDERS];
    uint32_t n_holders;
};

struct view_heap {
    struct view *view;
    uint8_t class_slab_pages[CLASSES_MAX];
    uint64_t *root; /* the page map's */
    struct heap_context *contexts;
    uint32_t *owners; /* outside_owners() */
    uint32_t n_contexts;
    struct range *own;
    uint32_t n_own, own_room, n_sorted; /* of own */
    struct cached *cached;
    uint32_t n_cached, cached_room;
    /* While a mapping is walked */
    struct slab slab;
    struct heap_parts *parts;
    uint64_t big_end; /* the end of the big object that was met last */
    uint32_t big_context;
    uint64_t entries[BATCH_PAGES];
    header_t *tables;       /* BATCH_PAGES * SLOTS_MAX */
    uint64_t last_chunk;    /* of header tables: added to `own` already */
};

/* ---- Preparation ---- */

static int add_own(struct view_heap *h, uint64_t start, uint64_t bytes)
{
    if (h->n_own == h->own_room) {
        uint32_t room = h->own_room ? 2 * h->own_room : 256;
        struct range *own = room > MAX_OWN ? NULL : realloc(h->own, room * sizeof *own);
        if (!own)
            return -ENOMEM;
        h->own = own;
        h->own_room = room;
    }
    h->own[h->n_own++] = (struct range){start & ~(PAGE - 1), (start + bytes + PAGE - 1) & ~(PAGE - 1)};
    return 0;
}

static int add_cached(struct view_heap *h, uint64_t address, uint32_t bytes)
{
    if (h->n_cached == h->cached_room) {
        uint32_t room = h->cached_room ? 2 * h->cached_room : 1024;
        struct cached *cached = realloc(h->cached, room * sizeof *cached);
        if (!cached)
            return -ENOMEM;
        h->cached = cached;
        h->cached_room = room;
    }
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
        {copy->magazine_end, thread + offsetof(struct thread, magazine_end), sizeof copy->magazine_end},
        {copy->magazine, thread + offsetof(struct thread, magazine), sizeof copy->magazine}};
    int error = space_copy(&h->view->space, pieces, sizeof pieces / sizeof pieces[0]);
    uint64_t base = thread + offsetof(struct thread, magazine);
    for (unsigned class = 1; class < CLASSES_MAX && !error; class++) {
        uint64_t top = space_address(load_relaxed(&copy->magazine_top[class])), end = space_address(copy->magazine_end[class]);
        uint64_t most = o->magazine_max[class], missing = (end - top) / sizeof(struct free_object);
        if (!top || end < top || missing > most || top < base)
            continue;
        uint64_t index = (top - base) / sizeof(struct free_object);
        for (uint64_t n = most - missing; n > 0 && index < MAGAZINE_ENTRIES && !error; n--, index--)
            error = add_cached(h, space_address(copy->magazine[index].p), o->class_bytes[class]);
    }
    return error;
}

static int by_address(const void *a, const void *b)
{
    const struct cached *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

static int by_start(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
}

static int read_threads(struct view_heap *h)
{
    struct view_outside *o = h->view->outside;
    int error = 0;
    for (uint32_t i = 0; i < o->n_threads && !error; i++) {
        error = add_own(h, o->threads[i].address, sizeof(struct thread));
        if (!error)
            error = read_magazines(h, o->threads[i].address);
        for (uint32_t c = 0; c < o->n_chunks && o->directories && !error; c++) {
            uint64_t chunk = o->directories[(size_t)i * o->n_chunks + c];
            if (chunk)
                error = add_own(h, chunk, sizeof(struct counters_chunk));
        }
        if (!error)
            error = add_own(h, o->threads[i].chunks, o->n_chunks * sizeof(counters_chunk_t));
    }
    return error;
}

/* An array whose address is in a variable there. */
static int add_array(struct view_heap *h, uint64_t variable, size_t item_bytes)
{
    uint64_t start = 0;
    const struct piece piece = {&start, variable, sizeof start};
    int error = variable ? space_copy(&h->view->space, &piece, 1) : 0;
    return error || !start ? error : add_own(h, start, (uint64_t)h->n_contexts * item_bytes);
}

static int read_books(struct view_heap *h)
{
    const struct books *b = &h->view->books;
    size_t root_bytes = ((size_t)1 << ROOT_BITS) * sizeof *h->root;
    const struct piece pieces[] = {{&h->n_contexts, space_address(b->context_end), sizeof h->n_contexts},
                                   {h->class_slab_pages, space_address(b->class_slab_pages), sizeof h->class_slab_pages},
                                   {h->root, space_address(b->page_root), root_bytes}};
    int error = space_copy(&h->view->space, pieces, sizeof pieces / sizeof pieces[0]);
    if (!error && h->n_contexts > 1u << 24)
        error = -EBADMSG;
    for (size_t i = 0; i < (size_t)1 << ROOT_BITS && !error; i++)
        if (h->root[i])
            error = add_own(h, h->root[i], LEAF_PAGES * sizeof(page_entry_t) + sizeof(struct leaf_more));
    if (!error)
        error = add_array(h, space_address(b->contexts), sizeof(struct context));
    if (!error)
        error = add_array(h, space_address(b->context_lives), sizeof(uint32_t));
    if (!error)
        error = add_array(h, space_address(b->context_bases), sizeof(struct totals));
    if (!error)
        error = add_array(h, space_address(b->context_pasts), sizeof(struct totals));
    return error;
}

int view_heap_open(struct view_heap **heap, struct view *view)
{
    struct view_heap *h = calloc(1, sizeof *h);
    int error = -ENOMEM;
    if (!h)
        return error;
    h->view = view;
    h->root = malloc(((size_t)1 << ROOT_BITS) * sizeof *h->root);
    h->tables = malloc(BATCH_PAGES * SLOTS_MAX * sizeof *h->tables);
    if (h->root && h->tables)
        error = read_books(h);
    if (!error)
        error = outside_owners(view, &h->owners, &h->n_contexts);
    if (!error)
        error = read_threads(h);
    if (!error && !(h->contexts = calloc((size_t)h->n_contexts + 1, sizeof *h->contexts)))
        error = -ENOMEM;
    if (!error && h->n_cached > 0)
        qsort(h->cached, h->n_cached, sizeof *h->cached, by_address);
    if (error)
        view_heap_close(h);
    else
        *heap = h;
    return error;
}

void view_heap_close(struct view_heap *h)
{
    free(h->root);
    free(h->tables);
    free(h->contexts);
    free(h->owners);
    free(h->own);
    free(h->cached);
    free(h);
}

const struct heap_context *view_heap_contexts(const struct view_heap *h, uint32_t *n)
{
    *n = h->n_contexts;
    return h->contexts;
}

/* ---- Slabs ---- */

/* The index of a context. Numbers that no context has share the index after the last. */
static struct heap_context *context_of(struct view_heap *h, uint32_t tag)
{
    uint32_t id = tag & ~TAG_SURVIVOR;
    for (int step = 0; step < 2 && id < h->n_contexts; step++)
        id = h->owners[id];
    return &h->contexts[id < h->n_contexts ? id : h->n_contexts];
}

static void end_slab(struct view_heap *h)
{
    struct slab *s = &h->slab;
    uint64_t resident = (uint64_t)s->resident_pages * PAGE;
    if (s->n_holders == 0) {
        h->parts->empty += resident;
    } else {
        uint64_t live = s->live < resident ? s->live : resident;
        uint64_t cached = s->cached < resident - live ? s->cached : resident - live, free_bytes = resident - live, all = 0;
        h->parts->live += live;
        h->parts->cached += cached;
        h->parts->holes += free_bytes - cached;
        for (uint32_t i = 0; i < s->n_holders; i++)
            all += s->holders[i].bytes;
        for (uint32_t i = 0; i < s->n_holders; i++)
            h->contexts[s->holders[i].context].pinned_bytes += (uint64_t)((double)free_bytes * (double)s->holders[i].bytes / (double)all);
        if (s->n_holders == 1)
            h->contexts[s->holders[0].context].alone_bytes += free_bytes;
    }
    s->code = 0;
    s->pages = s->resident_pages = s->n_holders = 0;
    s->live = s->cached = 0;
}

static void hold(struct slab *s, uint32_t context, uint64_t bytes)
{
    uint32_t i = 0;
    while (i < s->n_holders && s->holders[i].context != context)
        i++;
    if (i == s->n_holders && i < MAX_HOLDERS)
        s->holders[s->n_holders++] = (struct holder){context, 0};
    s->holders[i < MAX_HOLDERS ? i : MAX_HOLDERS - 1].bytes += bytes;
}

/* Bytes of freed objects in the page that magazines keep. */
static uint64_t cached_in(const struct view_heap *h, uint64_t page)
{
    uint32_t low = 0, high = h->n_cached;
    uint64_t bytes = 0;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (h->cached[middle].address < page)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < h->n_cached && h->cached[low].address < page + PAGE; low++)
        bytes += h->cached[low].bytes;
    return bytes;
}

/* A header table lies in a chunk of 64 KiB that is jespan's. */
static int note_table(struct view_heap *h, uint64_t table)
{
    enum { CHUNK = 64 << 10 };
    uint64_t chunk = table & ~(uint64_t)(CHUNK - 1);
    if (chunk == h->last_chunk)
        return 0;
    h->last_chunk = chunk;
    return add_own(h, chunk, CHUNK);
}

static int walk_small(struct view_heap *h, uint64_t page, uint64_t entry, bool bound, bool resident, const header_t *table)
{
    uint16_t code = entry_plain_code(entry);
    unsigned class = CODE_CLASS(code) % CLASSES_MAX, shift = CODE_SLOT_SHIFT(code);
    uint64_t bytes = h->view->outside->class_bytes[class];
    struct slab *s = &h->slab;
    if (!bytes)
        return -EBADMSG;
    if (s->pages && (bound || s->code != code || s->pages >= (h->class_slab_pages[class] ? h->class_slab_pages[class] : 1)))
        end_slab(h);
    s->code = code;
    s->pages++;
    s->resident_pages += resident;
    s->cached += resident ? cached_in(h, page) : 0;
    for (size_t i = 0; i < PAGE >> shift; i++) {
        uint32_t tag = load_relaxed(&table[i]);
        if (!tag)
            continue;
        struct heap_context *context = context_of(h, tag);
        context->objects++;
        context->bytes += bytes;
        context->resident_bytes += resident ? bytes : 0;
        s->live += resident ? bytes : 0;
        hold(s, (uint32_t)(context - h->contexts), bytes);
    }
    return note_table(h, entry >> 16);
}

/* ---- Pages ---- */

static void add_big_page(struct view_heap *h, uint64_t page, bool resident)
{
    uint64_t bytes = h->big_end - page < PAGE ? h->big_end - page : PAGE;
    if (!resident)
        return;
    h->contexts[h->big_context].resident_bytes += bytes;
    h->contexts[h->big_context].pinned_bytes += PAGE - bytes;
    h->parts->live += bytes;
    h->parts->holes += PAGE - bytes;
}

static void begin_big(struct view_heap *h, uint64_t page, uint64_t entry)
{
    struct heap_context *context = context_of(h, entry_big_tag(entry));
    uint64_t start = (uint8_t)(entry >> BIG_START_SHIFT) * (uint64_t)BIG_START_UNIT, bytes = entry_big_bytes(entry);
    bytes = bytes ? bytes : PAGE;
    h->big_context = (uint32_t)(context - h->contexts);
    h->big_end = page + start + bytes;
    context->objects++;
    context->bytes += bytes;
}

/* Returns whether the page is one of the heap's. */
static int walk_page(struct view_heap *h, uint64_t page, uint64_t entry, bool bound, bool resident, const header_t *table, bool *is_heap)
{
    if (entry_is_small_any(entry)) {
        *is_heap = true;
        h->big_end = 0;
        return walk_small(h, page, entry, bound, resident, table);
    }
    if (h->slab.pages)
        end_slab(h);
    if (entry_is_big_any(entry) && entry_big_tag(entry) != 0) {
        *is_heap = true;
        begin_big(h, page, entry);
    }
    if (page < h->big_end)
        add_big_page(h, page, resident);
    else
        h->parts->other += resident ? PAGE : 0;
    return 0;
}

/* Copies the header tables of pages that have one. A table that is gone meanwhile counts as empty. */
static int copy_tables(struct view_heap *h, size_t n)
{
    struct piece pieces[BATCH_PAGES];
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t entry = h->entries[i];
        unsigned shift = CODE_SLOT_SHIFT(entry_plain_code(entry));
        if (!entry_is_small_any(entry))
            continue;
        if (shift < 3 || shift >= HEADER_PAGE_BITS)
            return -EBADMSG;
        pieces[used++] = (struct piece){h->tables + i * SLOTS_MAX, entry >> 16, (PAGE >> shift) * sizeof(header_t)};
    }
    int error = space_copy(&h->view->space, pieces, used);
    return error;
}

static int copy_batch(struct view_heap *h, uint64_t page, size_t n, uint64_t *bounds)
{
    uint64_t leaf = h->root[page >> (HEADER_PAGE_BITS + LEAF_BITS)];
    size_t at = (page >> HEADER_PAGE_BITS) & (LEAF_PAGES - 1);
    *bounds = 0;
    memset(h->entries, 0, sizeof h->entries);
    if (!leaf)
        return 0;
    uint64_t more = leaf + LEAF_PAGES * sizeof(page_entry_t);
    const struct piece pieces[] = {{h->entries, leaf + at * sizeof(page_entry_t), n * sizeof *h->entries},
                                   {bounds, more + offsetof(struct leaf_more, bounds) + at / 64 * 8, sizeof *bounds}};
    int error = space_copy(&h->view->space, pieces, 2);
    return error ? error : copy_tables(h, n);
}

static int walk_batches(struct view_heap *h, uint64_t start, uint64_t end, const bool *resident, bool *is_heap)
{
    int error = 0;
    for (uint64_t page = start, next; page < end && !error; page = next) {
        uint64_t bounds, batch_end = (page & ~(BATCH_PAGES * PAGE - 1)) + BATCH_PAGES * PAGE;
        next = batch_end < end ? batch_end : end;
        if (page >> ADDRESS_BITS)
            return 0;
        error = copy_batch(h, page, (next - page) / PAGE, &bounds);
        for (uint64_t p = page; p < next && !error; p += PAGE)
            error = walk_page(h, p, h->entries[(p - page) / PAGE], bounds >> (p / PAGE % BATCH_PAGES) & 1,
                              resident[(p - start) / PAGE], h->tables + (p - page) / PAGE * SLOTS_MAX, is_heap);
    }
    if (h->slab.pages)
        end_slab(h);
    return error;
}

int view_heap_walk(struct view_heap *h, uint64_t start, uint64_t end, const bool *resident, struct heap_parts *parts, bool *is_heap)
{
    *parts = (struct heap_parts){0};
    *is_heap = false;
    h->parts = parts;
    h->big_end = 0;
    memset(&h->slab, 0, sizeof h->slab);
    return walk_batches(h, start, end, resident, is_heap);
}

/* Moves jespan's own pages of a mapping from `other` to `own`. Ranges may overlap. */
void view_heap_own(struct view_heap *h, uint64_t start, uint64_t end, const bool *resident, struct heap_parts *parts)
{
    uint64_t done = start;
    if (h->n_own > h->n_sorted)
        qsort(h->own, h->n_own, sizeof *h->own, by_start);
    h->n_sorted = h->n_own;
    for (uint32_t i = 0; i < h->n_own && h->own[i].start < end; i++) {
        uint64_t from = h->own[i].start > done ? h->own[i].start : done, to = h->own[i].end < end ? h->own[i].end : end;
        for (uint64_t page = from; page < to; page += PAGE)
            parts->own += resident[(page - start) / PAGE] ? PAGE : 0;
        done = to > done ? to : done;
    }
    parts->other -= parts->own < parts->other ? parts->own : parts->other;
}
