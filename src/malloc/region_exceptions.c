/* SPDX-License-Identifier: BSD-2-Clause */
/* Exceptions that leave a region. */
#include "malloc/region_exceptions.h"

#include "base/die.h"
#include "base/exceptions.h"
#include "base/lock.h"
#include "heap/pagemap.h"
#include "malloc/track_slow.h"
#include "policy/regions.h"
#include "span/tree.h"

#define ALIGNMENT 16 /* of exceptions */

struct search {
    uint16_t arena;
    uint64_t found;
};

/* Objects of other owners are kept in any case. Another thread may write to them or free them meanwhile, so they are not
 * read. */
static void keep_if_exception(struct search *s, uintptr_t at)
{
    struct object_place place = track_find_header((void *)at);
    if (place.tag && !place.is_survivor && exceptions_is_one((const void *)at))
        s->found += track_keep(&place, s->arena);
}

/* An object begins anywhere in its slot. */
static void search_small(struct search *s, uintptr_t page, uint64_t entry)
{
    uintptr_t step = (uintptr_t)1 << CODE_SLOT_SHIFT(page_entry_plain_code(entry));
    for (uintptr_t slot = page; slot < page + HEADER_PAGE_BYTES; slot += step) {
        bool is_live = load_relaxed(page_entry_slot_any(entry, slot));
        for (uintptr_t at = slot; is_live && at < slot + step; at += ALIGNMENT)
            keep_if_exception(s, at);
    }
}

static void search_page(struct search *s, uintptr_t page, uint64_t entry)
{
    if (!page_entry_is_small_any(entry))
        keep_if_exception(s, page + page_entry_big_start(entry));
    else if (class_bytes[page_entry_class(entry)] > EXCEPTION_BYTES_MIN)
        search_small(s, page, entry);
}

static int search_range(void *search, uintptr_t start, size_t bytes)
{
    for (uintptr_t page = start; page < start + bytes; page += HEADER_PAGE_BYTES) {
        page_entry_t *at = pagemap_page(page);
        search_page(search, page, at ? load_relaxed(at) : 0);
    }
    return 0;
}

bool region_has_throwers(const struct span_arena *a)
{
    int i = 0;
    while (i < ARENA_THROWERS && !a->thrown_by[i])
        i++;
    return i < ARENA_THROWERS;
}

static bool is_only_thrower(const struct thread *t, const struct span_arena *a)
{
    int i = 1;
    while (i < ARENA_THROWERS && !a->thrown_by[i])
        i++;
    return a->thrown_by[0] == t && i == ARENA_THROWERS;
}

COLD void region_keep_exceptions(struct thread *t, struct span_arena *a)
{
    struct search s = {a->extents.id, 0};
    extent_arena_each_range(&a->extents, search_range, &s);
    lock(LOCK_TREE);
    if (s.found == 1 && a->opened_by == t && is_only_thrower(t, a) && exceptions_level().uncaught == a->level.uncaught + 1)
        a->thrown_by[0] = NULL;
    unlock(LOCK_TREE);
}

bool region_waits_for_exceptions(struct thread *t, struct span_arena *a)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    struct exceptions_level level = exceptions_level(), then = a->opened_by == t ? a->level : (struct exceptions_level){0, 0};
    bool is_done = level.uncaught <= then.uncaught && (!level.caught || level.caught == then.caught);
    for (int i = 0; i < ARENA_THROWERS; i++)
        if (a->thrown_by[i] == t && is_done)
            region_forget_thrower(a, i);
    return region_has_throwers(a);
}

void region_end_exceptions(struct thread *t)
{
    lock(LOCK_TREE);
    for (uint32_t id = 1; id < arenas_end(); id++) {
        for (int i = 0; i < ARENA_THROWERS; i++)
            if (arenas[id].thrown_by[i] == t)
                region_forget_thrower(&arenas[id], i);
        if (arenas[id].opened_by == t)
            arenas[id].opened_by = NULL;
    }
    unlock(LOCK_TREE);
}
