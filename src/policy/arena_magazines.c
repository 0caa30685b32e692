/* SPDX-License-Identifier: BSD-2-Clause */
/* Arena caches: the magazines, off the fast paths. */
#include "policy/arena_cache.h"

#include <errno.h>
#include <string.h>

#include "base/meta.h"
#include "heap/magazine.h"
#include "heap/pagemap.h"
#include "jemalloc/binding.h"

/* The room of a class is small until the thread wants more objects at a time. The most objects and bytes in it, beside jemalloc's
 * tcache. A large room has LARGE_OBJECTS_MIN objects, whatever their bytes. */
#define SMALL_OBJECTS 16u
#define SMALL_BYTES 8192u
#define LARGE_BYTES 32768u
#define LARGE_OBJECTS_MIN 20u
#define REFILL_MAX 64u /* objects */

static struct free_object none[2]; /* the bottom of magazines without room, and an entry above it */

static uint32_t small_room(size_t class)
{
    uint32_t fit = magazine_max[class] ? SMALL_BYTES / class_bytes[class] : 0;
    return fit < SMALL_OBJECTS ? fit : SMALL_OBJECTS;
}

static uint32_t large_room(size_t class)
{
    uint32_t fit = LARGE_BYTES / class_bytes[class];
    fit = fit > LARGE_OBJECTS_MIN ? fit : LARGE_OBJECTS_MIN;
    return fit < ARENA_MAGAZINE_MAX ? fit : ARENA_MAGAZINE_MAX;
}

static uint32_t room_of(const struct arena_magazines *m, size_t class)
{
    return (uint32_t)(m->full[class] - load_relaxed(&m->bottom[class]));
}

static uint32_t objects_in(const struct arena_magazines *m, size_t class)
{
    return (uint32_t)(load_relaxed(&m->top[class]) - load_relaxed(&m->bottom[class]));
}

void arena_magazines_start(struct arena_magazines *m)
{
    for (unsigned class = 0; class < CLASS_IN_ARENA; class++) {
        store_relaxed(&m->top[class], none);
        store_relaxed(&m->bottom[class], none);
        m->full[class] = none;
    }
}

/* Gives the magazine a new room, and an entry above it, which stays empty. The old one, of 288 bytes, is lost: readers may still look
 * into it. The magazine is empty while its objects are copied: a child that is forked meanwhile loses them. False: no memory. */
static COLD bool move_to_room(struct arena_magazines *m, size_t class, uint32_t room)
{
    struct free_object *old = load_relaxed(&m->bottom[class]), *bottom = meta_alloc((room + 2) * sizeof *bottom);
    uint32_t n = objects_in(m, class);
    if (!bottom)
        return false;
    store_release(&m->top[class], old);
    memcpy(bottom + 1, old + 1, n * sizeof *bottom);
    store_relaxed(&m->bottom[class], bottom);
    store_release(&m->top[class], bottom + n);
    m->full[class] = bottom + room;
    return true;
}

/* Makes room if the thread wants more of it, as its refills say. True: there is more than before. */
static bool make_room(struct arena_cache *c, size_t class)
{
    uint32_t room = room_of(c->magazines, class);
    if (likely(room && c->next_refill[class] <= room))
        return false;
    uint32_t more = room ? large_room(class) : small_room(class);
    return more > room && move_to_room(c->magazines, class, more);
}

/* ---- Giving objects to jemalloc ---- */

/* Gives the n oldest objects to jemalloc. The magazine is empty while the others move down: a child that is forked meanwhile
 * loses them. It is in order before jemalloc is called, since the program's own extent hooks may allocate. */
#define GIVEN_MAX 32u
static void give_some(struct arena_cache *c, size_t class, uint32_t n)
{
    struct free_object *bottom = load_relaxed(&c->magazines->bottom[class]), *top = load_relaxed(&c->magazines->top[class]);
    struct free_object given[GIVEN_MAX];
    memcpy(given, bottom + 1, n * sizeof *given);
    store_release(&c->magazines->top[class], bottom);
    memmove(bottom + 1, bottom + 1 + n, (size_t)(top - bottom - n) * sizeof *bottom);
    store_release(&c->magazines->top[class], top - n);
    for (uint32_t i = 0; i < n; i++)
        jespan_je_sdallocx(given[i].p, class_bytes[class], arena_cache_free_flags(c));
}

