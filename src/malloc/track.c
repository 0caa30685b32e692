/* SPDX-License-Identifier: BSD-2-Clause */
/* All accounting off the hot path: big objects, full buffers, threads without a block. */
#include "malloc/track.h"

#include <errno.h>
#include <string.h>

#include "base/die.h"
#include "base/dump_on.h"
#include "base/lock.h"
#include "heap/sums.h"
#include "jemalloc-hooks/extents.h"
#include "jemalloc/binding.h"
#include "malloc/boot.h"
#include "policy/arenas.h"
#include "policy/limit.h"
#include "span/age.h"
#include "span/span.h"
#include "span/tree.h"

/* ---- Allocation ---- */

static COLD bool count_alloc_orphan(size_t usable, size_t requested)
{
    lock(LOCK_ORPHAN);
    bool admitted = limits_charge_orphan(CONTEXT_ID_ROOT, usable);
    if (admitted)
        counters_add_alloc(counters_orphan(CONTEXT_ID_ROOT), usable, requested);
    unlock(LOCK_ORPHAN);
    return admitted;
}

/* Asks for what came below a limit since the caller began: then nothing is held yet. False: refused. */
static bool count_alloc(struct thread *t, size_t usable, size_t requested)
{
    if (unlikely(!t))
        return count_alloc_orphan(usable, requested);
    uint32_t section = limits_begin(t);
    while (unlikely(limits_of(t->tag)) && !limits_has_held(t)) {
        limits_end(t, section);
        if (limits_hold(t, t->tag, usable, false) == LIMITS_REFUSED)
            return false;
        section = limits_begin(t);
    }
    counters_add_alloc(t->current, usable, requested);
    if (unlikely(limits_has_held(t)))
        limits_use(t, usable);
    limits_end(t, section);
    return true;
}

static uint32_t tag_of(const struct thread *t)
{
    return t ? t->tag : CONTEXT_ID_ROOT;
}

/* For the context `owner`; 0: the thread's. Returns 0, HEADERS_IN_ARENA in a page of a span arena, or -ENOMEM. */
static int set_header(struct thread *t, void *p, size_t usable, uint32_t owner)
{
    if (usable >= HEADER_PAGE_BYTES) {
        if (usable >= extents_oversize_bytes)
            extents_watch_pointer(p);
        return pagemap_set_big((uintptr_t)p, usable, owner ? owner : tag_of(t));
    }
    uint16_t code = class_of(usable).code;
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_acquire(page) : 0;
    if (entry_plain_code(entry) != code) {
        if (t && t->n_held)
            t->event_due = true; /* not while bytes are held for the context, which it may change */
        else if (t)
            boot_slow_event(t);
        if (!extents_oversize_bytes)
            extents_watch_pointer(p);
        entry = pagemap_install((uintptr_t)p, code);
    }
    if (unlikely(!entry))
        return -ENOMEM;
    store_relaxed(entry_slot_any(entry, (uintptr_t)p), owner ? owner : tag_of(t)); /* now: boot_slow_event() may have changed it */
    return entry & ENTRY_ARENA ? HEADERS_IN_ARENA : 0;
}

/* Whether a small object of this class starts at p. */
HOT_INLINE bool is_start(const void *p, size_t class)
{
    return likely(pagemap_is_start((uintptr_t)p, class)) || pagemap_find_start((uintptr_t)p, class);
}

static bool is_start_of(const void *p, uint64_t entry)
{
    return entry_is_small_any(entry) ? is_start(p, entry_class(entry)) : entry_big_starts_at(entry, (uintptr_t)p);
}

/* Where the tag of an object is. */
struct place {
    header_t *slot;     /* of a small object */
    page_entry_t *page; /* of a big one */
    uint32_t tag;       /* 0: not a live object */
    bool handed_over;
};

static struct place find_tag(void *p)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    struct place place = {.page = page, .tag = entry_big_tag(entry)};
    if (entry_is_small_any(entry)) {
        place.slot = entry_slot_any(entry, (uintptr_t)p);
        place.tag = load_relaxed(place.slot);
    }
    if (place.tag && !is_start_of(p, entry))
        place.tag = 0;
    place.handed_over = entry & ENTRY_ARENA && place.tag & TAG_HANDED_OVER;
    place.tag &= entry & ENTRY_ARENA ? ~TAG_HANDED_OVER : ~0u;
    return place;
}

