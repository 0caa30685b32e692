/* SPDX-License-Identifier: BSD-2-Clause */
/* All accounting, in one place: what happens when memory is allocated, freed, or changes size.
 *
 * Allocation: account after the memory was obtained. Free: un-account before it is handed back, since the address may
 * be reused at once. Small frees wait in a per-thread buffer until PENDING_MAX of them are there; then their headers,
 * prefetched as they came in, are read, counted and put into the thread's magazines or handed to jemalloc in one go.
 */
#ifndef JESPAN_TRACK_H
#define JESPAN_TRACK_H

#include <stdbool.h>
#include <stddef.h>

#include "heap/counters.h"
#include "heap/magazine.h"
#include "heap/pagemap.h"
#include "heap/thread.h"

/* The calling thread's block, with an allocation policy or without; on its first call here, boots jespan and registers the thread. NULL where a thread has
 * none: inside its registration, after its end, or without memory. errno is left alone. */
struct thread *track_thread_slow(void);

/* Whether the calling thread, whose block is t or which has none, may call jemalloc for anything but a free. A thread that
 * has none for want of memory must not: see reserve.h. */
bool track_may_allocate(const struct thread *t);

HOT_INLINE struct thread *track_thread(void)
{
    struct thread *t = load_relaxed(&thread_fast);
    return likely(t) ? t : track_thread_slow();
}

/* An object of the class that this thread freed before, accounted for; NULL if it keeps none. */
HOT_INLINE void *track_reuse(struct thread *t, struct class_info info, size_t requested)
{
    struct free_object *object = magazine_take(t, CODE_CLASS(info.code));
    if (unlikely(!object))
        return NULL;
    store_relaxed(object->slot, t->tag);
    counters_add_alloc(t->current, info.bytes, requested);
    if (!object->p)
        __builtin_unreachable();
    return object->p;
}

/* Accounts for a new small object in a page that already has a table of its class. False: use track_alloc_slow(). */
HOT_INLINE bool track_alloc_fast(struct thread *t, void *p, struct class_info info, size_t requested)
{
    page_entry_t *page = pagemap_page_of((uintptr_t)p);
    if (unlikely(!page))
        return false;
    uint64_t entry = load_acquire(page);
    if (unlikely(entry_code(entry) != info.code))
        return false;
    store_relaxed(entry_slot(entry, (uintptr_t)p), t->tag);
    counters_add_alloc(t->current, info.bytes, requested);
    return true;
}

/* Accounts for any new object, or for NULL. Returns p, or NULL with ENOMEM after freeing it where there is no memory
 * for its header. t may be NULL. */
void *track_alloc_slow(struct thread *t, void *p, size_t requested);

/* The same with the usable size known. */
void *track_alloc_usable(struct thread *t, void *p, size_t requested, size_t usable);

/* Frees a new object that is not accounted for and has no header yet: a limit refused it. Returns NULL with ENOMEM. */
void *track_refuse(struct thread *t, void *p, size_t usable);

/* Into the buffer, which is not full. */
HOT_INLINE void track_free_later(struct thread *t, void *p, header_t *slot, unsigned class)
{
    uint32_t n = load_relaxed(&t->free_buffer_count);
    prefetch_write((const void *)slot);
    store_relaxed(&t->free_buffer_object[n], p);
    store_relaxed(&t->free_buffer_slot[n], slot);
    store_relaxed(&t->free_buffer_class[n], (uint8_t)class);
    store_release(&t->free_buffer_count, n + 1);
}

/* Takes over a small object of this thread's or any other's for a later free. False: use track_free_slow().
 *
 * An object that is freed twice must not both wait and go back, or it would be reused and then freed under its new owner:
 * the newest that waits and the newest that went back are looked at, which finds the usual mistakes. */