static void give_all_but(struct arena_cache *c, size_t class, uint32_t kept)
{
    for (uint32_t n; (n = objects_in(c->magazines, class)) > kept;)
        give_some(c, class, n - kept < GIVEN_MAX ? n - kept : GIVEN_MAX);
}

NOINLINE void arena_cache_free_slow(struct arena_cache *c, size_t class, struct free_object object)
{
    if (c->place && !make_room(c, class))
        give_all_but(c, class, room_of(c->magazines, class) / 2);
    if (!arena_cache_keep(c, class, object))
        jespan_je_sdallocx(object.p, class_bytes[class], arena_cache_free_flags(c));
}

void arena_magazines_empty(struct arena_cache *c)
{
    for (size_t class = 1; class < CLASS_IN_ARENA; class++)
        give_all_but(c, class, 0);
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

static bool is_one_room(const struct arena_magazines *m, size_t class)
{
    ptrdiff_t room = m->full[class] - load_relaxed(&m->bottom[class]), n = load_relaxed(&m->top[class]) - load_relaxed(&m->bottom[class]);
    return n >= 0 && n <= room && room <= ARENA_MAGAZINE_MAX;
}

COLD void arena_magazines_after_fork(struct arena_magazines *m)
{
    for (size_t class = 1; class < CLASS_IN_ARENA; class++) {
        if (is_one_room(m, class))
            continue;
        m->full[class] = load_relaxed(&m->bottom[class]);
        store_relaxed(&m->top[class], m->full[class]);
    }
}

/* ---- Getting objects from jemalloc ---- */

/* Without memory for a header table of the page, the object goes back. Returns the bytes of pages that got a table. */
static size_t keep_new(struct arena_cache *c, struct class_info info, void *p)
{
    uint64_t entry = load_acquire(pagemap_page_of((uintptr_t)p));
    bool is_new_page = page_entry_plain_code(entry) != info.code;
    if (is_new_page)
        entry = pagemap_install(&c->thread->tables, (uintptr_t)p, info.code);
    if (unlikely(!entry) || !arena_cache_keep(c, CODE_CLASS(info.code), (struct free_object){p, page_entry_slot_any(entry, (uintptr_t)p)}))
        jespan_je_sdallocx(p, info.bytes, arena_cache_free_flags(c));
    return is_new_page ? HEADER_PAGE_BYTES : 0;
}

/* The most objects that jemalloc takes from its tcache: it makes a new slab for a request of a whole one. */
static uint32_t batch_for(const struct arena_magazines *m, size_t class)
{
    uint32_t of_slab = (uint32_t)(class_slab_pages[class] * HEADER_PAGE_BYTES / class_bytes[class]), room = room_of(m, class);
    uint32_t most = room < REFILL_MAX ? room : REFILL_MAX;
    return most < of_slab ? most : of_slab ? of_slab - 1 : 0;
}

/* The first refill of a class wants few objects, and each one twice as many as the last. jemalloc answers with objects of low
 * addresses first, so these are put in last. */
NOINLINE size_t arena_cache_refill(struct arena_cache *c, struct class_info info)
{
    size_t class = CODE_CLASS(info.code), bytes = 0;
    void *got[REFILL_MAX];
    int saved = errno, place = c->place; /* 0: a signal handler has forked */
    if (class)
        make_room(c, class);
    uint32_t most = class ? batch_for(c->magazines, class) : 0, wanted = c->next_refill[class] ? c->next_refill[class] : 2;
    c->next_refill[class] = (uint8_t)(wanted < REFILL_MAX ? 2 * wanted : wanted);
    uint32_t n = wanted < most ? wanted : most;
    if (!n || !place)
        return 0;
    for (size_t i = binding_alloc_batch(got, n, info.bytes, place); i-- > 0;)
        bytes += keep_new(c, info, got[i]);
    errno = saved;
    return bytes;
}
