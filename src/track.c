/* SPDX-License-Identifier: BSD-2-Clause */
/* All accounting off the hot path: big objects, full buffers, threads without a block. */
#include "track.h"

#include <errno.h>

#include "../jemalloc-hooks/binding.h"
#include "../jemalloc-hooks/extents.h"
#include "age.h"
#include "boot.h"
#include "die.h"
#include "lock.h"
#include "span.h"
#include "tree.h"

/* ---- Allocation ---- */

static void count_alloc(struct thread *t, size_t usable, size_t requested)
{
    if (likely(t)) {
        counters_add_alloc(t->current, usable, requested);
        return;
    }
    lock(LOCK_ORPHAN);
    counters_add_alloc(counters_orphan(CONTEXT_ID_ROOT), usable, requested);
    unlock(LOCK_ORPHAN);
}

static uint32_t tag_of(const struct thread *t)
{
    return t ? t->tag : CONTEXT_ID_ROOT;
}

static int set_header(struct thread *t, void *p, size_t usable)
{
    if (usable >= HEADER_PAGE_BYTES) {
        if (usable >= extents_oversize_bytes)
            extents_watch_pointer(p);
        return headers_set_big((uintptr_t)p, usable, tag_of(t));
    }
    uint16_t code = class_of(usable).code;
    page_entry_t *page = headers_page((uintptr_t)p);
    uint64_t entry = page ? load_acquire(page) : 0;
    if (entry_code(entry) != code) {
        if (t)
            boot_slow_event(t);
        if (!extents_oversize_bytes)
            extents_watch_pointer(p);
        entry = headers_install((uintptr_t)p, code);
    }
    if (unlikely(!entry))
        return -ENOMEM;
    store_relaxed(entry_slot(entry, (uintptr_t)p), tag_of(t)); /* now: boot_slow_event() may have changed it */
    return 0;
}

void *track_alloc_usable(struct thread *t, void *p, size_t requested, size_t usable)
{
    if (unlikely(!p))
        return NULL;
    if (unlikely(boot_is_under_way()) && boot_early_add(p, requested))
        return p;
    if (unlikely(!t && !boot_is_done()) || set_header(t, p, usable)) {
        jespan_je_free(p);
        errno = ENOMEM;
        return NULL;
    }
    count_alloc(t, usable, requested);
    return p;
}

void *track_alloc_slow(struct thread *t, void *p, size_t requested)
{
    return p ? track_alloc_usable(t, p, requested, jespan_je_sallocx(p, 0)) : NULL;
}

/* ---- Free ---- */

static NOINLINE void count_free_slow(struct thread *t, uint32_t context, size_t usable)
{
    struct counters *c = t ? counters_get(t, context) : NULL;
    if (c) {
        counters_add_free(c, usable);
        return;
    }
    lock(LOCK_ORPHAN);
    counters_add_free(counters_orphan(context), usable);
    unlock(LOCK_ORPHAN);
}

static COLD _Noreturn void die_not_allocated(const void *p)
{
    die_pointer("free of a pointer that is not allocated (freed before, or never):", p);
}

struct owner {
    uint32_t tag;
    size_t usable;
};

