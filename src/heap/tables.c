/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of header tables. All under LOCK_HEADERS but for the lists of what was given back. */
#include "heap/tables.h"

#include <sys/mman.h>

#include "base/compiler.h"
#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "heap/classes.h"

#define BLOCK_BYTES ((uintptr_t)64 * 1024) /* and aligned so */
#define REGION_BLOCKS 16
#define PAGE_BYTES HEADER_PAGE_BYTES
#define TIDY_BYTES ((uint64_t)256 * 1024)

/* A table that is not in use; lies in its first bytes, which a late reader may take for headers: hence atomic. */
struct free_table {
    _Atomic(struct free_table *) next;
};

/* At the start of each block. */
struct block {
    struct block *next, *previous; /* among those with room, or those that are empty */
    struct free_table *free;
    uint32_t slot_shift;
    uint32_t used;  /* tables in use */
    uint32_t fresh; /* bytes that were handed out at least once, this header included */
    uint32_t table_bytes;
};
#define BLOCK_HEADER_BYTES CACHE_LINE_BYTES
_Static_assert(sizeof(struct block) <= BLOCK_HEADER_BYTES, "the first table follows at a cache line");

static struct block *with_room[HEADER_PAGE_BITS]; /* by slot shift */
static struct block *empty;                       /* without memory but for their first page */
static char *region, *region_end;                 /* addresses that were never used */

/* By slot shift. Pushed without a lock and taken all at once under LOCK_HEADERS, so that no element is ever compared
 * while it may be reused (no ABA). */
static _Atomic(struct free_table *) given_back[HEADER_PAGE_BITS];
static _Atomic uint64_t given_back_bytes, used_bytes, held_bytes;

static uint32_t bytes_of_table(uint32_t slot_shift)
{
    return (uint32_t)((PAGE_BYTES >> slot_shift) * sizeof(header_t));
}

static struct block *block_of(const struct free_table *table)
{
    return (struct block *)((uintptr_t)table & ~(BLOCK_BYTES - 1));
}

static bool has_room(const struct block *block)
{
    return block->free || block->fresh + block->table_bytes <= BLOCK_BYTES;
}

static void link_block(struct block *block)
{
    block->previous = NULL;
    block->next = with_room[block->slot_shift];
    if (block->next)
        block->next->previous = block;
    with_room[block->slot_shift] = block;
}

static void unlink_block(struct block *block)
{
    if (block->next)
        block->next->previous = block->previous;
    if (block->previous)
        block->previous->next = block->next;
    else
        with_room[block->slot_shift] = block->next;
}

static struct block *block_from_region(void)
{
    if (region == region_end) {
        char *start = meta_map((REGION_BLOCKS + 1) * BLOCK_BYTES);
        if (!start)
            return NULL;
        region = (char *)(((uintptr_t)start + BLOCK_BYTES - 1) & ~(BLOCK_BYTES - 1));
        region_end = region + REGION_BLOCKS * BLOCK_BYTES;
    }
    struct block *block = (struct block *)region;
    region += BLOCK_BYTES;
    return block;
}

static struct block *make_block(uint32_t slot_shift)
{
    struct block *block = empty;
    if (block)
        empty = block->next;
    else
        block = block_from_region();
    if (!block)
        return NULL;
    *block = (struct block){.slot_shift = slot_shift, .table_bytes = bytes_of_table(slot_shift)};
    block->fresh = BLOCK_HEADER_BYTES;
    atomic_fetch_add_explicit(&held_bytes, BLOCK_BYTES, memory_order_relaxed);
    link_block(block);
    return block;
}

static void clear(struct block *block, uintptr_t from, uintptr_t to)
{
    for (uintptr_t at = from; at < to; at += sizeof(header_t))
        store_relaxed((header_t *)((char *)block + at), 0);
}

/* Its pages go, and come back as zeroes; the first, which the list of such blocks goes through, is cleared by hand. */
static void retire_block(struct block *block)
{
    unlink_block(block);
    clear(block, BLOCK_HEADER_BYTES, PAGE_BYTES);
    if (madvise((char *)block + PAGE_BYTES, BLOCK_BYTES - PAGE_BYTES, MADV_DONTNEED))
        clear(block, PAGE_BYTES, BLOCK_BYTES);
    block->next = empty;
    empty = block;
    atomic_fetch_sub_explicit(&held_bytes, BLOCK_BYTES, memory_order_relaxed);
}

static void return_to_block(struct free_table *table)
{
    struct block *block = block_of(table);
    if (!has_room(block))
        link_block(block);
    store_relaxed(&table->next, block->free);
    block->free = table;
    jespan_assert(lock_is_held(LOCK_HEADERS) && block->used);
    block->used--;
    if (!block->used && (block->next || block->previous)) /* the last with room stays, lest it come and go */
        retire_block(block);
}

static void sort_given_back(uint32_t slot_shift)
{
    struct free_table *table = atomic_exchange_explicit(&given_back[slot_shift], NULL, memory_order_acquire);
    while (table) {
        struct free_table *next = load_relaxed(&table->next);
        atomic_fetch_sub_explicit(&given_back_bytes, bytes_of_table(slot_shift), memory_order_relaxed);
        return_to_block(table);
        table = next;
    }
}

/* Slots of a table given back are zero but for the link. */
static struct free_table *take_from(struct block *block)
{
    struct free_table *table = block->free;
    if (table) {
        block->free = load_relaxed(&table->next);
        store_relaxed(&table->next, NULL);
    } else {
        table = (struct free_table *)((char *)block + block->fresh);
        block->fresh += block->table_bytes;
    }
    block->used++;
    if (!has_room(block))
        unlink_block(block);
    return table;
}

header_t *tables_take(uint32_t slot_shift)
{
    jespan_assert(lock_is_held(LOCK_HEADERS));
    if (!with_room[slot_shift])
        sort_given_back(slot_shift);
    struct block *block = with_room[slot_shift] ? with_room[slot_shift] : make_block(slot_shift);
    if (!block)
        return NULL;
    atomic_fetch_add_explicit(&used_bytes, block->table_bytes, memory_order_relaxed);
    return (header_t *)take_from(block);
}

void tables_give_back(header_t *headers, uint32_t slot_shift)
{
    struct free_table *table = (struct free_table *)headers, *head = load_relaxed(&given_back[slot_shift]);
    uint32_t bytes = bytes_of_table(slot_shift);
    do {
        store_relaxed(&table->next, head);
    } while (!atomic_compare_exchange_weak_explicit(&given_back[slot_shift], &head, table, memory_order_release,
                                                    memory_order_relaxed));
    atomic_fetch_sub_explicit(&used_bytes, bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&given_back_bytes, bytes, memory_order_relaxed);
}

COLD void tables_tidy(void)
{
    if (load_relaxed(&given_back_bytes) < TIDY_BYTES || !try_lock(LOCK_HEADERS))
        return;
    for (uint32_t slot_shift = 0; slot_shift < HEADER_PAGE_BITS; slot_shift++)
        sort_given_back(slot_shift);
    unlock(LOCK_HEADERS);
}

uint64_t tables_used_bytes(void)
{
    return load_relaxed(&used_bytes);
}

uint64_t tables_held_bytes(void)
{
    return load_relaxed(&held_bytes);
}
