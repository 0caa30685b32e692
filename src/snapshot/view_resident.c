/* SPDX-License-Identifier: BSD-2-Clause */
/* Walks the mappings of another process, and adds up what their pages contain. */
#include "snapshot/view_resident.h"

#include <errno.h>
#include <stdlib.h>

#include "base/meta.h"
#include "snapshot/view_mappings.h"

#define PIECE_BYTES ((uint64_t)1 << 30) /* of a mapping, walked at once */
#define PAGE_BYTES 4096u

const struct resident_text resident_texts[RESIDENT_N_PARTS] = {
    [RESIDENT_LIVE] = {"in_use", "objects in use"},
    [RESIDENT_HOLES] = {"holes", "free, in slabs and pages that objects in use keep"},
    [RESIDENT_CACHED] = {"cached", "freed objects there that threads keep for their next allocations"},
    [RESIDENT_EMPTY] = {"empty_slabs", "slabs without objects in use: cached, or not given back yet"},
    [RESIDENT_JEMALLOC] = {"jemalloc", "other pages of the heap: not given back yet, and jemalloc's own data"},
    [RESIDENT_OWN] = {"jespan", "jespan: headers, page map, counters, contexts"},
    [RESIDENT_STACKS] = {"stacks", "stacks"},
    [RESIDENT_CODE] = {"code", "the program and its libraries, with their data"},
    [RESIDENT_FILES] = {"files", "other files"},
    [RESIDENT_SHARED] = {"shared", "shared memory"},
    [RESIDENT_OTHER] = {"other", "other anonymous memory: jemalloc's own data, and the program's own mappings"},
};

struct walk {
    struct resident *to;
    struct mappings mappings;
    struct view_heap *heap;
    bool *resident; /* of a piece of a mapping */
};

/* The program runs meanwhile, so parts may be more or less than what the kernel counted. */
static void add_parts(struct resident *r, const struct heap_parts *p, uint64_t counted, enum resident_part other)
{
    uint64_t sum = p->live + p->cached + p->holes + p->empty + p->own + p->other;
    double scale = sum == 0 ? 0 : (double)counted / (double)sum;
    r->parts[RESIDENT_LIVE] += (uint64_t)((double)p->live * scale);
    r->parts[RESIDENT_CACHED] += (uint64_t)((double)p->cached * scale);
    r->parts[RESIDENT_HOLES] += (uint64_t)((double)p->holes * scale);
    r->parts[RESIDENT_EMPTY] += (uint64_t)((double)p->empty * scale);
    r->parts[RESIDENT_OWN] += (uint64_t)((double)p->own * scale);
    r->parts[other] += (uint64_t)((double)p->other * scale);
}

static void sum_parts(struct heap_parts *to, const struct heap_parts *from)
{
    to->live += from->live;
    to->cached += from->cached;
    to->holes += from->holes;
    to->empty += from->empty;
    to->own += from->own;
    to->other += from->other;
}

/* jespan's pages are known when all mappings have been walked, so there are two rounds. */
static int walk_mapping(struct walk *w, struct mapping *m, struct heap_parts *sum, bool *is_heap)
{
    int error = mappings_find_zeroes(&w->mappings, m);
    for (uint64_t start = m->start, end; start < m->end && !error; start = end) {
        struct heap_parts piece;
        bool has = false;
        end = m->end - start > PIECE_BYTES ? start + PIECE_BYTES : m->end;
        error = mappings_resident(&w->mappings, m, start, end, w->resident);
        if (!error)
            error = view_heap_walk(w->heap, start, end, w->resident, &piece, &has);
        if (!error) {
            sum_parts(sum, &piece);
            *is_heap |= has;
        }
    }
    return error;
}

static int own_of_mapping(struct walk *w, struct mapping *m, struct heap_parts *sum)
{
    for (uint64_t start = m->start, end; start < m->end; start = end) {
        end = m->end - start > PIECE_BYTES ? start + PIECE_BYTES : m->end;
        int error = mappings_resident(&w->mappings, m, start, end, w->resident);
        if (error)
            return error;
        view_heap_own(w->heap, start, end, w->resident, sum);
    }
    return 0;
}

static const enum resident_part part_of[MAPPING_N_KINDS] = {
    [MAPPING_ANONYMOUS] = RESIDENT_OTHER, [MAPPING_STACK] = RESIDENT_STACKS, [MAPPING_CODE] = RESIDENT_CODE,
    [MAPPING_FILE] = RESIDENT_FILES, [MAPPING_SHARED] = RESIDENT_SHARED};

