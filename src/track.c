/* SPDX-License-Identifier: BSD-2-Clause */
/* All accounting off the hot path: first use, big objects, full buffers, threads without a block. */
#include "track.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>

#include "../jemalloc-hooks/binding.h"
#include "../jemalloc-hooks/extents.h"
#include "conf.h"
#include "die.h"
#include "lock.h"
#include "span.h"
#include "tree.h"

#define NAME_CHECK_LAST 64 /* the slow event of a thread at which its name is looked at last */

static _Atomic bool booted;

/* ---- Fork ---- */

/* What such a thread had buffered stays for the block's next owner. Where it was in the middle of processing, the entry
 * at pending_done may be half through: it is left alone, which leaks one object at most. */
static void abandon(struct thread *t)
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
    span_leave_all(t);
}

static void after_fork_in_child(void)
{
    lock_release_after_fork();
    tree_after_fork();
    thread_after_fork(abandon);
}

/* ---- First use ---- */

static void end_thread(struct thread *t)
{
    track_give_back(t);
    thread_self = NULL;
    thread_state = THREAD_ENDED;
    span_leave_all(t);
    thread_release_block(t);
}

/* jemalloc's first use is here, before any of its arenas has memory, so that the hooks see all of it. Its fork handlers
 * come right before ours, and both as early as can be: handlers before fork run last registered first, so others'
 * may still allocate, and our locks are taken before jemalloc's, as everywhere else. */
static int boot_locked(void)
{
    conf_boot();
    binding_boot();
    uint32_t max = (uint32_t)conf.max_contexts;
    int error = tree_boot(&max);
    max = (max + COUNTERS_PER_CHUNK - 1) & ~(COUNTERS_PER_CHUNK - 1);
    if (!error)
        error = counters_boot(max);
    if (!error)
        error = thread_boot(max, end_thread);
    if (error)
        return error;
    extents_boot();
    classes_boot();
    magazine_boot();
    return -pthread_atfork(lock_all_before_fork, lock_release_after_fork, after_fork_in_child);
}

/* What jemalloc's first use allocates through us: with background_thread:true it starts a thread. LOCK_BOOT. */
#define EARLY_MAX 16
static struct early {
    void *p;
    size_t requested;
} early[EARLY_MAX];

static bool is_booting(void)
{
    return thread_state == THREAD_REGISTERING && !load_acquire(&booted);
}

static bool early_add(void *p, size_t requested)
{
    for (unsigned i = 0; i < EARLY_MAX; i++) {
        if (!early[i].p) {
            early[i] = (struct early){p, requested};
            return true;
        }
    }
    return false;
}

static bool early_remove(const void *p)
{
    for (unsigned i = 0; i < EARLY_MAX; i++) {
        if (early[i].p == p) {
            early[i].p = NULL;
            return true;
        }
    }
    return false;
}

static void early_account(void)
{
    for (unsigned i = 0; i < EARLY_MAX; i++)
        track_alloc_slow(NULL, early[i].p, early[i].requested);
}

static bool boot(void)
{
    static bool tried;
    if (load_acquire(&booted))
        return true;
    lock(LOCK_BOOT);
    if (!tried) {
        tried = true;
        int error = boot_locked();
        if (error)
            WARN("no memory to start: ", errno_text(-error), "; every allocation fails");
        store_release(&booted, !error);
        if (!error)
            early_account();
    }
    unlock(LOCK_BOOT);
    return load_acquire(&booted);
}

/* Renames of a thread are not announced to us. Most come soon after its start, so that is when we look, less and less
 * often: each look is a system call, which a thread that has sandboxed itself may not survive. */
static COLD void check_name(struct thread *t)
{
    char name[sizeof t->name] = "";
    t->next_name_check = t->slow_events ? 2 * t->slow_events : 1;
    if (t->base == CONTEXT_ID_SELF || prctl(PR_GET_NAME, name) || !strcmp(name, t->name))
        return;
    if (span_set_base_by_name(t, name) == 0)
        memcpy(t->name, name, sizeof name);
}

static void slow_event(struct thread *t)
{
    if (t->slow_events < NAME_CHECK_LAST && ++t->slow_events >= t->next_name_check && conf.thread_contexts)
        check_name(t);
}

static struct thread *register_thread(void)
{
    struct thread *t = thread_acquire_block();
    if (!t)
        return NULL;
    t->name[0] = '\0';
    t->slow_events = t->next_name_check = 0;
    if (conf.thread_contexts)
        check_name(t);
    if (!t->base && span_set_base(t, CONTEXT_ID_ROOT)) {
        thread_release_block(t);
        return NULL;
    }
    extents_watch_thread();
    return t;
}

COLD struct thread *track_thread_slow(void)
{
    if (thread_state != THREAD_NEW)
        return NULL;
    int saved = errno;
    thread_state = THREAD_REGISTERING;
    struct thread *t = boot() ? register_thread() : NULL;
    thread_self = t;
    thread_state = THREAD_NEW;
    errno = saved;
    return t;
}

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
            slow_event(t);
        if (!extents_oversize_bytes)
            extents_watch_pointer(p);
        entry = headers_install((uintptr_t)p, code);
    }
    if (unlikely(!entry))
        return -ENOMEM;
    store_relaxed(entry_slot(entry, (uintptr_t)p), tag_of(t)); /* now: slow_event() may have changed it */
    return 0;
}

void *track_alloc_usable(struct thread *t, void *p, size_t requested, size_t usable)
{
    if (unlikely(!p))
        return NULL;
    if (unlikely(is_booting()) && early_add(p, requested))
        return p;
    if (unlikely(!t && !load_acquire(&booted)) || set_header(t, p, usable)) {
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

HOT_INLINE void count_free(struct thread *t, uint32_t context, size_t usable)
{
    struct counters *c = likely(t) ? counters_get(t, context) : NULL;
    if (likely(c)) {
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
    count_free(t, owner.tag, owner.usable);
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
        uintptr_t packed = load_relaxed(&t->pending[i].pointer_and_class);
        header_t *slot = load_relaxed(&t->pending[i].slot);
        void *p = (void *)(packed >> 8);
        size_t usable = class_bytes[(uint8_t)packed];
        uint32_t tag = load_relaxed(slot);
        if (unlikely(!tag))
            die_not_allocated(p);
        store_relaxed(slot, 0);
        count_free(t, tag, usable);
        if (!magazine_put(t, (uint8_t)packed, (struct free_object){p, slot}))
            jespan_je_sdallocx(p, usable, 0);
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
        slow_event(t);
    }
    if (unlikely(is_booting()) && early_remove(p))
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
    count_free(t, owner.tag, old_usable);
    /* The page has its table or entry already. */
    set_header(t, p, new_usable);
    count_alloc(t, new_usable, requested);
}