static void set_tag(const struct place *place, uint32_t tag)
{
    if (place->slot)
        store_relaxed(place->slot, tag);
    else
        store_relaxed(place->page, (uint64_t)tag << BIG_TAG_SHIFT | (uint32_t)load_relaxed(place->page));
}

/* An object of a region that is another's must not go with it. The mark comes first: who finds handed_over finds that too. */
static void hand_over(const struct place *place, uint16_t arena, uint32_t tag)
{
    set_tag(place, tag | TAG_HANDED_OVER);
    store_release(&arenas[arena].aside_objects, UINT64_MAX);
    store_release(&arenas[arena].handed_over, true);
}

/* Its header is there. What comes into a region from elsewhere, or is made another's where it is, is another's. */
static void count_in_arena(struct thread *t, uint16_t arena, void *p, size_t usable)
{
    if (!arena)
        return;
    arenas_count_alloc(t, arena, usable);
    struct place place = find_tag(p);
    if (arenas[arena].region && (!t || t->region != arena))
        hand_over(&place, arena, place.tag);
}

/* The header is there, or not, as set_header() says. */
static COLD bool is_well(struct thread *t, void *p, size_t usable, int error)
{
    if (error < 0)
        jespan_je_dallocx(p, MALLOCX_TCACHE_NONE);
    else
        count_in_arena(t, arenas_find(p), p, usable);
    return error >= 0;
}

/* False, with ENOMEM: there is no memory for its header, and it is freed. */
static bool set_own_header(struct thread *t, void *p, size_t usable)
{
    int error = unlikely(!t && !boot_is_done()) ? -ENOMEM : set_header(t, p, usable, 0);
    bool well = likely(!error) || is_well(t, p, usable, error);
    if (unlikely(!well))
        errno = ENOMEM;
    return well;
}

static void *refuse(struct thread *t, void *p);

void *track_alloc_usable(struct thread *t, void *p, size_t requested, size_t usable)
{
    if (unlikely(!p))
        return NULL;
    if (unlikely(boot_is_under_way()) && boot_early_add(p, requested))
        return p;
    if (unlikely(!set_own_header(t, p, usable)))
        return NULL;
    return likely(count_alloc(t, usable, requested)) ? p : refuse(t, p);
}

COLD void *track_refuse(struct thread *t, void *p, size_t usable)
{
    return set_own_header(t, p, usable) ? refuse(t, p) : NULL;
}

void *track_alloc_slow(struct thread *t, void *p, size_t requested)
{
    if (likely(p))
        return track_alloc_usable(t, p, requested, jespan_je_sallocx(p, 0));
    dump_on_failure(requested, !t || t->tag == CONTEXT_ID_SELF);
    return NULL;
}

/* ---- Free ---- */

static void add_frees(struct counters *c, uint64_t objects, uint64_t bytes)
{
    own_add_release(&c->free_objects, objects);
    own_add_release(&c->free_bytes, bytes);
}

static COLD void count_frees_orphan(uint32_t context, uint64_t objects, uint64_t bytes)
{
    lock(LOCK_ORPHAN);
    add_frees(counters_orphan(context), objects, bytes);
    limits_uncharge_orphan(context, bytes);
    unlock(LOCK_ORPHAN);
}

static COLD void count_frees_uncharged(uint32_t context, uint64_t bytes)
{
    lock(LOCK_ORPHAN);
    add_frees(counters_orphan(context), 1, bytes);
    unlock(LOCK_ORPHAN);
}

NOINLINE void track_count_frees(struct thread *t, uint32_t context, uint64_t objects, uint64_t bytes)
{
    struct counters *c = t ? counters_get(t, context) : NULL;
    if (unlikely(!c)) {
        count_frees_orphan(context, objects, bytes);
        return;
    }
    uint32_t section = limits_begin(t);
    add_frees(c, objects, bytes);
    limits_give(t, limits_of(context), bytes);
    limits_end(t, section);
}

/* A context's first free on a thread, where there were never limits. */
static NOINLINE void count_first_free(struct thread *t, uint32_t context, uint64_t bytes)
{
    struct counters *c = counters_get(t, context);
    if (likely(c))
        counters_add_free(c, bytes);
    else
        count_frees_orphan(context, 1, bytes);
}

static COLD _Noreturn void die_not_allocated(const void *p)
{
    die_pointer("free of a pointer that is not allocated (freed before, or never):", p);
}

