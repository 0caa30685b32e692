/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots of guarded objects. */
#include "guard/guard.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/die.h"
#include "base/figures.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/number.h"
#include "conf/conf.h"
#include "guard/guard_report.h"
#include "guard/guard_sample.h"
#include "heap/pagemap.h"
#include "span/context_path.h"
#include "span/tree.h"
#include "stacks/unwind.h"
#include "stacks/unwind_rules.h"

#define PATTERN 0xa7
#define ALIGNMENT_MIN ((size_t)BIG_START_UNIT)

struct guard_region guard_region;
static uint32_t *queue, queue_first, queue_used; /* numbers of slots without an object, the oldest first. LOCK_GUARD */
static _Atomic uint64_t objects, bytes_in_use, missed;
FIGURE_ROW(figure_objects, "spans.stats.guard_objects", objects, FIGURE_NUMBER);
FIGURE_ROW(figure_bytes, "spans.stats.guard_bytes", bytes_in_use, FIGURE_NUMBER);
FIGURE_ROW(figure_missed, "spans.stats.guard_missed", missed, FIGURE_NUMBER);

static void count(_Atomic uint64_t *figure, uint64_t n)
{
    atomic_fetch_add_explicit(figure, n, memory_order_relaxed);
}

/* ---- Inaccessible pages ---- */

/* Linux 6.13 and newer have guard markers for that. Elsewhere, and in locked memory, mprotect(2) does it, which takes twice
 * the time and splits the mapping. */

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

static bool has_markers; /* constant after boot */

