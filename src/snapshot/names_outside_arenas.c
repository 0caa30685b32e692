/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of the span arenas of another process. jemalloc's statistics of an arena are not in the books. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "snapshot/names_outside_parts.h"

enum source { NAME, VALUE, INDEX, CONTEXTS, SUM, EXTENTS, REFUSALS, ERRORS };

/* Figures that are computed from others. These numbers are no offsets. */
enum { INUSE_OBJECTS = sizeof(struct arena_sums), INUSE_BYTES };

#define ARENA_SUM(name) {#name, SUM, offsetof(struct arena_sums, name)}
#define ARENA_EXTENTS(name, member) {#name, EXTENTS, offsetof(struct extent_arena, member)}

static const struct arena_figure {
    const char *name;
    enum source source;
    size_t offset;
} arena_names[] = {
    {"name", NAME, 0},
    {"value", VALUE, 0},
    {"index", INDEX, 0},
    {"contexts", CONTEXTS, 0},
    {"inuse_objects", SUM, INUSE_OBJECTS},
    {"inuse_bytes", SUM, INUSE_BYTES},
    ARENA_SUM(alloc_objects),
    ARENA_SUM(alloc_bytes),
    ARENA_SUM(free_objects),
    ARENA_SUM(free_bytes),
    ARENA_EXTENTS(mapped_bytes, figures.mapped_bytes),
    ARENA_EXTENTS(committed_bytes, figures.committed_bytes),
    ARENA_EXTENTS(peak_mapped_bytes, figures.peak_mapped_bytes),
    ARENA_EXTENTS(extents, figures.extents),
    ARENA_EXTENTS(limit_bytes, limit_bytes),
    {"refusals", REFUSALS, 0},
    {"policy_errors", ERRORS, 0},
};
#define N_NAMES (sizeof arena_names / sizeof *arena_names)

const char *names_outside_arena_name(size_t i)
{
    return i < N_NAMES ? arena_names[i].name : NULL;
}

/* ---- What threads allocated and freed there ---- */

/* The arena of a context that has something in a free buffer. */
static int arena_of(struct view *view, uint32_t context, uint16_t *arena)
{
    uint64_t heads_at;
    uint32_t end;
    *arena = 0;
    int error = names_outside_copy(view, &end, space_address(view->books.context_end), sizeof end);
    if (!error)
        error = names_outside_copy(view, &heads_at, space_address(view->books.context_heads), sizeof heads_at);
    if (!error && context < end)
        error = names_outside_copy(view, arena, heads_at + (uint64_t)context * sizeof(struct context_head) +
                                   offsetof(struct context_head, arena), sizeof *arena);
    return error;
}

/* Frees before allocations, as arena_cache_sums(). */
static int add_thread(struct view *view, const struct outside_thread *t, uint32_t arena, struct arena_sums *sums)
{
    struct arena_cache cache = {0};
    uint64_t caches = 0, at = 0;
    int error = names_outside_copy(view, &caches, t->address + offsetof(struct thread, arena_caches), sizeof caches);
    if (!error && caches)
        error = names_outside_copy(view, &at, caches + arena * sizeof at, sizeof at);
    if (!error && at) {
        const struct piece pieces[] = {
            {&cache.free_objects, at + offsetof(struct arena_cache, free_objects), 2 * sizeof cache.free_objects},
            {&cache.alloc_objects, at + offsetof(struct arena_cache, alloc_objects), 2 * sizeof cache.alloc_objects}};
        error = space_copy(&view->space, pieces, 2);
    }
    sums->alloc_objects += load_relaxed(&cache.alloc_objects);
    sums->alloc_bytes += load_relaxed(&cache.alloc_bytes);
    sums->free_objects += load_relaxed(&cache.free_objects);
    sums->free_bytes += load_relaxed(&cache.free_bytes);
    for (int i = 0; i < t->n_freed && !error && at; i++) {
        uint16_t of = 0;
        error = arena_of(view, t->freed[i].context, &of);
        sums->free_objects += of == arena;
        sums->free_bytes += of == arena ? t->freed[i].bytes : 0;
    }
    return error;
}

static int get_sum(struct view *view, uint32_t arena, const struct span_arena *a, size_t which, struct mailbox_answer *answer)
{
    struct arena_sums sums = {0};
    int error = 0;
    for (uint32_t i = 0; i < view->outside->n_threads && !error; i++)
        error = add_thread(view, &view->outside->threads[i], arena, &sums);
    if (error)
        return error;
    arena_sums_leave_out(&sums, a);
    if (which == INUSE_OBJECTS)
        return names_outside_number(answer, at_least_0(sums.alloc_objects - sums.free_objects));
    if (which == INUSE_BYTES)
        return names_outside_number(answer, at_least_0(sums.alloc_bytes - sums.free_bytes));
    return names_outside_number(answer, at_least_0(*(const uint64_t *)((const char *)&sums + which)));
}

/* ---- The arena ---- */

static int get_name(struct view *view, const struct span_arena *a, struct mailbox_answer *answer)
{
    int error = 0;
    const struct site *there = load_relaxed(&a->site), *site = there ? outside_find_site(view, there, &error) : NULL;
    return error ? error : site && site->name ? names_outside_words(answer, site->name) : -ENOENT;
}

static int get(struct view *view, uint32_t arena, struct span_arena *a, const struct arena_figure *f, struct mailbox_answer *answer)
{
    switch (f->source) {
    case NAME:
        return get_name(view, a, answer);
    case VALUE:
        a->value[sizeof a->value - 1] = '\0';
        return names_outside_words(answer, a->value);
    case INDEX:
        return load_relaxed(&a->state) == ARENA_READY ? names_outside_number(answer, a->extents.index) : -ENOENT;
    case CONTEXTS:
        return names_outside_number(answer, a->contexts);
    case SUM:
        return get_sum(view, arena, a, f->offset, answer);
    case EXTENTS:
        return names_outside_number(answer, load_relaxed((_Atomic uint64_t *)((char *)&a->extents + f->offset)));
    case REFUSALS:
        return names_outside_number(answer, load_relaxed(&a->refusals));
    default:
        return names_outside_number(answer, load_relaxed(&a->extents.policy_errors) - load_relaxed(&a->before.policy_errors));
    }
}

int names_outside_arena(struct view *view, uint32_t arena, const char *name, struct mailbox_answer *answer)
{
    struct span_arena a;
    uint64_t arenas_at;
    size_t i = 0;
    while (i < N_NAMES && strcmp(arena_names[i].name, name) != 0)
        i++;
    if (i == N_NAMES)
        return -EOPNOTSUPP;
    int error = names_outside_copy(view, &arenas_at, space_address(view->books.arenas), sizeof arenas_at);
    if (!error)
        error = arenas_at ? names_outside_copy(view, &a, arenas_at + (uint64_t)arena * sizeof a, sizeof a) : -ENOENT;
    return error ? error : get(view, arena, &a, &arena_names[i], answer);
}