struct owner {
    uint32_t tag;
    bool in_arena;
    size_t usable;
};

/* Reads and clears the header of an object that is about to be freed. */
static struct owner take_header(void *p)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    struct owner owner = {.in_arena = entry & ENTRY_ARENA};
    if (unlikely(entry && !is_start_of(p, entry)))
        die_not_allocated(p);
    if (entry_is_small_any(entry)) {
        header_t *slot = entry_slot_any(entry, (uintptr_t)p);
        owner.tag = load_relaxed(slot);
        owner.usable = class_bytes[entry_class(entry)];
        store_relaxed(slot, 0);
    } else {
        owner.tag = entry_big_tag(entry);
        if (owner.tag) {
            owner.usable = entry_big_bytes(entry) ? entry_big_bytes(entry) : jespan_je_sallocx(p, 0);
            store_relaxed(page, (uint64_t)(uint32_t)entry);
        }
    }
    if (unlikely(!owner.tag))
        die_not_allocated(p);
    owner.tag &= owner.in_arena ? ~TAG_HANDED_OVER : ~0u;
    return owner;
}

/* Into the thread's cache of that arena, unless the caller names another, which nothing of a region may lie in, as it would
 * stay there; nor in the automatic one, which serves other arenas. A survivor of a region may be freed while others look
 * whether there are any: it counts until jemalloc is through with it. */
static NOINLINE void free_to_arena(struct thread *t, void *p, size_t usable, int flags)
{
    uint16_t arena = arenas_find(p);
    bool counts_late = arena && arenas[arena].region, names_cache = flags & PLACE_TCACHE && !(flags & MALLOCX_TCACHE_NONE);
    if (arenas_wipes(arena))
        explicit_bzero(p, usable);
    else if (counts_late)
        exceptions_forget(p, usable);
    if (arena && !counts_late)
        arenas_count_frees(t, arena, 1, usable);
    if (arena && (names_cache || !(flags & PLACE_TCACHE)))
        flags = arenas_free_flags(t ? arenas_cache(t, arena) : NULL);
    jespan_je_sdallocx(p, usable, flags);
    if (counts_late)
        arenas_count_frees(t, arena, 1, usable);
}

void track_free_now(struct thread *t, void *p, int flags)
{
    struct owner owner = take_header(p);
    track_count_frees(t, owner.tag, 1, owner.usable);
    if (unlikely(owner.in_arena))
        free_to_arena(t, p, owner.usable, flags);
    else
        jespan_je_sdallocx(p, owner.usable, flags);
}

#define NO_TAG UINT32_MAX /* not 0, which the header of a freed object has */

HOT_INLINE struct counters *find_counters(struct thread *t, uint32_t tag, const void *p)
{
    if (unlikely(!tag))
        die_not_allocated(p);
    return counters_find(t, tag);
}

/* Each entry is finished before free_buffer_done passes it, and the count is 0 before free_buffer_done is again, so that a child
 * forked at any moment knows where to go on. The program's own extent hooks may free meanwhile: the count may rise. */
void track_flush(struct thread *t)
{
    uint32_t sequence = load_relaxed(&t->free_buffer_sequence), last_tag = NO_TAG;
    struct counters *c = NULL; /* of last_tag: objects that are freed together tend to be of one owner */
    store_relaxed(&t->free_buffer_sequence, sequence + 1);
    atomic_thread_fence(memory_order_release); /* odd before any header or counter changes; see sums.c */
    for (size_t i = load_relaxed(&t->free_buffer_done); i < load_relaxed(&t->free_buffer_count);) {
        void *p = load_relaxed(&t->free_buffer_object[i]);
        header_t *slot = load_relaxed(&t->free_buffer_slot[i]);
        size_t class = load_relaxed(&t->free_buffer_class[i]);
        uint32_t tag = load_relaxed(slot);
        if (unlikely(!is_start(p, class)))
            die_not_allocated(p);
        store_relaxed(slot, 0);
        if (unlikely(tag != last_tag) && !(c = find_counters(t, last_tag = tag, p))) {
            count_first_free(t, tag, class_bytes[class]);
            last_tag = NO_TAG;
        } else {
            counters_add_free(c, class_bytes[class]);
        }
        if (unlikely(!magazine_put(t, class, (struct free_object){p, slot})))
            magazine_put_in_full(t, class, (struct free_object){p, slot});
        store_release(&t->free_buffer_done, (uint32_t)++i);
    }
    store_relaxed(&t->free_buffer_count, 0);
    store_release(&t->free_buffer_done, 0);
    store_release(&t->free_buffer_sequence, sequence + 2);
}

