/* SPDX-License-Identifier: BSD-2-Clause */
/* Accounting: what happens when memory is allocated, freed, resized, or gets another owner.
 *
 * An allocation is counted after the memory was obtained. A free is counted before the memory is given back, since the
 * address may be reused at once. Small frees wait in the thread's free buffer until FREE_BUFFER_MAX of them are there;
 * their headers are prefetched as they come in. A flush then reads the headers, counts the frees, and puts the objects
 * into the thread's magazines.
 *
 * The fast paths are here. The slow sides are in track_alloc.c, track_free.c, track_flush.c and track_credit.c, which also has the
 * figures of a thread. track_header.c finds and sets the header of an object. boot.c defines track_thread_slow().
 */
#ifndef JESPAN_TRACK_H
#define JESPAN_TRACK_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/counters.h"
#include "heap/magazine.h"
#include "heap/pagemap.h"
#include "heap/thread.h"

/* Returns the calling thread's block, with an allocation policy or without. A thread's first call starts jespan, if no
 * other thread did, and registers the thread. NULL: the thread has no block, because it is being registered, has ended,
 * or there is no memory. Leaves errno alone. */
struct thread *track_thread_slow(void);

/* Whether the calling thread, whose block is t, may call jemalloc for anything but a free. A thread that has no block
 * because there was no memory must not: reserve.h. */
bool track_may_allocate(const struct thread *t);

HOT_INLINE struct thread *track_thread(void)
{
    struct thread *t = load_relaxed(&thread_fast.alloc);
    return likely(t) ? t : track_thread_slow();
}

/* Takes an object of the class, big or not, from the thread's magazine and counts it. NULL: the magazine is empty. */
HOT_INLINE void *track_reuse_of(struct thread *t, size_t class, bool is_big, size_t requested)
{
    _Atomic(struct free_object *) *top = &t->magazine_top[class];
    struct free_object *object = magazine_take(t, class);
    if (unlikely(!object))
        return NULL;
    header_set_fast(object->slot, is_big, t->tag);
    counters_add_alloc(t->current, magazine_bytes_beside(top), requested);
    if (!object->p) /* tells the compiler that it is not NULL, so that callers test once */
        __builtin_unreachable();
    return object->p;
}

HOT_INLINE void *track_reuse(struct thread *t, size_t class, size_t requested)
{
    return track_reuse_of(t, class, false, requested);
}

/* Counts a new small object in a page that has a header table of its class already. Its magazine was empty. False: call
 * track_alloc_slow(). */
HOT_INLINE bool track_alloc_fast(struct thread *t, void *p, struct class_info info, size_t requested)
{
    magazine_was_empty(t, CODE_CLASS(info.code));
    page_entry_t *page = pagemap_page_of((uintptr_t)p);
    if (unlikely(!page))
        return false;
    uint64_t entry = load_acquire(page);
    if (unlikely(page_entry_code(entry) != info.code))
        return false;
    header_set_fast(page_entry_slot(entry, (uintptr_t)p), false, t->tag);
    counters_add_alloc(t->current, info.bytes, requested);
    return true;
}

/* Counts a new big object as the calls above do, where no other work is due. False: call track_alloc_slow(). */
bool track_alloc_big(struct thread *t, void *p, size_t requested);

/* A thread that finds a magazine empty looks into the free buffer before it asks jemalloc, if this many objects wait there. */
#define FREE_BUFFER_LOOK 8u
HOT_INLINE bool track_may_wait(const struct thread *t)
{
    return load_relaxed(&t->free_buffer_count) >= FREE_BUFFER_LOOK;
}

/* Flushes the free buffer, unless that is under way; the magazine of the class is empty. Leaves errno alone. Returns whether it did. Then
 * a thread without a policy may have one, and has settled what it counted so far (policy/limits.h): no allocation without a policy may be
 * counted before it looks again. */
bool track_flush_waiting(struct thread *t, size_t class);

/* Whether the magazine of the class, which was empty, may have objects now: from the free buffer or from the depot. Then the allocation
 * is to begin again. */
HOT_INLINE bool track_may_begin_again(struct thread *t, size_t class)
{
    return (unlikely(track_may_wait(t)) && track_flush_waiting(t, class)) || magazine_refill(t, class);
}

/* Takes an object of a middle class after the thread found its magazine empty. NULL: there is none. */
void *track_reuse_waiting(struct thread *t, size_t class, size_t requested);

/* Counts any new object. Returns p, or frees it and returns NULL with ENOMEM if there is no memory for its header. p
 * may be NULL, for a failed allocation, and so may t. */
void *track_alloc_slow(struct thread *t, void *p, size_t requested);

/* The same with the usable size known. */
void *track_alloc_usable(struct thread *t, void *p, size_t requested, size_t usable);

/* Counts a new guarded object. Returns NULL with ENOMEM, with the object freed, if a limit that has just been set refuses
 * it. */
void *track_alloc_guarded(struct thread *t, void *p, size_t requested, size_t usable);

