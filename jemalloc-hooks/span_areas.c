/* SPDX-License-Identifier: BSD-2-Clause */
/* Where the ranges of a span arena are. An area is an interval of pieces of 2 MiB. It has pages of the arena, and perhaps others.
 * Areas only grow. The page map tells which pages are the arena's. */
#include "heap/pagemap.h"
#include "span_extents.h"

#define AREA_BITS 21

#define AREA(first, last) ((uint64_t)(first) << 32 | (last))
#define AREA_FIRST(area) ((area) >> 32)
#define AREA_LAST(area) ((area) & UINT32_MAX)

static uint64_t united(uint64_t area, uint64_t with)
{
    uint64_t first = AREA_FIRST(area) < AREA_FIRST(with) ? AREA_FIRST(area) : AREA_FIRST(with);
    uint64_t last = AREA_LAST(area) > AREA_LAST(with) ? AREA_LAST(area) : AREA_LAST(with);
    return AREA(first, last);
}

/* The number of pieces between two areas; 0 where they touch. */
static uint64_t distance(uint64_t a, uint64_t b)
{
    uint64_t first = AREA_FIRST(a) > AREA_FIRST(b) ? AREA_FIRST(a) : AREA_FIRST(b);
    uint64_t last = AREA_LAST(a) < AREA_LAST(b) ? AREA_LAST(a) : AREA_LAST(b);
    return first > last + 1 ? first - last - 1 : 0;
}

/* The area to extend: one that touches the new one, else a free one, else the nearest. */
static size_t best_area(const struct extent_arena *a, uint64_t area)
{
    size_t best = 0;
    uint64_t best_distance = UINT64_MAX;
    for (size_t i = 0; i < EXTENT_AREAS; i++) {
        uint64_t other = load_relaxed(&a->areas[i]);
        uint64_t far = other ? distance(area, other) : 0;
        if (far < best_distance) {
            best = i;
            best_distance = far;
        }
        if (!other)
            break;
    }
    return best;
}

void extent_arena_note_range(struct extent_arena *a, uintptr_t start, size_t bytes)
{
    uint64_t area = AREA(start >> AREA_BITS, (start + bytes - 1) >> AREA_BITS), old;
    _Atomic uint64_t *place;
    do {
        place = &a->areas[best_area(a, area)];
        old = load_relaxed(place);
    } while (!atomic_compare_exchange_strong(place, &old, old ? united(old, area) : area));
}

/* Finds the lowest part of an area from this piece on. Areas may overlap, since they grow. */
static bool next_area(const struct extent_arena *a, uint64_t from, uint64_t *first, uint64_t *last)
{
    *first = UINT64_MAX;
    for (size_t i = 0; i < EXTENT_AREAS; i++) {
        uint64_t area = load_relaxed(&a->areas[i]);
        uint64_t start = AREA_FIRST(area) > from ? AREA_FIRST(area) : from;
        if (area && AREA_LAST(area) >= from && start < *first) {
            *first = start;
            *last = AREA_LAST(area);
        }
    }
    return *first != UINT64_MAX;
}

int extent_arena_each_range(const struct extent_arena *a, int (*each)(void *arg, uintptr_t start, size_t bytes),
                            void *arg)
{
    int result = 0;
    for (uint64_t first = 0, last = 0; !result && next_area(a, first, &first, &last); first = last + 1) {
        uintptr_t start = (uintptr_t)first << AREA_BITS, end = ((uintptr_t)last + 1) << AREA_BITS;
        size_t bytes;
        while (!result && (bytes = pagemap_next_claim(a->id, &start, end))) {
            result = each(arg, start, bytes);
            start += bytes;
        }
    }
    return result;
}