/* Entries leave a buffer in track_flush() only, which turns the sequence. */
static void check_buffer(struct thread *t)
{
    uint32_t sequence = load_acquire(&t->free_buffer_sequence);
    void *freed_twice = NULL;
    if (sequence & 1)
        return;
    for (uint32_t i = load_acquire(&t->free_buffer_done), n = load_acquire(&t->free_buffer_count); i < n && i < PENDING_MAX; i++) {
        header_t *slot = load_relaxed(&t->free_buffer_slot[i]);
        if (!load_relaxed(slot))
            freed_twice = load_relaxed(&t->free_buffer_object[i]);
    }
    atomic_thread_fence(memory_order_acquire);
    if (freed_twice && load_relaxed(&t->free_buffer_sequence) == sequence)
        die_not_allocated(freed_twice);
}

COLD void track_check_waiting(void)
{
    for (struct thread *t = thread_next(thread_first()); t; t = thread_next(t))
        if (load_relaxed(&t->live))
            check_buffer(t);
}

/* The free at `i`, unless somebody uncharged it already. A thread without counters for the context has them first. */
HOT_INLINE void count_waiting(struct thread *t, uint32_t i, uint32_t sequence, header_t *slot, size_t usable)
{
    uint32_t tag = load_relaxed(slot);
    struct counters *c = counters_get(t, tag);
    uint32_t section = limits_begin(t);
    if (load_relaxed(&t->claimed_sequence) != sequence) {
        store_relaxed(&t->claimed, 0);
        store_relaxed(&t->claimed_sequence, sequence);
    }
    bool is_claimed = i < load_relaxed(&t->claimed);
    store_relaxed(&t->counted, i + 1);
    store_relaxed(slot, 0);
    if (likely(c))
        counters_add_free(c, usable);
    if (likely(!is_claimed))
        limits_give(t, limits_of(tag), usable);
    limits_end(t, section);
    if (unlikely(!c))
        count_frees_uncharged(tag, usable);
}

/* As track_flush(), and uncharges. */
static void flush_within(struct thread *t)
{
    uint32_t sequence = load_relaxed(&t->free_buffer_sequence);
    store_relaxed(&t->free_buffer_sequence, sequence + 1);
    atomic_thread_fence(memory_order_release);
    for (uint32_t i = load_relaxed(&t->free_buffer_done); i < load_relaxed(&t->free_buffer_count); i++) {
        void *p = load_relaxed(&t->free_buffer_object[i]);
        header_t *slot = load_relaxed(&t->free_buffer_slot[i]);
        unsigned class = load_relaxed(&t->free_buffer_class[i]);
        if (unlikely(!load_relaxed(slot) || !is_start(p, class)))
            die_not_allocated(p);
        count_waiting(t, i, sequence, slot, class_bytes[class]);
        if (unlikely(!magazine_put(t, class, (struct free_object){p, slot})))
            magazine_put_in_full(t, class, (struct free_object){p, slot});
        store_release(&t->free_buffer_done, i + 1);
    }
    store_relaxed(&t->free_buffer_count, 0);
    store_release(&t->free_buffer_done, 0);
    store_release(&t->free_buffer_sequence, sequence + 2);
}

static void (*_Atomic flush)(struct thread *) = track_flush; /* so that without limits nobody asks */

COLD void track_begin_limits(void)
{
    store_release(&flush, flush_within);
}

void track_flush_any(struct thread *t)
{
    load_relaxed(&flush)(t);
}

void thread_cache_flush(struct thread *t)
{
    track_flush_any(t);
    magazine_empty(t);
    arenas_flush_thread(t);
}