/* Which mappings are walked: those with pages, and those before them without a gap, since an object may begin there. madvise() and
 * mprotect() cut mappings within objects. */
static void choose_walked(const struct mappings *all, bool *is_walked)
{
    for (size_t i = all->n; i-- > 0;) {
        const struct mapping *m = &all->items[i];
        bool goes_on = i + 1 < all->n && is_walked[i + 1] && m->end == m[1].start && m->end - m->start <= PIECE_BYTES;
        is_walked[i] = m->has_no_file && (m->resident_bytes > 0 || goes_on);
    }
}

static int walk_all(struct walk *w)
{
    size_t n = w->mappings.n;
    struct heap_parts *sums = calloc(n + 1, sizeof *sums);
    bool *is_heap = calloc(n + 1, sizeof *is_heap), *is_walked = calloc(n + 1, sizeof *is_walked);
    w->resident = meta_map(PIECE_BYTES / PAGE_BYTES);
    int error = sums && is_heap && is_walked && w->resident ? 0 : -ENOMEM;
    if (!error)
        choose_walked(&w->mappings, is_walked);
    for (size_t i = 0; i < n && !error; i++)
        if (is_walked[i])
            error = walk_mapping(w, &w->mappings.items[i], &sums[i], &is_heap[i]);
    for (size_t i = 0; i < n && !error; i++) {
        struct mapping *m = &w->mappings.items[i];
        if (m->has_no_file && m->resident_bytes > 0)
            error = own_of_mapping(w, m, &sums[i]);
        if (m->has_no_file)
            add_parts(w->to, &sums[i], m->resident_bytes, is_heap[i] ? RESIDENT_JEMALLOC : part_of[m->kind]);
        else
            w->to->parts[part_of[m->kind]] += m->resident_bytes;
        w->to->all += m->resident_bytes;
        w->to->swapped += m->swapped_bytes;
    }
    free(sums);
    free(is_heap);
    free(is_walked);
    return error;
}

static uint64_t keeps(const struct resident_holder *h)
{
    return h->figures.resident_bytes + h->figures.pinned_bytes;
}

static int compare(const void *a, const void *b)
{
    const struct resident_holder *x = a, *y = b;
    return keeps(x) != keeps(y) ? (keeps(x) < keeps(y) ? 1 : -1) : (x->row > y->row) - (x->row < y->row);
}

static int find_holders(struct resident *r, const struct view_heap *heap, const struct snapshot *s)
{
    uint32_t n_contexts;
    const struct heap_context *contexts = view_heap_contexts(heap, &n_contexts);
    r->holders = calloc((size_t)s->n_rows + 1, sizeof *r->holders);
    if (!r->holders)
        return -ENOMEM;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const struct totals *t = &s->rows[i].totals;
        struct resident_holder *h = &r->holders[r->n_holders];
        *h = (struct resident_holder){.row = i, .in_use = totals_inuse_bytes(t)};
        if (s->rows[i].id < n_contexts)
            h->figures = contexts[s->rows[i].id];
        double asked = t->alloc_bytes == 0 ? 1 : (double)t->alloc_requested_bytes / (double)t->alloc_bytes;
        r->requested += (uint64_t)((double)h->in_use * asked);
        r->usable += h->in_use;
        r->n_holders += h->in_use > 0 || keeps(h) > 0;
    }
    qsort(r->holders, r->n_holders, sizeof *r->holders, compare);
    return 0;
}

/* The mappings come first: see view_heap_open(). */
int view_resident_read(struct resident *r, struct view *view, const struct snapshot *s)
{
    struct walk w = {.to = r};
    *r = (struct resident){.all = 0};
    int error = mappings_read(&w.mappings, view_pid(view));
    if (!error)
        error = view_heap_open(&w.heap, view);
    if (!error)
        error = walk_all(&w);
    if (!error)
        error = find_holders(r, w.heap, s);
    if (w.heap)
        view_heap_close(w.heap);
    mappings_free(&w.mappings);
    meta_unmap(w.resident, PIECE_BYTES / PAGE_BYTES);
    return error == -ENOENT || error == -EFAULT ? -ESRCH : error;
}

void view_resident_free(struct resident *r)
{
    free(r->holders);
    r->holders = NULL;
}
