/* SPDX-License-Identifier: BSD-2-Clause */
/* The header of an object: its place, its tag, and the size that goes with it. */
#include <errno.h>

#include "base/die.h"
#include "base/mailbox.h"
#include "guard/guard_report.h"
#include "jemalloc-hooks/extents.h"
#include "jemalloc/binding.h"
#include "malloc/boot.h"
#include "malloc/early.h"
#include "malloc/peak_looks.h"
#include "malloc/track_slow.h"
#include "policy/arenas.h"
#include "span/tree.h"

COLD _Noreturn void track_die_not_allocated(const void *p)
{
    if (guard_has(p))
        guard_die_of_free(p);
    die_pointer("free of a pointer that is not allocated (freed before, or never):", p);
}

static bool starts_at(const void *p, uint64_t entry)
{
    return page_entry_is_small_any(entry) ? track_is_start(p, entry) : page_entry_big_starts_at(entry, (uintptr_t)p);
}

/* ---- Finding ---- */

struct object_place track_find_header(void *p)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    struct object_place place = {.page = page, .tag = page_entry_big_tag(entry)};
    if (page_entry_is_small_any(entry)) {
        place.slot = page_entry_slot_any(entry, (uintptr_t)p);
        place.tag = header_get(place.slot, false);
    }
    if (place.tag && !starts_at(p, entry))
        place.tag = 0;
    place.is_survivor = entry & PAGE_ENTRY_ARENA && place.tag & TAG_SURVIVOR;
    place.tag &= entry & PAGE_ENTRY_ARENA ? ~TAG_SURVIVOR : ~0u;
    return place;
}

void track_check_live(void *p)
{
    if (unlikely(!track_find_header(p).tag))
        track_die_not_allocated(p);
}

uint32_t track_context(const void *p)
{
    return track_find_header((void *)(uintptr_t)p).tag;
}

bool track_is_survivor(const void *p)
{
    return track_find_header((void *)(uintptr_t)p).is_survivor;
}

size_t track_usable(const void *p)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    if (page_entry_is_small_any(entry))
        return class_bytes[page_entry_class(entry)];
    if (!page_entry_is_big_any(entry))
        return unlikely(early_has(p)) ? early_usable(p) : 0;
    return page_entry_big_bytes(entry) ? page_entry_big_bytes(entry) : jespan_je_sallocx(p, 0);
}

/* ---- Setting ---- */

static uint32_t tag_of(const struct thread *t, uint32_t owner)
{
    return owner ? owner : t ? t->tag : CONTEXT_ID_ROOT;
}

static void slow_event(struct thread *t)
{
    boot_slow_event(t);
    mailbox_start_if_due();
}

int track_set_header(struct thread *t, void *p, size_t usable, uint32_t owner)
{
    if (usable > HEADER_PAGE_BYTES) {
        if (usable >= extents_oversize_bytes)
            extents_watch_pointer(p);
        if (unlikely(load_relaxed(&slow_work) & (SLOW_MAIL | SLOW_START)))
            mailbox_look_or_start();
        peak_looks_moved(t, usable);
        return pagemap_set_big((uintptr_t)p, usable, tag_of(t, owner));
    }
    uint16_t code = class_of(usable).code;
    if (unlikely(class_is_hidden(code))) {
        mailbox_look_for_hidden(t);
        code = class_code_of_usable(usable);
    }
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_acquire(page) : 0;
    if (page_entry_plain_code(entry) != code) {
        if (t && t->n_held)
            t->event_due = true; /* the event may change the context that bytes are held for, so it comes later */
        else if (t)
            slow_event(t);
        if (!extents_oversize_bytes)
            extents_watch_pointer(p);
        peak_looks_moved(t, HEADER_PAGE_BYTES);
        entry = pagemap_install(t ? &t->tables : NULL, (uintptr_t)p, code);
    }
    if (unlikely(!entry))
        return -ENOMEM;
    header_set(page_entry_slot_any(entry, (uintptr_t)p), false, tag_of(t, owner)); /* not earlier: the tag may have changed */
    return entry & PAGE_ENTRY_ARENA ? HEADERS_IN_ARENA : 0;
}

void track_set_tag(const struct object_place *place, uint32_t tag)
{
    if (place->slot)
        header_set(place->slot, false, tag);
    else
        store_relaxed(place->page, (uint64_t)header_pack(tag) << BIG_TAG_SHIFT | (uint32_t)load_relaxed(place->page));
}

/* After the mark: a thread that finds `has_survivors` finds the mark too. */
static void note_survivor(uint16_t arena)
{
    store_release(&arenas[arena].aside_objects, UINT64_MAX);
    store_release(&arenas[arena].has_survivors, true);
}

void track_hand_over(const struct object_place *place, uint16_t arena, uint32_t tag)
{
    track_set_tag(place, tag | TAG_SURVIVOR);
    note_survivor(arena);
}

static bool change_big_tag(page_entry_t *page, uint32_t from, uint32_t to)
{
    uint64_t entry = load_relaxed(page), with = (uint64_t)header_pack(to) << BIG_TAG_SHIFT | (uint32_t)entry;
    return page_entry_big_tag(entry) == from && atomic_compare_exchange_strong(page, &entry, with);
}

/* The tags differ in TAG_SURVIVOR only. */
static bool change_small_tag(header_t *slot, uint32_t from, uint32_t to)
{
    uint16_t header = header_of_tag(from);
    return atomic_compare_exchange_strong(slot, &header, header_of_tag(to));
}

/* A free that comes first makes the tag 0. */
bool track_keep(const struct object_place *place, uint16_t arena)
{
    uint32_t with = place->tag | TAG_SURVIVOR, tag = place->is_survivor ? with : place->tag;
    bool is_kept = place->slot ? change_small_tag(place->slot, tag, with) : change_big_tag(place->page, tag, with);
    if (is_kept)
        note_survivor(arena);
    return is_kept;
}

/* ---- Taking ---- */

struct object_owner track_take_header(void *p)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    struct object_owner owner = {.in_arena = entry & PAGE_ENTRY_ARENA};
    if (unlikely(entry && !starts_at(p, entry)))
        track_die_not_allocated(p);
    if (page_entry_is_small_any(entry)) {
        header_t *slot = page_entry_slot_any(entry, (uintptr_t)p);
        owner.tag = header_get(slot, false);
        owner.usable = class_bytes[page_entry_class(entry)];
        store_relaxed(slot, 0);
    } else {
        owner.tag = page_entry_big_tag(entry);
        if (owner.tag) {
            owner.usable = page_entry_big_bytes(entry) ? page_entry_big_bytes(entry) : jespan_je_sallocx(p, 0);
            store_relaxed(page, (uint64_t)(uint32_t)entry);
        }
    }
    if (unlikely(!owner.tag))
        track_die_not_allocated(p);
    owner.tag &= owner.in_arena ? ~TAG_SURVIVOR : ~0u;
    return owner;
}