HOT_INLINE bool free_at_once(struct thread *t, struct arena_cache *arena_cache, void *p, uint64_t entry)
{
    header_t *slot = entry_slot_any(entry, (uintptr_t)p);
    struct counters *c = counters_find(t, load_relaxed(slot) & ~TAG_HANDED_OVER);
    if (unlikely(!c || !load_relaxed(slot) || !is_start(p, entry_class(entry))))
        return false;
    size_t usable = class_bytes[entry_class(entry)];
    uint32_t section = limits_begin(t);
    uint32_t limit = limits_of(load_relaxed(slot) & ~TAG_HANDED_OVER);
    store_relaxed(slot, 0);
    counters_add_free(c, usable);
    limits_give(t, limit, usable);
    limits_end(t, section);
    arena_cache_count_frees(arena_cache, 1, usable);
    jespan_je_sdallocx(p, usable, arenas_free_flags(arena_cache));
    return true;
}

/* A small object of a span arena, on a thread that has allocated there, and is inside if it is a region's. False: not so, or the
 * buffer is full. */
HOT_INLINE bool free_in_arena(struct thread *t, void *p)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    uint16_t arena = entry & ENTRY_ARENA && entry_is_small_any(entry) ? arenas_find(p) : 0;
    struct arena_cache *arena_cache = arena ? arenas_cache(t, arena) : NULL;
    if (!arena_cache || unlikely(arenas_wipes(arena)))
        return false;
    if (arenas[arena].region) { /* which may end while it waits */
        if (t->region != arena)
            return false;
        exceptions_forget(p, class_bytes[entry_class(entry)]);
        return free_at_once(t, arena_cache, p, entry);
    }
    if (arena_cache->last == p)
        return free_at_once(t, arena_cache, p, entry);
    if (unlikely(!classes_of_arenas || load_relaxed(&t->free_buffer_count) == PENDING_MAX))
        return false;
    track_free_later(t, p, entry_slot_any(entry, (uintptr_t)p), entry_class(entry) + CLASS_IN_ARENA);
    return true;
}

/* As track_free_fast(), and uncharges what goes back at once. */
static bool free_small(struct thread *t, void *p)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    if (!entry_is_small(entry))
        return false;
    header_t *slot = entry_slot(entry, (uintptr_t)p);
    unsigned class = entry_class(entry);
    struct free_object *last = magazine_last(t, class);
    uint32_t n = load_relaxed(&t->free_buffer_count);
    if (last->p == p && load_relaxed(slot) == t->tag && load_relaxed(&t->free_buffer_object[(n - 1) % PENDING_MAX]) != p) {
        uint32_t section = limits_begin(t);
        store_relaxed(slot, 0);
        counters_add_free(t->current, class_bytes[class]);
        limits_give(t, limits_of(t->tag), class_bytes[class]);
        limits_end(t, section);
        last->slot = slot;
        magazine_put_last(t, class, last);
        return true;
    }
    if (n == PENDING_MAX || last[-1].p == p)
        return false;
    track_free_later(t, p, slot, class);
    return true;
}

/* The buffer is full. */
HOT_INLINE void free_in_full(struct thread *t, void *p)
{
    load_relaxed(&flush)(t);
    boot_slow_event(t);
    if (unlikely(load_relaxed(&flush) != track_flush)) {
        if (!free_small(t, p))
            track_free_now(t, p, 0);
    } else if (!track_free_fast(t, p)) {
        track_free_now(t, p, 0);
    }
}

static void free_else(struct thread *t, void *p)
{
    if (unlikely(boot_is_under_way()) && boot_early_remove(p))
        jespan_je_free(p);
    else if (!t || !free_small(t, p))
        track_free_now(t, p, 0);
}

void track_free_slow(struct thread *t, void *p)
{
    if (!p)
        return;
    int saved = errno;
    if (!t) {
        t = likely(thread_current) ? thread_current : track_thread_slow();
        track_publish_free(t, p);
    }
    /* An odd sequence: a signal handler came into track_flush(). */
    if (!t || !free_in_arena(t, p)) {
        if (t && load_relaxed(&t->free_buffer_count) == PENDING_MAX && !(load_relaxed(&t->free_buffer_sequence) & 1))
            free_in_full(t, p);
        else
            free_else(t, p);
    }
    errno = saved;
}

/* Gives back an object that is not counted. */
static COLD void *refuse(struct thread *t, void *p)
{
    struct owner owner = take_header(p);
    if (owner.in_arena)
        free_to_arena(t, p, owner.usable, 0);
    else
        jespan_je_sdallocx(p, owner.usable, MALLOCX_TCACHE_NONE);
    errno = ENOMEM;
    return NULL;
}

/* ---- Size ---- */