/* Frees a new object that a limit refused, before it has a header and is counted. Returns NULL with ENOMEM. */
void *track_refuse(struct thread *t, void *p, size_t usable);

/* Keeps the compiler from computing the value again at each use. */
HOT_INLINE size_t one_value(size_t value)
{
    __asm__("" : "+r"(value));
    return value;
}

/* Puts the object into the free buffer, which has n objects and is not full. */
HOT_INLINE void track_free_later(struct thread *t, size_t n, void *p, header_t *slot, size_t class)
{
    _Atomic(void *) *place = &t->free_buffer_object[n];
    prefetch_write((const void *)slot);
    store_relaxed(place, p);
    store_relaxed(free_buffer_slot_beside(place), slot);
    store_relaxed(&t->free_buffer_class[n], (uint8_t)class);
    store_release(&t->free_buffer_count, (uint32_t)(n + 1));
}

/* ---- Freeing a small object ----
 *
 * An object that this context took from the magazine last goes back to it at once; its header is in the processor's
 * cache. Any other object goes into the free buffer.
 *
 * An object that is freed twice must not be both in the buffer and in the magazine: it would be reused, and then freed
 * under its new owner. The newest object in each is compared, which finds the usual mistakes. For the magazine it is
 * last[-1], since `last` is the entry above the newest object. */

/* A small object that is about to be freed. */
struct small_object {
    header_t *slot;
    size_t class;
    struct free_object *last; /* of its class: magazine_last() */
    size_t n;                 /* objects in the free buffer */
};

/* Finds what track_free_fast() needs, given the page's entry. False: p is not a small object, its page belongs to a span arena, or its
 * place is not known. */
HOT_INLINE bool track_find_small_at(struct thread *t, const void *p, uint64_t entry, struct small_object *o)
{
    size_t start = one_value(page_entry_start(entry));
    if (unlikely(!page_entry_is_small(entry) || !class_starts_at(start, page_offset((uintptr_t)p))))
        return false;
    o->slot = page_entry_slot(entry, (uintptr_t)p);
    o->class = one_value(start & PAGE_ENTRY_CLASS_MASK);
    o->last = magazine_last(t, o->class);
    o->n = one_value(load_relaxed(&t->free_buffer_count));
    return true;
}

HOT_INLINE bool track_find_small(struct thread *t, const void *p, struct small_object *o)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    return likely(page) && likely(track_find_small_at(t, p, load_relaxed(page), o));
}

/* Whether an object of a middle class may wait in the free buffer, and the buffer may be flushed. */
static inline bool track_has_middle(const struct thread *t)
{
    uint32_t sequence = load_relaxed(&t->free_buffer_sequence);
    return !(sequence & 1) && t->middle_sequence == sequence + 1;
}

/* The same for an object of a middle class. */
HOT_INLINE bool track_find_middle(struct thread *t, const void *p, struct small_object *o)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    uint64_t entry = page ? load_relaxed(page) : 0;
    size_t class = page_entry_is_big(entry) ? class_of_big(page_entry_big_bytes(entry)) : 0;
    if (!class || !page_entry_big_starts_at(entry, (uintptr_t)p))
        return false;
    *o = (struct small_object){page_entry_big_slot(page), class, magazine_last(t, class), load_relaxed(&t->free_buffer_count)};
    return true;
}

/* Whether the object is the last one that the thread took from this magazine, and its owner is the thread's context.
 * Then track_put_back() may follow. */
HOT_INLINE bool track_was_taken_last(const struct thread *t, const void *p, const struct small_object *o)
{
    return o->last->p == p && likely(header_is(o->slot, t->tag)) && likely(free_buffer_newest(t, o->n) != p);
}

/* Counts that the thread's context freed the object. */
HOT_INLINE void track_count_freed(struct thread *t, const struct small_object *o)
{
    store_relaxed(o->slot, 0);
    counters_add_free(t->current, class_bytes[o->class]);
}

/* Puts the object back into the magazine. The page may have got another header table since the object was taken. */
HOT_INLINE void track_put_back(struct thread *t, const struct small_object *o)
{
    o->last->slot = o->slot;
    magazine_put_last(t, o->class, o->last);
}

/* False: the buffer is full, or the object is in the magazine already. */
HOT_INLINE bool track_put_in_buffer(struct thread *t, void *p, const struct small_object *o)
{
    if (unlikely(o->n == FREE_BUFFER_MAX || o->last[-1].p == p))
        return false;
    track_free_later(t, o->n, p, o->slot, o->class);
    return true;
}

/* Frees the object that this thread took from a magazine last. The entry that the object came from has the address of its
 * header, so the page map is not read. The next malloc gains too: it needs the new top of the magazine, which would
 * otherwise depend on what the page map says. False: nothing has changed. */
HOT_INLINE bool track_free_taken(struct thread *t, void *p, _Atomic(struct free_object *) *taken_from,
                                 struct free_object *taken)
{
    if (unlikely(!p || !magazine_knows_headers(t) || !header_is(taken->slot, t->tag) ||
                 free_buffer_newest(t, load_relaxed(&t->free_buffer_count)) == p))
        return false;
    store_relaxed(taken->slot, 0);
    counters_add_free(t->current, magazine_bytes_beside(taken_from));
    store_release(taken_from, taken);
    return true;
}