HOT_INLINE bool track_free_fast(struct thread *t, void *p)
{
    page_entry_t *page = pagemap_page((uintptr_t)p);
    if (unlikely(!page))
        return false;
    uint64_t entry = load_relaxed(page);
    if (unlikely(!entry_is_small(entry)))
        return false;
    header_t *slot = entry_slot(entry, (uintptr_t)p);
    struct free_object *last = magazine_last(t, entry_class(entry));
    uint32_t n = load_relaxed(&t->free_buffer_count);
    if (last->p == p && likely(load_relaxed(slot) == t->tag) &&
        likely(load_relaxed(&t->free_buffer_object[(n - 1) % PENDING_MAX]) != p)) {
        store_relaxed(slot, 0);
        counters_add_free(t->current, class_bytes[entry_class(entry)]);
        last->slot = slot; /* since it was taken, its page may have got another table */
        magazine_put_last(t, entry_class(entry), last);
        return true;
    }
    if (unlikely(n == PENDING_MAX || last[-1].p == p))
        return false;
    track_free_later(t, p, slot, entry_class(entry));
    return true;
}

/* Frees anything, NULL included; t may be NULL. Ends the program on a pointer that is not allocated. */
void track_free_slow(struct thread *t, void *p);

/* Frees at once, with jemalloc's flags. */
void track_free_now(struct thread *t, void *p, int flags);

/* Counts all that waits in this thread's buffer; the first where there were never limits. */
void track_flush(struct thread *t);
void track_flush_any(struct thread *t);

/* There is the first limit: frees are uncharged from here on. */
void track_begin_limits(void);

/* Ends the program where a freed object that waits in a thread's buffer was freed once more and counted: its header is 0. For the
 * end of the process, when other threads' buffers are not flushed any more. */
void track_check_waiting(void);

/* track_flush_any(), and hands all that the thread keeps to jemalloc. */
void thread_cache_flush(struct thread *t);

/* Whose an object is; 0: it is not ours. Its owner may change meanwhile. */
uint32_t track_owner(const void *p);

/* Whether it lies in a region, but was handed over to another. */
bool track_is_handed_over(const void *p);

/* Counts frees for a context, and uncharges them. */
void track_count_frees(struct thread *t, uint32_t context, uint64_t objects, uint64_t bytes);

/* The usable size of an object, 0 for NULL and for what is not ours. */
size_t track_usable(const void *p);

/* Ends the program where this thread freed the object, and it waits to be counted. t may be NULL. */
void track_check_not_freed(const struct thread *t, const void *p);

/* After jemalloc changed an object in place, for whose growth bytes are held where its owner has a limit. It becomes the current
 * context's, as if it had been freed and allocated there, if the limits of that admit it. t may be NULL. */
void track_resized(struct thread *t, void *p, size_t old_usable, size_t new_usable, size_t requested);

/* Makes a live object one of `context`, which is live, or in use by the caller. Under LOCK_TREE where !tree_lockless.
 * Returns 0, -EINVAL (not a live object; or no context any more) or -ENOMEM (also: a limit does not admit it). */
int track_retag(struct thread *t, void *p, uint32_t context);

/* ---- What the calling thread has allocated and freed ---- */

/* On a block that a thread has just got. */
void track_begin_bytes(struct thread *t);

/* Since the thread began. Where that is not known, since the thread's first call here, and what jemalloc counts for before. */
struct thread_bytes track_thread_bytes(struct thread *t);

/* The same, kept up to date from here on: each allocation and free of the thread goes the cold sides. Stays as long as the thread. */
struct thread_bytes *track_publish_bytes(struct thread *t);

/* For the cold sides: the thread got an object, or is about to free one; NULL is neither. */
static inline void track_publish_alloc(struct thread *t, const void *p)
{
    if (unlikely(t && t->publishes))
        t->published.allocated += track_usable(p);
}

static inline void track_publish_free(struct thread *t, const void *p)
{
    if (unlikely(t && t->publishes))
        t->published.deallocated += track_usable(p);
}

/* In a forked child, for a block whose thread does not exist there. */
void track_abandon(struct thread *t);

#endif
