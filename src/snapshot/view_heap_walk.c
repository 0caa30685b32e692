/* SPDX-License-Identifier: BSD-2-Clause */
/* Walks the headers of another process's heap.
 *
 * Pages of small objects are put together to slabs: jemalloc gives back a slab only when all its objects are free, so a live
 * object pins the free bytes of its whole slab. A slab begins where an extent begins, or where the class changes, or after as
 * many pages as slabs of the class have.
 */
#include "snapshot/view_heap_parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- Slabs ---- */

/* The index of a context. Numbers that no context has share the index after the last. */
static struct heap_context *context_of(struct view_heap *h, uint32_t tag)
{
    uint32_t id = tag & ~TAG_SURVIVOR;
    for (int step = 0; step < 2 && id < h->n_contexts; step++)
        id = h->owners[id];
    return &h->contexts[id < h->n_contexts ? id : h->n_contexts];
}

/* Objects that start in a resident page may end in one that is not. Where they have more bytes than the slab has resident, each
 * context gives up its share of the excess, so that contexts add up to the objects in use. */
static void cut_to_resident(struct view_heap *h, uint64_t resident)
{
    const struct slab *s = &h->slab;
    uint64_t left = s->live > resident ? s->live - resident : 0;
    double share = (double)left / (double)s->live;
    for (uint32_t i = 0; i < s->n_holders && left > 0; i++) {
        struct heap_context *context = &h->contexts[s->holders[i].context];
        uint64_t cut = i + 1 == s->n_holders ? left : (uint64_t)((double)s->holders[i].resident * share);
        cut = cut < context->resident_bytes ? cut : context->resident_bytes;
        context->resident_bytes -= cut;
        left -= cut;
    }
}