/* Frees a small object that any thread allocated, by the page map. False: call track_free_slow(). */
HOT_INLINE bool track_free_found(struct thread *t, void *p)
{
    struct small_object o;
    if (unlikely(!track_find_small(t, p, &o)))
        return false;
    if (!track_was_taken_last(t, p, &o))
        return track_put_in_buffer(t, p, &o);
    track_count_freed(t, &o);
    track_put_back(t, &o);
    return true;
}

/* The same. The object that was taken last is known without the page map. */
HOT_INLINE bool track_free_fast(struct thread *t, void *p)
{
    _Atomic(struct free_object *) *taken_from = load_relaxed(&t->taken_from);
    struct free_object *taken = magazine_taken(taken_from);
    if (taken->p == p && likely(track_free_taken(t, p, taken_from, taken)))
        return true;
    return track_free_found(t, p);
}

/* Frees anything, NULL included; t may be NULL. Ends the program on a pointer that is not allocated. */
void track_free_slow(void *p, struct thread *t);

/* Frees at once, without the free buffer. `flags` are those of jemalloc's dallocx(). */
void track_free_now(struct thread *t, void *p, int flags);

/* Counts all frees in this thread's buffer. track_flush() is for programs that never had a limit. */
void track_flush(struct thread *t);
void track_flush_any(struct thread *t);

/* What flushes do first, or no longer do: look for peaks (peak_looks.h), tell a tracer of samples (probes.h), or count temporary
 * allocations (temporary.h). */
enum flush_first { FLUSH_LOOKS = 1, FLUSH_PROBES = 2, FLUSH_TEMPORARY = 4 };
void track_let_flush(enum flush_first what, bool does);

/* To be called when the first limit is made. From then on, a flush also uncharges frees. */
void track_begin_limits(void);

/* Ends the program if an object in a thread's buffer was freed by another thread too, and counted: its header is 0.
 * Called at the end of the process, when no buffer is flushed any more. */
void track_check_waiting(void);

/* Flushes the free buffer, and gives all objects in the thread's magazines and caches to jemalloc. */
void thread_cache_flush(struct thread *t);

/* The context that owns an object; 0: it is no live object of ours. The owner may change meanwhile. */
uint32_t track_context(const void *p);

/* Whether the object is in a region and was credited to a context outside. */
bool track_is_survivor(const void *p);

/* Counts frees for a context, and uncharges them. */
void track_count_frees(struct thread *t, uint32_t context, uint64_t objects, uint64_t bytes);

/* The usable size of an object; 0 for NULL and for addresses that are not ours. */
size_t track_usable(const void *p);

/* Ends the program if the object is in this thread's free buffer. t may be NULL. */
void track_check_not_freed(const struct thread *t, const void *p);

/* Ends the program if p is not a live object. The object must not wait in a free buffer. */
void track_check_live(void *p);

/* Counts that jemalloc resized an object in place. If the owner has a limit, bytes are held for growth. The object
 * becomes the current context's, as if it had been freed and allocated, if that context's limits admit it. t may be
 * NULL. */
void track_resized(struct thread *t, void *p, size_t old_usable, size_t new_usable, size_t requested);

/* Makes `context` the owner of a live object. Under LOCK_TREE if !tree_lockless. Returns 0, -EINVAL (no live object, or
 * the context was recycled) or -ENOMEM (no memory, or a limit does not admit it). */
int track_credit(struct thread *t, void *p, uint32_t context);

/* ---- What the calling thread has allocated and freed ---- */

/* To be called for a block that a thread has just got: the figures of this thread start at 0. */
void track_begin_bytes(struct thread *t);

/* The bytes since the thread began. If the counters at its start are not known, jemalloc's figures stand in for the
 * time before the first call. */
struct thread_bytes track_thread_bytes(struct thread *t);

/* Returns the address of the same figures, which are kept up to date from now on. So the thread allocates and frees on
 * the slow side only. Valid until the thread ends. */
struct thread_bytes *track_publish_bytes(struct thread *t);

/* What they do on threads with `notes`. */
void track_note_alloc(struct thread *t, const void *p);
void track_note_free(struct thread *t, const void *p);

/* To be called before the objects in use of the context change, where neither of these two is called. t may be NULL. */
void track_note_lifetime(struct thread *t, uint32_t context);

/* For the slow sides: the thread got an object, or is about to free one. p may be NULL. */
static inline void track_publish_alloc(struct thread *t, const void *p)
{
    if (unlikely(t && t->notes))
        track_note_alloc(t, p);
}

static inline void track_publish_free(struct thread *t, const void *p)
{
    if (unlikely(t && t->notes))
        track_note_free(t, p);
}

/* To be called in a forked child, for a block whose thread does not exist there. */
void track_abandon(struct thread *t);

#endif
