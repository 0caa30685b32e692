/* SPDX-License-Identifier: BSD-2-Clause */
/* Arena caches: the magazines, off the fast paths. */
#include "policy/arena_cache.h"

#include <errno.h>
#include <string.h>

#include "base/meta.h"
#include "heap/magazine.h"
#include "heap/pagemap.h"
#include "jemalloc/binding.h"

/* The most bytes of one class that a thread keeps in an arena, beside jemalloc's tcache. */
#define BYTES_MAX 8192u

static struct free_object none[2]; /* the bottom of magazines without room, and an entry above it */

static uint32_t room_for(size_t class)
{
    uint32_t fit = magazine_max[class] ? BYTES_MAX / class_bytes[class] : 0;
    return fit < ARENA_MAGAZINE_MAX ? fit : ARENA_MAGAZINE_MAX;
}

void arena_magazines_start(struct arena_magazines *m)
{
    for (unsigned class = 0; class < CLASS_IN_ARENA; class++) {
        store_relaxed(&m->top[class], none);
        store_relaxed(&m->bottom[class], none);
        m->full[class] = none;
    }
}

/* Gives the magazine its room, and an entry above it, which stays empty. False: it has some, may have none, or there is no memory. */
static COLD bool make_room(struct arena_magazines *m, size_t class)
{
    uint32_t room = load_relaxed(&m->bottom[class]) == none ? room_for(class) : 0;
    struct free_object *bottom = room ? meta_alloc((room + 2) * sizeof *bottom) : NULL;
    if (!bottom)
        return false;
    store_relaxed(&m->bottom[class], bottom);
    store_release(&m->top[class], bottom);
    m->full[class] = bottom + room;
    return true;
}

/* ---- Giving objects to jemalloc ---- */

/* Gives the n oldest objects to jemalloc. The magazine is empty while the others move down: a child that is forked meanwhile
 * loses them. It is in order before jemalloc is called, since the program's own extent hooks may allocate. */
static void give_oldest(struct arena_cache *c, size_t class, uint32_t n)
{
    struct free_object *bottom = load_relaxed(&c->magazines->bottom[class]), *top = load_relaxed(&c->magazines->top[class]);
    struct free_object given[ARENA_MAGAZINE_MAX];
    memcpy(given, bottom + 1, n * sizeof *given);
    store_release(&c->magazines->top[class], bottom);
    memmove(bottom + 1, bottom + 1 + n, (size_t)(top - bottom - n) * sizeof *bottom);
    store_release(&c->magazines->top[class], top - n);
    for (uint32_t i = 0; i < n; i++)
        jespan_je_sdallocx(given[i].p, class_bytes[class], arena_cache_free_flags(c));
}

static uint32_t objects_in(const struct arena_magazines *m, size_t class)
{
    return (uint32_t)(load_relaxed(&m->top[class]) - load_relaxed(&m->bottom[class]));
}

NOINLINE void arena_cache_free_slow(struct arena_cache *c, size_t class, struct free_object object)
{
    uint32_t n = objects_in(c->magazines, class);
    if (n && c->place)
        give_oldest(c, class, n - n / 2);
    if ((n || (c->place && make_room(c->magazines, class))) && arena_cache_keep(c, class, object))
        return;
    jespan_je_sdallocx(object.p, class_bytes[class], arena_cache_free_flags(c));
}

void arena_magazines_empty(struct arena_cache *c)
{
    for (size_t class = 1; class < CLASS_IN_ARENA; class++) {
        uint32_t n = objects_in(c->magazines, class);
        if (n)
            give_oldest(c, class, n);
    }
}

bool arena_magazines_forget(struct arena_magazines *m)
{
    bool any = false;
    for (size_t class = 1; class < CLASS_IN_ARENA; class++) {
        any |= objects_in(m, class) != 0;
        store_relaxed(&m->top[class], load_relaxed(&m->bottom[class]));
    }
    return any;
}

/* ---- Getting objects from jemalloc ---- */

/* In a page that has no header table of the class yet, the object is left to an allocation that installs one. */
static void keep_new(struct arena_cache *c, struct class_info info, void *p)
{
    uint64_t entry = load_acquire(pagemap_page_of((uintptr_t)p));
    bool has_slot = page_entry_plain_code(entry) == info.code;
    struct free_object object = {p, has_slot ? page_entry_slot_any(entry, (uintptr_t)p) : NULL};
    if (!has_slot || !arena_cache_keep(c, CODE_CLASS(info.code), object))
        jespan_je_sdallocx(p, info.bytes, arena_cache_free_flags(c));
}

/* The most objects that jemalloc takes from its tcache: it makes a new slab for a request of a whole one. */
static uint32_t batch_for(size_t class)
{
    uint32_t of_slab = (uint32_t)(class_slab_pages[class] * HEADER_PAGE_BYTES / class_bytes[class]), room = room_for(class);
    return room < of_slab ? room : of_slab ? of_slab - 1 : 0;
}

/* The first refill of a class gets few objects, and each one twice as many as the last. jemalloc answers with objects of low
 * addresses first, so these are put in last. */
NOINLINE void arena_cache_refill(struct arena_cache *c, struct class_info info)
{
    size_t class = CODE_CLASS(info.code);
    uint32_t most = class ? batch_for(class) : 0, n = c->next_refill[class] ? c->next_refill[class] : 2;
    void *got[ARENA_MAGAZINE_MAX];
    int saved = errno;
    if (!most || (load_relaxed(&c->magazines->bottom[class]) == none && !make_room(c->magazines, class)))
        return;
    n = n < most ? n : most;
    c->next_refill[class] = (uint8_t)(2 * n);
    for (size_t i = binding_alloc_batch(got, n, info.bytes, c->place); i-- > 0;)
        keep_new(c, info, got[i]);
    errno = saved;
}