static bool is_waiting(const struct thread *t, const void *p)
{
    for (uint32_t i = t ? load_relaxed(&t->free_buffer_count) : 0; i-- > 0;)
        if (load_relaxed(&t->free_buffer_object[i]) == p)
            return true;
    return false;
}

void track_check_not_freed(const struct thread *t, const void *p)
{
    if (unlikely(is_waiting(t, p)))
        die_not_allocated(p);
}

size_t track_usable(const void *p)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    if (entry_is_small_any(entry))
        return class_bytes[entry_class(entry)];
    if (!entry_is_big_any(entry))
        return 0;
    return entry_big_bytes(entry) ? entry_big_bytes(entry) : jespan_je_sallocx(p, 0);
}

/* ---- What a thread has allocated and freed ---- */

/* With more contexts than this, a thread that begins does not sum what its block has counted for others before, unless a
 * thread of the program has asked for such a figure. */
#define START_CONTEXTS 1024

static _Atomic bool bytes_wanted;

/* Not on the hot path of programs with many contexts and many short threads. */
void track_begin_bytes(struct thread *t)
{
    t->publishes = false;
    t->start_is_known = tree_end() <= START_CONTEXTS || load_relaxed(&bytes_wanted);
    if (t->start_is_known)
        t->at_start = sums_of_thread(t, tree_end());
}

static uint64_t jemalloc_says(const char *name)
{
    uint64_t bytes = 0;
    size_t size = sizeof bytes;
    return jespan_je_mallctl(name, &bytes, &size, NULL, 0) ? 0 : bytes;
}

struct thread_bytes track_thread_bytes(struct thread *t)
{
    store_relaxed(&bytes_wanted, true);
    track_flush_any(t);
    struct thread_bytes now = sums_of_thread(t, tree_end());
    if (!t->start_is_known) {
        t->at_start.allocated = now.allocated - jemalloc_says("thread.allocated");
        t->at_start.deallocated = now.deallocated - jemalloc_says("thread.deallocated");
        t->start_is_known = true;
    }
    return (struct thread_bytes){now.allocated - t->at_start.allocated, now.deallocated - t->at_start.deallocated};
}

struct thread_bytes *track_publish_bytes(struct thread *t)
{
    if (!t->publishes) {
        t->published = track_thread_bytes(t);
        t->publishes = true;
        span_review(t);
    }
    return &t->published;
}

/* ---- Change of owner ---- */

uint32_t track_owner(const void *p)
{
    return find_tag((void *)(uintptr_t)p).tag;
}

bool track_is_handed_over(const void *p)
{
    return find_tag((void *)(uintptr_t)p).handed_over;
}

/* Without a block: it stays its owner's. */
static COLD void count_resize_orphan(uint32_t owner, size_t old_usable, size_t new_usable, size_t requested)
{
    lock(LOCK_ORPHAN);
    add_frees(counters_orphan(owner), 1, old_usable);
    limits_uncharge_orphan(owner, old_usable);
    limits_charge_anyway(limits_of(owner), 0, new_usable); /* nothing grows here that has a limit */
    counters_add_alloc(counters_orphan(owner), new_usable, requested);
    unlock(LOCK_ORPHAN);
}

/* Returns the new owner. What was charged is charged all the time. */
static uint32_t count_resize(struct thread *t, uint32_t owner, size_t old_usable, size_t new_usable, size_t requested)
{
    struct counters *from = counters_get(t, owner);
    if (!from) {
        count_resize_orphan(owner, old_usable, new_usable, requested);
        return owner;
    }
    /* Room is made for it where it goes to; what was held for that stays in the thread's stock. */
    uint32_t to = limits_of(t->tag);
    if (unlikely(to && to != limits_of(owner)) && limits_hold(t, t->tag, new_usable, true) == LIMITS_HELD)
        limits_drop(t);
    uint32_t section = limits_begin(t);
    if (t->n_held && t->held[t->n_held - 1].context == owner && new_usable > old_usable)
        limits_use(t, new_usable - old_usable);
    else if (new_usable < old_usable)
        limits_give(t, limits_of(owner), old_usable - new_usable);
    else if (new_usable > old_usable) /* it grew as there came a limit */
        limits_charge_anyway(limits_of(owner), 0, new_usable - old_usable);
    bool moves = limits_transfer(t, owner, t->tag, new_usable);
    counters_add_alloc(moves ? t->current : from, new_usable, requested);
    add_frees(from, 1, old_usable);
    limits_end(t, section);
    return moves ? t->tag : owner;
}

