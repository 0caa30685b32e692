/* SPDX-License-Identifier: BSD-2-Clause */
/* Views of a process whose books are damaged or hostile.
 *
 * The process reads itself. Its books are good, and the input changes what is copied out of them: the first two bytes say
 * what is read, then each edit has 6 bytes or more: how many pieces are copied before it, which word of the piece it changes,
 * how, and the new value. So memory changes between two copies too, as it may in a hostile process.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdbool.h>
#include <sys/uio.h>
#include <unistd.h>

#include "exact_memory.h"
#include "fuzz.h"
#include "heap/classes.h"
#include "heap/thread.h"
#include "jespan/jespan.h"
#include "../support/family.h"
#include "malloc/track.h"
#include "report/exporter.h"
#include "snapshot/names_outside.h"
#include "snapshot/space.h"
#include "snapshot/view_heap.h"
#include "snapshot/view_parts.h"
#include "snapshot/view_threads.h"
#include "span/tree.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "thread_contexts:true,max_contexts:1024,max_stacks:8192,stacks:all,age_period_s:1";

/* ---- Edits of what is copied; this takes the place of snapshot/space.c ---- */

static struct fuzz_input input;
static bool is_edited;
static uint64_t pieces_until_next;

static uint64_t value_of_kind(unsigned kind, const uint8_t *own)
{
    switch (kind) {
    case 0:
        return fuzz_number(&input, 1);
    case 1:
        return fuzz_number(&input, 8);
    case 2:
        return UINT64_MAX - fuzz_number(&input, 1);
    case 3:
        return (uint64_t)1 << fuzz_number(&input, 1) % 64;
    case 4: /* memory that the input fills */
        return (uint64_t)(uintptr_t)own + fuzz_number(&input, 2);
    case 5:
        return (uint64_t)(uintptr_t)contexts + fuzz_number(&input, 2);
    case 6:
        return (uint64_t)(uintptr_t)thread_current + 8 * fuzz_number(&input, 2);
    default:
        return (uint64_t)(uintptr_t)load_relaxed(&thread_current->chunks[0]) + fuzz_number(&input, 2);
    }
}

static void edit(const struct piece *p)
{
    static const unsigned widths[] = {1, 2, 4, 8};
    unsigned how = (unsigned)fuzz_number(&input, 1), width = widths[how >> 3 & 3];
    size_t place = fuzz_number(&input, 2);
    uint64_t value = value_of_kind(how & 7, input.at);
    size_t at = p->bytes < width ? 0 : place * 4 % (p->bytes - width + 1);
    memcpy((char *)p->to + at, &value, p->bytes < width ? p->bytes : width);
}

static void edit_piece(const struct piece *p)
{
    while (is_edited && p->bytes && input.at < input.end && !pieces_until_next) {
        edit(p);
        pieces_until_next = fuzz_number(&input, 1);
    }
    pieces_until_next -= pieces_until_next > 0;
}

static int copy_piece(const struct piece *p)
{
    struct iovec to = {p->to, p->bytes}, from = {(void *)(uintptr_t)p->from, p->bytes};
    if (p->bytes && process_vm_readv(getpid(), &to, 1, &from, 1, 0) != (ssize_t)p->bytes)
        return -EFAULT;
    edit_piece(p);
    return 0;
}

int space_copy(struct space *space, const struct piece *pieces, size_t n)
{
    int error = 0;
    (void)space;
    for (size_t i = 0; i < n && !error; i++)
        error = copy_piece(&pieces[i]);
    return error;
}

void space_close(struct space *space)
{
    (void)space;
}

/* ---- What readers do with a view ---- */

static volatile uint64_t seen;

static void walk_rows(const struct snapshot *s)
{
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const struct snapshot_row *row = &s->rows[i];
        seen += strlen(row->name) + strlen(row->target) + strlen(row->file) + strlen(kind_text(row->kind));
        for (uint32_t k = 0; k < row->n_labels; k++)
            seen += strlen(row->labels[k].key) + strlen(row->labels[k].value);
        uint32_t steps = 0;
        for (uint32_t up = i; up; up = s->rows[up].parent_row)
            FUZZ_REQUIRE(steps++ <= s->n_rows && s->rows[up].parent_row < s->n_rows);
        seen += snapshot_inclusive(s, i).alloc_bytes;
        steps = 0;
        for (uint32_t k = row->first_stack; k; k = s->stacks[k - 1].next)
            FUZZ_REQUIRE(k <= s->n_stacks && steps++ <= s->n_stacks && s->stacks[k - 1].row == i);
    }
}

static void walk_parts(const struct snapshot *s)
{
    for (uint32_t i = 0; i < s->n_ages; i++)
        FUZZ_REQUIRE(s->ages[i].row < s->n_rows);
    for (uint32_t i = 0; i < s->n_stacks; i++)
        for (uint32_t frame = s->stacks[i].frame, parent; frame; frame = parent) {
            FUZZ_REQUIRE(frame < s->n_frames);
            parent = s->frames[frame].parent;
            FUZZ_REQUIRE(parent < frame);
        }
}

static void *object;

