/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: frees in threads' buffers, and claims.
 *
 * A buffered free is uncharged when its thread counts it, or ahead of time when another thread claims it. The thread
 * must not uncharge a claimed free again. So its block says which frees of which buffer were counted and claimed. */
#include <sched.h>

#include "base/die.h"
#include "heap/classes.h"
#include "heap/pagemap.h"
#include "heap/thread.h"
#include "policy/limit_internal.h"
#include "span/tree.h"

/* The number of a buffer's content; a flush changes it. To be read before the content. */
static uint32_t buffer_number(const struct thread *t)
{
    return load_acquire(&t->free_buffer_sequence) & ~1u;
}

static uint32_t counted_of(const struct thread *t, uint32_t number)
{
    return load_relaxed(&t->claimed_sequence) == number ? load_relaxed(&t->counted) : 0;
}

static uint32_t claimed_of(const struct thread *t, uint32_t number)
{
    return load_relaxed(&t->claimed_sequence) == number ? load_relaxed(&t->claimed) : 0;
}

static uint32_t greatest(uint32_t a, uint32_t b, uint32_t c)
{
    a = a > b ? a : b;
    return a > c ? a : c;
}

/* The index of the first free that is neither counted nor claimed. */
static uint32_t first_waiting(const struct thread *t, uint32_t number)
{
    uint32_t counted = counted_of(t, number), claimed = claimed_of(t, number);
    return greatest(load_relaxed(&t->free_buffer_done), counted, claimed);
}

/* The context of a buffered free; 0: unknown. The context may be marked for recycling, and is charged until it is
 * recycled. If the thread goes on meanwhile, the slot may be another object's or free memory, and the context is wrong;
 * callers that allow this check afterwards whether the buffer changed. */
static uint32_t tag_waiting(const struct thread *t, uint32_t i)
{
    const _Atomic uint32_t *slot = load_relaxed(&t->free_buffer_slot[i]);
    uint32_t tag = slot ? load_relaxed(slot) & ~TAG_SURVIVOR : 0;
    return tag < tree_end() ? tag : 0;
}

static uint32_t bytes_waiting(const struct thread *t, uint32_t i)
{
    return class_bytes[load_relaxed(&t->free_buffer_class[i]) % CLASSES_MAX];
}

uint32_t limits_each_waiting(struct thread *t, void (*each)(void *to, uint32_t limit, uint32_t bytes), void *to)
{
    uint32_t i = first_waiting(t, buffer_number(t)), end = load_acquire(&t->free_buffer_count);
    for (; i < end && i < FREE_BUFFER_MAX; i++) {
        uint32_t tag = tag_waiting(t, i), limit = tag ? limits_of(tag) : 0;
        if (limit)
            each(to, limit, bytes_waiting(t, i));
    }
    return end;
}

static void uncharge_one(void *unused, uint32_t limit, uint32_t bytes)
{
    (void)unused;
    limits_uncharge(limit, 0, bytes);
}

/* Uncharges the frees in a buffer ahead of time. Meanwhile the thread may add frees; if all are counted, it may begin a
 * new buffer. */
void limits_claim(struct thread *t)
{
    uint32_t number = buffer_number(t), counted = counted_of(t, number);
    if (first_waiting(t, number) >= load_acquire(&t->free_buffer_count))
        return;
    uint32_t end = limits_each_waiting(t, uncharge_one, NULL);
    store_relaxed(&t->counted, counted);
    store_relaxed(&t->claimed, end);
    store_relaxed(&t->claimed_sequence, number);
}

COLD void limits_unclaim(struct thread *t, uint32_t i)
{
    uint32_t number = buffer_number(t);
    uint32_t tag = i >= counted_of(t, number) && i < claimed_of(t, number) ? tag_waiting(t, i) : 0;
    if (tag)
        limits_charge_anyway(limits_of(tag), 0, bytes_waiting(t, i));
}

uint64_t limits_claimed_bytes(const struct thread *t, uint32_t context)
{
    uint32_t number = buffer_number(t), end = claimed_of(t, number);
    uint64_t bytes = 0;
    for (uint32_t i = greatest(load_relaxed(&t->free_buffer_done), counted_of(t, number), 0); i < end; i++)
        bytes += tag_waiting(t, i) == context ? bytes_waiting(t, i) : 0;
    return bytes;
}

COLD void limits_claim_all(void)
{
    jespan_assert(load_relaxed(&limits_stopped));
    for (struct thread *t = thread_first(); t; t = thread_next(t))
        limits_claim(t);
}

COLD void limits_await_buffers(void)
{
    limits_show_all();
    for (struct thread *t = thread_next(thread_first()); t; t = thread_next(t)) {
        uint32_t sequence = load_acquire(&t->free_buffer_sequence);
        for (int i = 0; sequence & 1 && t != thread_current && i < 1000 && load_acquire(&t->free_buffer_sequence) == sequence; i++)
            sched_yield();
    }
}