void track_resized(struct thread *t, void *p, size_t old_usable, size_t new_usable, size_t requested)
{
    struct owner owner = take_header(p);
    if (unlikely(t && t->publishes)) {
        t->published.allocated += new_usable;
        t->published.deallocated += old_usable;
    }
    uint16_t arena = unlikely(owner.in_arena) ? arenas_find(p) : 0;
    /* The page has its table or entry already. */
    set_header(t, p, new_usable, owner.tag);
    count_in_arena(t, arena, p, new_usable);
    if (arena) /* not before, so that who looks for survivors knows that there is something */
        arenas_count_frees(t, arena, 1, old_usable);
    uint32_t tag = owner.tag;
    if (likely(t))
        tag = count_resize(t, owner.tag, old_usable, new_usable, requested);
    else
        count_resize_orphan(owner.tag, old_usable, new_usable, requested);
    const struct place place = find_tag(p);
    if (tag != owner.tag)
        set_tag(&place, place.handed_over ? tag | TAG_HANDED_OVER : tag);
}

static void count_in(struct counters_more *c, uint64_t objects, uint64_t usable)
{
    own_add(&c->moved_in_objects, objects);
    own_add(&c->moved_in_bytes, usable);
}

/* Whether what is given to that context does not go with the region. Of several regions in the same context, the one that the thread
 * is in is meant. */
static bool leaves_region(const struct thread *t, uint16_t arena, uint32_t context)
{
    return !arenas_is_home(arena, context) ||
           (t->region && t->region != arena && arenas_is_home(t->region, context));
}

/* What comes in is counted first, which keeps the context from being recycled from there on (tree.h). */
int track_retag(struct thread *t, void *p, uint32_t context)
{
    struct place place = find_tag(p);
    size_t usable = track_usable(p);
    if (!place.tag || is_waiting(t, p))
        return -EINVAL;
    uint16_t arena = arenas_find(p);
    bool hands_over = unlikely(arena) && arenas[arena].region && leaves_region(t, arena, context);
    if (place.tag == context || (age_is_on && age_is_same_owner(place.tag, context))) {
        if (hands_over)
            hand_over(&place, arena, place.tag);
        return 0;
    }
    struct counters *to = counters_get(t, context), *from = counters_get(t, place.tag);
    if (!to || !from)
        return -ENOMEM;
    uint32_t section;
    if (unlikely(!limits_begin_transfer(t, place.tag, context, usable, &section)))
        return -ENOMEM;
    count_in(counters_use_more(to), 1, usable);
    compiler_barrier();
    if (!tree_is_live(context)) {
        count_in(counters_more(to), (uint64_t)-1, -(uint64_t)usable);
        limits_transfer(t, context, place.tag, usable);
        limits_end(t, section);
        return -EINVAL;
    }
    if (hands_over)
        hand_over(&place, arena, context);
    else
        set_tag(&place, context);
    if (arena)
        store_release(&arenas[arena].aside_objects, UINT64_MAX);
    own_add_release(&counters_use_more(from)->moved_out_objects, 1);
    own_add_release(&counters_more(from)->moved_out_bytes, usable);
    limits_end(t, section);
    return 0;
}

/* ---- Fork ---- */

/* What such a thread had buffered stays for the block's next owner. Where it was in the middle of processing, the entry
 * at free_buffer_done may be half through: it is left alone, which leaks an object, and another if a magazine was being
 * halved. */
COLD void track_abandon(struct thread *t)
{
    uint32_t sequence = load_relaxed(&t->free_buffer_sequence);
    if (sequence & 1) {
        uint32_t done = load_relaxed(&t->free_buffer_done) + 1;
        bool all = done >= load_relaxed(&t->free_buffer_count);
        limits_unclaim(t, done - 1);
        store_relaxed(&t->free_buffer_done, all ? 0 : done);
        if (all)
            store_relaxed(&t->free_buffer_count, 0);
        if (load_relaxed(&t->claimed_sequence) == sequence - 1)
            store_relaxed(&t->claimed_sequence, sequence + 1);
        store_relaxed(&t->free_buffer_sequence, sequence + 1);
    }
    magazine_after_fork(t);
    arenas_abandon(t);
    span_abandon_all(t);
}