static uint64_t page_of(const void *p)
{
    return (uint64_t)(uintptr_t)p & ~UINT64_C(4095);
}

/* Some pages of the heap, and some without anything. */
static void walk_heap(struct view *view)
{
    static bool resident[64];
    struct view_heap *heap;
    struct heap_parts parts;
    bool is_heap;
    uint32_t n;
    const uint64_t pages[] = {page_of(thread_current), page_of(object), fuzz_number(&input, 8) & ~UINT64_C(4095)};
    if (view_heap_open(&heap, view) == 0) {
        for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
            uint64_t end = pages[i] + sizeof resident * 4096;
            if (end < pages[i] || view_heap_walk(heap, pages[i], end, resident, &parts, &is_heap))
                continue;
            view_heap_own(heap, pages[i], end, resident, &parts);
        }
        const struct heap_context *all = view_heap_contexts(heap, &n);
        seen += all[n].objects;
        view_heap_close(heap);
    }
}

/* `most`: bound of the cells */
static void walk_threads(struct view *view, const struct snapshot *s, size_t most)
{
    struct view_threads t;
    if (view_threads_read_within(&t, view, s, most) != 0)
        return;
    FUZZ_REQUIRE(t.n_cells <= most);
    FUZZ_REQUIRE(t.n_blocks <= t.n_threads);
    for (uint32_t i = 0; i < t.n_threads; i++) {
        FUZZ_REQUIRE(t.threads[i].block < t.n_blocks && (i >= t.n_blocks || t.threads[i].block == i));
        seen += strlen(t.threads[i].name) + t.threads[i].alloc_bytes;
    }
    for (size_t i = 0; i < t.n_cells; i++)
        FUZZ_REQUIRE(t.cells[i].block < t.n_blocks && t.cells[i].context < CONTEXTS_MAX);
    view_threads_free(&t);
}

static void walk_name(void *to, const char *name, const struct mailbox_answer *answer)
{
    (void)to;
    FUZZ_REQUIRE(answer->kind <= MAILBOX_WORDS && memchr(answer->words, '\0', sizeof answer->words));
    seen += strlen(name) + strlen(answer->words) + answer->value;
}

/* As `jespan ctl PID list` and `get` do. */
static void walk_names(struct view *view, const struct snapshot *s)
{
    static const char *const names[] = {"spans.version", "spans.4.labels", "spans.5.total.inuse_bytes", "spans.arenas.1.name",
                                        "spans.alerts.1.rule", "spans.stats.contexts"};
    struct mailbox_answer answer;
    uint32_t life;
    names_outside_list(view, s, "*", walk_name, NULL);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names_outside_get(view, s, names[i], &answer) == 0)
            walk_name(NULL, names[i], &answer);
    names_outside_life(view, (uint32_t)fuzz_number(&input, 4), &life);
}

static void read_view(struct view *view, unsigned what)
{
    struct snapshot *s = NULL, *next = NULL;
    for (unsigned i = 0; i < 1 + (what >> 1 & 1) && (next = view_snapshot(view, s)); i++) {
        s = next;
        walk_rows(s);
        walk_parts(s);
    }
    FUZZ_REQUIRE(next || errno > 0);
    if (!next) {
        snapshot_free(s); /* its contents may be lost */
        s = NULL;
    }
    const struct view_outside *o = view->outside;
    FUZZ_REQUIRE(!o || (uint64_t)o->n_chunks * o->n_threads * sizeof *o->directories <= o->directories_bytes);
    if (what & 4)
        walk_heap(view);
    if (s && what & 8) {
        walk_threads(view, s, VIEW_MOST_CELLS);
        walk_threads(view, s, 8);
    }
    if (s && what & 16)
        walk_names(view, s);
    snapshot_free(s);
}

static void fuzz_one(const uint8_t *data, size_t bytes)
{
    struct view *view;
    uint64_t pieces_before = exact_pieces;
    input = (struct fuzz_input){data, data + bytes};
    unsigned what = (unsigned)fuzz_number(&input, 1);
    pieces_until_next = fuzz_number(&input, 1);
    is_edited = what & 1; /* also what leads to the books */
    int error = view_open(&view, getpid());
    FUZZ_REQUIRE(error <= 0 && (error || is_edited || view));
    is_edited = true;
    if (!error) {
        read_view(view, what);
        view_close(view);
    }
    is_edited = false;
    FUZZ_REQUIRE(exact_pieces == pieces_before);
}

/* ---- Good books ---- */

static void fuzz_begin(void)
{
    static const struct jespan_site site = {.name = "span", .file = "file.c", .line = 7};
    FUZZ_REQUIRE(track_thread());
    for (int i = 0; i < 40; i++) {
        char text[8];
        snprintf(text, sizeof text, "%d", i);
        const struct jespan_label labels[] = {{"n", text}, JESPAN_LABEL_INT("i", i)};
        jespan_span_t *span = jespan_open(&site, i % 3 ? JESPAN_ROOT : jespan_current(), labels, (size_t)i % 3);
        jespan_enter(span);
        object = F(malloc)(64);
        F(free)(F(malloc)(32));
        if (i % 2)
            jespan_exit(span);
    }
}