/* Reads and clears the header of an object that is about to be freed. */
static struct owner take_header(void *p)
{
    page_entry_t *page = headers_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    struct owner owner = {0};
    if (entry_is_small(entry)) {
        header_t *slot = entry_slot(entry, (uintptr_t)p);
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
    return owner;
}

void track_free_now(struct thread *t, void *p, int flags)
{
    struct owner owner = take_header(p);
    count_free_slow(t, owner.tag, owner.usable);
    jespan_je_sdallocx(p, owner.usable, flags);
}

/* Each entry is finished before pending_done passes it, and the count is 0 before pending_done is again, so that a child
 * forked at any moment knows where to go on. The program's own extent hooks may free meanwhile: the count may rise. */
void track_flush(struct thread *t)
{
    uint32_t sequence = load_relaxed(&t->pending_sequence);
    store_relaxed(&t->pending_sequence, sequence + 1);
    atomic_thread_fence(memory_order_release); /* odd before any header or counter changes; see sums.c */
    for (uint32_t i = load_relaxed(&t->pending_done); i < load_relaxed(&t->pending_count); i++) {
        void *p = load_relaxed(&t->pending_object[i]);
        header_t *slot = load_relaxed(&t->pending_slot[i]);
        unsigned class = load_relaxed(&t->pending_class[i]);
        size_t usable = class_bytes[class];
        uint32_t tag = load_relaxed(slot);
        if (unlikely(!tag))
            die_not_allocated(p);
        store_relaxed(slot, 0);
        struct counters *c = counters_find(t, tag);
        if (likely(c))
            counters_add_free(c, usable);
        else
            count_free_slow(t, tag, usable);
        if (unlikely(!magazine_put(t, class, (struct free_object){p, slot})))
            magazine_put_in_full(t, class, (struct free_object){p, slot});
        store_release(&t->pending_done, i + 1);
    }
    store_relaxed(&t->pending_count, 0);
    store_release(&t->pending_done, 0);
    store_release(&t->pending_sequence, sequence + 2);
}

void track_give_back(struct thread *t)
{
    track_flush(t);
    magazine_empty(t);
}

void track_free_slow(struct thread *t, void *p)
{
    if (!p)
        return;
    int saved = errno;
    if (!t)
        t = track_thread_slow();
    /* An odd sequence: a signal handler came into track_flush(). */
    if (t && load_relaxed(&t->pending_count) == PENDING_MAX && !(load_relaxed(&t->pending_sequence) & 1)) {
        track_flush(t);
        boot_slow_event(t);
    }
    if (unlikely(boot_is_under_way()) && boot_early_remove(p))
        jespan_je_free(p);
    else if (!t || !track_free_fast(t, p))
        track_free_now(t, p, 0);
    errno = saved;
}

/* ---- Size ---- */

size_t track_usable(const void *p)
{
    page_entry_t *page = headers_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    if (entry_is_small(entry))
        return class_bytes[entry_class(entry)];
    if (!entry_is_big(entry))
        return 0;
    return entry_big_bytes(entry) ? entry_big_bytes(entry) : jespan_je_sallocx(p, 0);
}

void track_resized(struct thread *t, void *p, size_t old_usable, size_t new_usable, size_t requested)
{
    struct owner owner = take_header(p);
    count_free_slow(t, owner.tag, old_usable);
    /* The page has its table or entry already. */
    set_header(t, p, new_usable);
    count_alloc(t, new_usable, requested);
}

/* ---- Change of owner ---- */

/* Where the tag of an object is. */
struct place {
    header_t *slot;     /* of a small object */
    page_entry_t *page; /* of a big one */
    uint32_t tag;       /* 0: not a live object */
};

static struct place find_tag(void *p)
{
    page_entry_t *page = headers_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    struct place place = {.page = page, .tag = entry_big_tag(entry)};
    if (entry_is_small(entry)) {
        place.slot = entry_slot(entry, (uintptr_t)p);
        place.tag = load_relaxed(place.slot);
    }
    return place;
}

static void set_tag(const struct place *place, uint32_t tag)
{
    if (place->slot)
        store_relaxed(place->slot, tag);
    else
        store_relaxed(place->page, (uint64_t)tag << BIG_TAG_SHIFT | (uint32_t)load_relaxed(place->page));
}

static void count_in(struct counters_more *c, uint64_t objects, uint64_t usable)
{
    own_add(&c->moved_in_objects, objects);
    own_add(&c->moved_in_bytes, usable);
}

/* What comes in is counted first, which keeps the context from being recycled from there on (tree.h). */
int track_retag(struct thread *t, void *p, uint32_t context)
{
    struct place place = find_tag(p);
    size_t usable = track_usable(p);
    if (!place.tag)
        return -EINVAL;
    if (place.tag == context || (age_is_on && age_is_same_owner(place.tag, context)))
        return 0;
    struct counters *to = counters_get(t, context), *from = counters_get(t, place.tag);
    if (!to || !from)
        return -ENOMEM;
    count_in(counters_use_more(to), 1, usable);
    compiler_barrier();
    if (!tree_is_live(context)) {
        count_in(counters_more(to), (uint64_t)-1, -(uint64_t)usable);
        return -EINVAL;
    }
    set_tag(&place, context);
    own_add_release(&counters_use_more(from)->moved_out_objects, 1);
    own_add_release(&counters_more(from)->moved_out_bytes, usable);
    return 0;
}

/* ---- Fork ---- */

/* What such a thread had buffered stays for the block's next owner. Where it was in the middle of processing, the entry
 * at pending_done may be half through: it is left alone, which leaks an object, and another if a magazine was being
 * halved. */
COLD void track_abandon(struct thread *t)
{
    uint32_t sequence = load_relaxed(&t->pending_sequence);
    if (sequence & 1) {
        uint32_t done = load_relaxed(&t->pending_done) + 1;
        bool all = done >= load_relaxed(&t->pending_count);
        store_relaxed(&t->pending_done, all ? 0 : done);
        if (all)
            store_relaxed(&t->pending_count, 0);
        store_relaxed(&t->pending_sequence, sequence + 1);
    }
    magazine_after_fork(t);
    span_abandon_all(t);
}