static void end_slab(struct view_heap *h)
{
    struct slab *s = &h->slab;
    uint64_t resident = (uint64_t)s->resident_pages * PAGE;
    if (s->n_holders == 0) {
        h->parts->empty += resident;
    } else {
        cut_to_resident(h, resident);
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

static void hold(struct slab *s, uint32_t context, uint64_t bytes, bool resident)
{
    uint32_t i = 0;
    while (i < s->n_holders && s->holders[i].context != context)
        i++;
    if (i == s->n_holders && i < MAX_HOLDERS)
        s->holders[s->n_holders++] = (struct holder){context, 0, 0};
    struct holder *holder = &s->holders[i < MAX_HOLDERS ? i : MAX_HOLDERS - 1];
    holder->bytes += bytes;
    holder->resident += resident ? bytes : 0;
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

/* Whether an object that starts in this range waits in a free buffer. */
static bool is_freed(const struct view_heap *h, uint64_t start, uint64_t bytes)
{
    uint32_t low = 0, high = h->n_freed;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (h->freed[middle] < start)
            low = middle + 1;
        else
            high = middle;
    }
    return low < h->n_freed && h->freed[low] < start + bytes;
}

/* A header table lies in a chunk of 64 KiB that is jespan's, and so do the second words of its headers. */
static int note_table(struct view_heap *h, uint64_t table)
{
    enum { CHUNK = 64 << 10 };
    uint64_t chunk = table & ~(uint64_t)(CHUNK - 1);
    if (chunk == h->last_chunk)
        return 0;
    h->last_chunk = chunk;
    int error = view_heap_add_own(h, chunk, CHUNK);
    return error ? error : view_heap_add_own(h, chunk + HEADER_MORE_BYTES, CHUNK);
}

static int walk_small(struct view_heap *h, uint64_t page, uint64_t entry, bool bound, bool resident, const struct table *table)
{
    uint16_t code = page_entry_plain_code(entry);
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
    bool has_freed = is_freed(h, page, PAGE);
    for (size_t i = 0; i < PAGE >> shift; i++) {
        uint32_t tag = tag_of_header(table->headers[i], table->more[i]);
        if (!tag)
            continue;
        if (has_freed && is_freed(h, page + (i << shift), UINT64_C(1) << shift)) {
            s->cached += resident ? bytes : 0;
            continue;
        }
        struct heap_context *context = context_of(h, tag);
        context->objects++;
        context->bytes += bytes;
        context->resident_bytes += resident ? bytes : 0;
        s->live += resident ? bytes : 0;
        hold(s, (uint32_t)(context - h->contexts), bytes, resident);
    }
    return note_table(h, entry >> 16);
}

/* ---- Pages ---- */

/* The rest of a big object, in a page in which another one starts. Returns its resident bytes. */
static uint64_t add_big_tail(struct view_heap *h, uint64_t page, uint64_t next, bool resident)
{
    uint64_t end = h->big_end < next ? h->big_end : next;
    if (!resident || h->big_is_freed || end <= page)
        return 0;
    h->contexts[h->big_context].resident_bytes += end - page;
    h->parts->live += end - page;
    return end - page;
}

/* `tail` bytes of the page are of another object. */
static void add_big_page(struct view_heap *h, uint64_t page, uint64_t tail, bool resident)
{
    uint64_t end = h->big_end - page < PAGE ? h->big_end - page : PAGE, bytes = end - (h->big_start > page ? h->big_start - page : 0);
    if (!resident)
        return;
    if (h->big_is_freed) {
        h->parts->empty += PAGE - tail;
        return;
    }
    h->contexts[h->big_context].resident_bytes += bytes;
    h->contexts[h->big_context].pinned_bytes += PAGE - tail - bytes;
    h->parts->live += bytes;
    h->parts->holes += PAGE - tail - bytes;
}

static void begin_big(struct view_heap *h, uint64_t page, uint64_t entry)
{
    struct heap_context *context = context_of(h, page_entry_big_tag(entry));
    uint64_t start = page_entry_big_start(entry), bytes = page_entry_big_bytes(entry);
    bytes = bytes ? bytes : PAGE;
    h->big_context = (uint32_t)(context - h->contexts);
    h->big_start = page + start;
    h->big_end = h->big_start + bytes;
    h->big_is_freed = is_freed(h, page + start, 1);
    if (h->big_is_freed)
        return;
    context->objects++;
    context->bytes += bytes;
}

/* Returns whether the page is one of the heap's. */
static int walk_page(struct view_heap *h, uint64_t page, uint64_t entry, bool bound, bool resident, const struct table *table,
                     bool *is_heap)
{
    if (page_entry_is_small_any(entry)) {
        *is_heap = true;
        h->big_end = 0;
        return walk_small(h, page, entry, bound, resident, table);
    }
    if (h->slab.pages)
        end_slab(h);
    uint64_t tail = 0;
    *is_heap |= page_entry_is_big_any(entry); /* a freed one too: its entry is cleared when its pages are given back */
    if (page_entry_is_big_any(entry) && page_entry_big_tag(entry) != 0) {
        tail = add_big_tail(h, page, page + page_entry_big_start(entry), resident);
        begin_big(h, page, entry);
    }
    if (page < h->big_end) {
        *is_heap = true;
        add_big_page(h, page, tail, resident);
    } else {
        h->parts->other += resident ? PAGE : 0;
    }
    return 0;
}

/* Copies the second words of a page's headers, if there are any. */
static int copy_more(struct view_heap *h, struct table *table, uint64_t at, size_t n)
{
    size_t i = 0;
    while (i < n && !header_has_more(table->headers[i]))
        i++;
    const struct piece piece = {table->more, (uintptr_t)header_more((header_t *)(uintptr_t)at, false), n * sizeof *table->more};
    return i < n ? space_copy(&h->view->space, &piece, 1) : 0;
}

/* Copies the header tables of pages that have one. A table that is gone meanwhile counts as empty. */
static int copy_tables(struct view_heap *h, size_t n)
{
    struct piece pieces[BATCH_PAGES] = {{0}};
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t entry = h->entries[i];
        unsigned shift = CODE_SLOT_SHIFT(page_entry_plain_code(entry));
        if (!page_entry_is_small_any(entry))
            continue;
        if (shift < 3 || shift >= HEADER_PAGE_BITS)
            return -EBADMSG;
        pieces[used++] = (struct piece){h->tables[i].headers, entry >> 16, (PAGE >> shift) * sizeof(header_t)};
    }
    int error = space_copy(&h->view->space, pieces, used);
    for (size_t i = 0; i < n && !error; i++)
        if (page_entry_is_small_any(h->entries[i]))
            error = copy_more(h, &h->tables[i], h->entries[i] >> 16,
                              PAGE >> CODE_SLOT_SHIFT(page_entry_plain_code(h->entries[i])));
    return error;
}

static int copy_batch(struct view_heap *h, uint64_t page, size_t n)
{
    uint64_t leaf = h->root[page >> (HEADER_PAGE_BITS + LEAF_BITS)];
    size_t at = (page >> HEADER_PAGE_BITS) & (LEAF_PAGES - 1);
    memset(h->entries, 0, sizeof h->entries);
    memset(h->begins, 0, sizeof h->begins);
    if (!leaf)
        return 0;
    uint64_t more = leaf + LEAF_PAGES * sizeof(page_entry_t);
    const struct piece pieces[] = {{h->entries, leaf + at * sizeof(page_entry_t), n * sizeof *h->entries},
                                   {h->begins, more + offsetof(struct leaf_more, begins) + at, n}};
    int error = space_copy(&h->view->space, pieces, 2);
    return error ? error : copy_tables(h, n);
}

static int walk_batches(struct view_heap *h, uint64_t start, uint64_t end, const bool *resident, bool *is_heap)
{
    int error = 0;
    for (uint64_t page = start, next; page < end && !error; page = next) {
        uint64_t batch_end = (page & ~(BATCH_PAGES * PAGE - 1)) + BATCH_PAGES * PAGE;
        next = batch_end < end ? batch_end : end;
        if (page >> ADDRESS_BITS)
            return 0;
        error = copy_batch(h, page, (next - page) / PAGE);
        for (uint64_t p = page; p < next && !error; p += PAGE)
            error = walk_page(h, p, h->entries[(p - page) / PAGE], h->begins[(p - page) / PAGE],
                              resident[(p - start) / PAGE], &h->tables[(p - page) / PAGE], is_heap);
    }
    if (h->slab.pages)
        end_slab(h);
    return error;
}

int view_heap_walk(struct view_heap *h, uint64_t start, uint64_t end, const bool *resident, struct heap_parts *parts, bool *is_heap)
{
    *parts = (struct heap_parts){0};
    *is_heap = false;
    h->parts = parts; /* big_end stays: a big object may go on in the next piece or mapping */
    memset(&h->slab, 0, sizeof h->slab);
    return walk_batches(h, start, end, resident, is_heap);
}

static int by_start(const void *a, const void *b)
{
    const struct range *x = a, *y = b;
    return (x->start > y->start) - (x->start < y->start);
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