static void *map(size_t bytes, int access)
{
    void *p = mmap(NULL, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* A huge page would hold many slots. */
static void *reserve_with_markers(size_t bytes)
{
    void *p = map(bytes, PROT_READ | PROT_WRITE);
    if (!p)
        return NULL;
    madvise(p, bytes, MADV_NOHUGEPAGE);
    if (!madvise(p, bytes, MADV_GUARD_INSTALL))
        return p;
    munmap(p, bytes);
    return NULL;
}

/* Maps inaccessible pages, which take only address space. Returns NULL if the system refuses. */
static void *pages_reserve(size_t bytes)
{
    void *p = reserve_with_markers(bytes);
    has_markers = p != NULL;
    return p ? p : map(bytes, PROT_NONE);
}

/* Makes whole pages accessible. They are zeroed, except pages that could not be made inaccessible before. */
static bool pages_open(void *p, size_t bytes)
{
    return !(has_markers ? madvise(p, bytes, MADV_GUARD_REMOVE) : mprotect(p, bytes, PROT_READ | PROT_WRITE));
}

static void pages_close(void *p, size_t bytes)
{
    if (has_markers && !madvise(p, bytes, MADV_GUARD_INSTALL))
        return;
    if (!has_markers)
        mprotect(p, bytes, PROT_NONE);
    madvise(p, bytes, MADV_DONTNEED);
}

/* ---- The region ---- */

static bool prepare_walks(void)
{
    lock(LOCK_TREE);
    bool done = !rules_boot();
    unwind_boot();
    unlock(LOCK_TREE);
    return done;
}

/* All slots go into the queue. */
static bool make_slots(uint32_t n)
{
    guard_region.slots = meta_map(n * sizeof *guard_region.slots);
    queue = meta_map(n * sizeof *queue);
    for (uint32_t i = 0; queue && i < n; i++)
        queue[i] = i;
    queue_used = n;
    return guard_region.slots && queue;
}

COLD void guard_boot(void)
{
    uint32_t n = (uint32_t)conf.guard_slots;
    size_t bytes = n * GUARD_STRIDE_BYTES + GUARD_PAGE_BYTES;
    if (!conf.guard_sample)
        return;
    void *start = prepare_walks() && make_slots(n) ? pages_reserve(bytes) : NULL;
    if (!start) {
        count(&missed, 1);
        return;
    }
    guard_region.n = n;
    guard_region.start = (uintptr_t)start;
    guard_region.bytes = bytes;
}

static uintptr_t slot_begin(const struct guard_slot *slot)
{
    return guard_region.start + GUARD_PAGE_BYTES + (size_t)(slot - guard_region.slots) * GUARD_STRIDE_BYTES;
}

/* The slot of an address in the region. The guard page before a slot belongs to the slot. */
static struct guard_slot *slot_of(uintptr_t address)
{
    size_t i = (address - guard_region.start) / GUARD_STRIDE_BYTES;
    return &guard_region.slots[i < guard_region.n ? i : guard_region.n - 1];
}

/* The pages that the object touches. */
struct pages {
    char *begin, *object, *object_end, *end;
};

static struct pages pages_of(const struct guard_slot *slot)
{
    uintptr_t begin = slot->start & ~(GUARD_PAGE_BYTES - 1), object_end = slot->start + slot->bytes;
    uintptr_t end = round_up(object_end, GUARD_PAGE_BYTES);
    return (struct pages){(char *)begin, (char *)slot->start, (char *)object_end, (char *)end};
}

/* ---- The queue ---- */

static struct guard_slot *take_slot(void)
{
    struct guard_slot *slot = NULL;
    lock(LOCK_GUARD);
    if (queue_used) {
        slot = &guard_region.slots[queue[queue_first]];
        queue_first = (queue_first + 1) % guard_region.n;
        queue_used--;
    }
    unlock(LOCK_GUARD);
    return slot;
}

static void give_slot_back(const struct guard_slot *slot)
{
    lock(LOCK_GUARD);
    queue[(queue_first + queue_used++) % guard_region.n] = (uint32_t)(slot - guard_region.slots);
    unlock(LOCK_GUARD);
}

/* ---- Stacks of calls ---- */

/* The walk leaves out the frames of jespan itself. A signal handler may have interrupted another walk of the thread. */
NOINLINE void guard_note_place(struct guard_place *place, struct thread *t)
{
    struct guard_thread *g = t ? t->guard : NULL;
    *place = (struct guard_place){.thread = t ? t->thread_id : gettid()};
    if (!g || g->walks)
        return;
    g->walks = true;
    compiler_barrier();
    memcpy(place->name, t->name, sizeof place->name);
    unwind_from(&g->walk, __builtin_frame_address(0), GUARD_FRAMES);
    if (!unwind_check(&g->walk, 0))
        unwind_from(&g->walk, __builtin_frame_address(0), GUARD_FRAMES);
    place->n = g->walk.n;
    memcpy(place->frames, g->walk.frames, place->n * sizeof *place->frames);
    compiler_barrier();
    g->walks = false;
}

/* ---- Allocating ---- */

/* The page map tells sizes from 2 KiB on in units of 16 bytes. */
static size_t usable_of(size_t bytes)
{
    if (bytes <= BIG_BYTES_MASK)
        return bytes ? bytes : 1;
    return round_up(bytes, ALIGNMENT_MIN);
}

static bool claim(struct guard_slot *slot)
{
    if (!slot->is_claimed)
        slot->is_claimed = !pagemap_claim(slot_begin(slot), GUARD_SLOT_BYTES, 0);
    return slot->is_claimed;
}

static bool open_slot(struct guard_slot *slot)
{
    const struct pages pages = pages_of(slot);
    if (!claim(slot) || !pages_open(pages.begin, (size_t)(pages.end - pages.begin)))
        return false;
    memset(pages.begin, PATTERN, (size_t)(pages.object - pages.begin));
    memset(pages.object_end, PATTERN, (size_t)(pages.end - pages.object_end));
    return true;
}

static void *fill_slot(struct guard_slot *slot, struct thread *t, size_t bytes, size_t alignment, bool left)
{
    uintptr_t begin = slot_begin(slot), end = begin + GUARD_SLOT_BYTES;
    store_release(&slot->state, GUARD_UNUSED);
    slot->bytes = usable_of(bytes);
    slot->start = left ? begin : (end - slot->bytes) & ~(alignment - 1);
    if (!open_slot(slot))
        return NULL;
    guard_note_place(&slot->allocated, t);
    store_release(&slot->state, GUARD_LIVE);
    count(&objects, 1);
    count(&bytes_in_use, slot->bytes);
    return (void *)slot->start;
}

COLD void *guard_alloc(struct thread *t, size_t bytes, size_t alignment, bool left, size_t *usable)
{
    if (bytes > GUARD_SLOT_BYTES || alignment > GUARD_PAGE_BYTES)
        return NULL;
    int saved = errno;
    struct guard_slot *slot = take_slot();
    guard_fault_watch();
    void *p = slot ? fill_slot(slot, t, bytes, alignment > ALIGNMENT_MIN ? alignment : ALIGNMENT_MIN, left) : NULL;
    if (p)
        *usable = slot->bytes;
    else
        count(&missed, 1);
    if (slot && !p)
        give_slot_back(slot);
    errno = saved;
    return p;
}

/* ---- Freeing ---- */

COLD void guard_note_owner(const void *p, uint32_t context)
{
    struct guard_slot *slot = slot_of((uintptr_t)p);
    char path[GUARD_OWNER_BYTES];
    strcpy(slot->owner, context_path(tree_whole(context), path, sizeof path));
}

static const char *find_damage(const char *from, const char *to)
{
    while (from < to && *(const unsigned char *)from == PATTERN)
        from++;
    return from < to ? from : NULL;
}

static void check_pattern(const struct guard_slot *slot, const struct pages *pages)
{
    const char *after = find_damage(pages->object_end, pages->end), *before = find_damage(pages->begin, pages->object);
    if (after || before)
        guard_die_of_damage(slot, after ? after : before);
}

/* After the state has changed, a report knows that the object was freed. */
COLD void guard_free(struct thread *t, void *p)
{
    struct guard_slot *slot = slot_of((uintptr_t)p);
    const struct pages pages = pages_of(slot);
    uint32_t live = GUARD_LIVE;
    int saved = errno;
    if (!atomic_compare_exchange_strong(&slot->state, &live, GUARD_ENDING))
        guard_die_of_free(p);
    check_pattern(slot, &pages);
    guard_note_place(&slot->freed, t);
    store_release(&slot->state, GUARD_FREED);
    atomic_fetch_sub_explicit(&bytes_in_use, slot->bytes, memory_order_relaxed);
    pages_close(pages.begin, (size_t)(pages.end - pages.begin));
    give_slot_back(slot);
    errno = saved;
}

/* ---- For reports ---- */

static uintptr_t distance(const struct guard_slot *slot, uintptr_t address)
{
    uint32_t state = load_acquire(&slot->state);
    if (state == GUARD_UNUSED)
        return UINTPTR_MAX;
    if (address < slot->start)
        return slot->start - address;
    return address < slot->start + slot->bytes ? 0 : address - (slot->start + slot->bytes) + 1;
}

const struct guard_slot *guard_nearest(uintptr_t address)
{
    const struct guard_slot *slot = slot_of(address), *before = slot > guard_region.slots ? slot - 1 : slot;
    const struct guard_slot *nearest = distance(slot, address) <= distance(before, address) ? slot : before;
    return distance(nearest, address) == UINTPTR_MAX ? NULL : nearest;
}

uint64_t guard_objects(void)
{
    return load_relaxed(&objects);
}

uint64_t guard_bytes(void)
{
    return load_relaxed(&bytes_in_use);
}

uint64_t guard_missed(void)
{
    return load_relaxed(&missed);
}
