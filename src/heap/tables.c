/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory of header tables. LOCK_HEADERS protects all of it except the lists of given-back tables. */
#include "heap/tables.h"

#include <sys/mman.h>

#include "base/compiler.h"
#include "base/die.h"
#include "base/figures.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/number.h"
#include "heap/classes.h"

#define CHUNK_BYTES TABLES_ALIGN /* chunks are aligned to their size */
#define REGION_BYTES HEADER_MORE_BYTES /* of chunks. As many for the second words of their headers follow */
#define PAGE_BYTES HEADER_PAGE_BYTES
#define TIDY_BYTES ((uint64_t)256 * 1024)
/* A thread takes tables in groups that lie together, the first one of so many bytes, and each further one of twice as many. Threads that
 * write headers in one cache line wait for each other, and a processor fetches lines in pairs, and those that follow. */
#define GROUP_BYTES 128u
#define GROUP_DOUBLINGS 3
#define KEPT_BYTES 2048u /* of one slot shift, by one thread */
#define KEPT_MAX 16u

/* Lies in the first bytes of a table that is not in use. It is atomic, since a late reader may read it as headers. */
struct free_table {
    _Atomic(struct free_table *) next;
};

/* Lies at the start of each chunk. */
struct chunk {
    struct chunk *next, *previous; /* in the list of chunks with room, or of empty chunks */
    struct free_table *free;
    uint32_t slot_shift;
    uint32_t used;  /* tables in use */
    uint32_t fresh; /* offset of the first table that was never given out */
    uint32_t table_bytes;
};
#define CHUNK_HEADER_BYTES GROUP_BYTES
_Static_assert(sizeof(struct chunk) <= CHUNK_HEADER_BYTES, "the first table follows at a cache line");

static struct chunk *with_room[HEADER_PAGE_BITS]; /* by slot shift */
static struct chunk *empty;                       /* chunks that have no memory except their first page */
static char *region, *region_end;                 /* addresses for chunks that were never used */

/* Given-back tables by slot shift. They are pushed without a lock and taken all at once under LOCK_HEADERS, so no
 * element is compared while it may be reused (no ABA). */
static _Atomic(struct free_table *) given_back[HEADER_PAGE_BITS];
static _Atomic uint64_t given_back_bytes, used_bytes, held_bytes;
FIGURE_ROW(figure_used, "spans.stats.header_bytes", used_bytes, FIGURE_NUMBER);
FIGURE_ROW(figure_held, "spans.stats.header_held_bytes", held_bytes, FIGURE_NUMBER);

static uint32_t bytes_of_table(uint32_t slot_shift)
{
    size_t bytes = (PAGE_BYTES >> slot_shift) * sizeof(header_t);
    return (uint32_t)(bytes < sizeof(struct free_table) ? sizeof(struct free_table) : bytes);
}

static struct chunk *chunk_of(const struct free_table *table)
{
    return (struct chunk *)((uintptr_t)table & ~(CHUNK_BYTES - 1));
}

static bool has_room(const struct chunk *chunk)
{
    return chunk->free || chunk->fresh + chunk->table_bytes <= CHUNK_BYTES;
}

static void link_chunk(struct chunk *chunk)
{
    chunk->previous = NULL;
    chunk->next = with_room[chunk->slot_shift];
    if (chunk->next)
        chunk->next->previous = chunk;
    with_room[chunk->slot_shift] = chunk;
}

static void unlink_chunk(struct chunk *chunk)
{
    if (chunk->next)
        chunk->next->previous = chunk->previous;
    if (chunk->previous)
        chunk->previous->next = chunk->next;
    else
        with_room[chunk->slot_shift] = chunk->next;
}

size_t tables_region_bytes(void)
{
    return REGION_BYTES + HEADER_MORE_BYTES;
}

COLD void tables_boot(char *start)
{
    lock(LOCK_HEADERS);
    if (region == region_end && !((uintptr_t)start & (CHUNK_BYTES - 1))) {
        region = start;
        region_end = start + REGION_BYTES;
    }
    unlock(LOCK_HEADERS);
}

static struct chunk *chunk_from_region(void)
{
    if (region == region_end) {
        char *start = meta_map(REGION_BYTES + HEADER_MORE_BYTES + CHUNK_BYTES);
        if (!start)
            return NULL;
        region = (char *)round_up((uintptr_t)start, CHUNK_BYTES);
        region_end = region + REGION_BYTES;
    }
    struct chunk *chunk = (struct chunk *)region;
    region += CHUNK_BYTES;
    return chunk;
}

static struct chunk *make_chunk(uint32_t slot_shift)
{
    struct chunk *chunk = empty;
    if (chunk)
        empty = chunk->next;
    else
        chunk = chunk_from_region();
    if (!chunk)
        return NULL;
    *chunk = (struct chunk){.slot_shift = slot_shift, .table_bytes = bytes_of_table(slot_shift)};
    chunk->fresh = CHUNK_HEADER_BYTES;
    atomic_fetch_add_explicit(&held_bytes, CHUNK_BYTES, memory_order_relaxed);
    link_chunk(chunk);
    return chunk;
}

static void clear(struct chunk *chunk, uintptr_t from, uintptr_t to)
{
    for (uintptr_t at = from; at < to; at += sizeof(header_t))
        store_relaxed((header_t *)((char *)chunk + at), 0);
}

/* Gives the pages of a chunk to the system. They read as zeroes afterwards. The first page stays, since the list of
 * empty chunks needs it, and is cleared. */
static void retire_chunk(struct chunk *chunk)
{
    unlink_chunk(chunk);
    clear(chunk, CHUNK_HEADER_BYTES, PAGE_BYTES);
    if (madvise((char *)chunk + PAGE_BYTES, CHUNK_BYTES - PAGE_BYTES, MADV_DONTNEED))
        clear(chunk, PAGE_BYTES, CHUNK_BYTES);
    (void)madvise((char *)chunk + HEADER_MORE_BYTES, CHUNK_BYTES, MADV_DONTNEED); /* they need not be zero */
    chunk->next = empty;
    empty = chunk;
    atomic_fetch_sub_explicit(&held_bytes, CHUNK_BYTES, memory_order_relaxed);
}

static void return_to_chunk(struct free_table *table)
{
    struct chunk *chunk = chunk_of(table);
    if (!has_room(chunk))
        link_chunk(chunk);
    store_relaxed(&table->next, chunk->free);
    chunk->free = table;
    jespan_assert(lock_is_held(LOCK_HEADERS) && chunk->used);
    chunk->used--;
    /* The last chunk with room stays, so that it is not mapped again soon. */
    if (!chunk->used && (chunk->next || chunk->previous))
        retire_chunk(chunk);
}

static void sort_given_back(uint32_t slot_shift)
{
    struct free_table *table = atomic_exchange_explicit(&given_back[slot_shift], NULL, memory_order_acquire);
    while (table) {
        struct free_table *next = load_relaxed(&table->next);
        atomic_fetch_sub_explicit(&given_back_bytes, bytes_of_table(slot_shift), memory_order_relaxed);
        return_to_chunk(table);
        table = next;
    }
}

/* All slots of a given-back table are zero, except the link. */
static struct free_table *take_from(struct chunk *chunk)
{
    struct free_table *table = chunk->free;
    if (table) {
        chunk->free = load_relaxed(&table->next);
        store_relaxed(&table->next, NULL);
    } else {
        table = (struct free_table *)((char *)chunk + chunk->fresh);
        chunk->fresh += chunk->table_bytes;
    }
    chunk->used++;
    if (!has_room(chunk))
        unlink_chunk(chunk);
    return table;
}

static header_t *take_locked(uint32_t slot_shift)
{
    if (!with_room[slot_shift])
        sort_given_back(slot_shift);
    struct chunk *chunk = with_room[slot_shift] ? with_room[slot_shift] : make_chunk(slot_shift);
    if (!chunk)
        return NULL;
    atomic_fetch_add_explicit(&used_bytes, chunk->table_bytes, memory_order_relaxed);
    return (header_t *)take_from(chunk);
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

/* ---- Tables that threads keep ---- */

static uint32_t most_kept(uint32_t slot_shift)
{
    uint32_t most = KEPT_BYTES / bytes_of_table(slot_shift);
    return most > KEPT_MAX ? KEPT_MAX : most;
}

static void push(struct table_cache *cache, header_t *headers, uint32_t slot_shift)
{
    struct free_table *table = (struct free_table *)headers;
    store_relaxed(&table->next, cache->first[slot_shift]);
    cache->first[slot_shift] = table;
    cache->n[slot_shift]++;
}

static header_t *pop(struct table_cache *cache, uint32_t slot_shift)
{
    struct free_table *table = cache->first[slot_shift];
    if (!table)
        return NULL;
    cache->first[slot_shift] = load_relaxed(&table->next);
    cache->n[slot_shift] -= cache->n[slot_shift] != 0; /* a fork of another thread in push() may have left a lower number */
    store_relaxed(&table->next, NULL);
    return (header_t *)table;
}

static bool begin(struct table_cache *cache)
{
    if (!cache || cache->busy)
        return false;
    cache->busy = true;
    compiler_barrier();
    return true;
}

static void end(struct table_cache *cache)
{
    compiler_barrier();
    cache->busy = false;
}

static uint32_t next_group(struct table_cache *cache, uint32_t slot_shift)
{
    uint32_t bytes = GROUP_BYTES << cache->doublings[slot_shift];
    cache->doublings[slot_shift] += cache->doublings[slot_shift] < GROUP_DOUBLINGS;
    return bytes;
}

static header_t *take_group(struct table_cache *cache, uint32_t slot_shift)
{
    uint32_t each = bytes_of_table(slot_shift), bytes = cache ? next_group(cache, slot_shift) : each;
    lock(LOCK_HEADERS);
    header_t *table = take_locked(slot_shift), *more = table;
    for (uint32_t taken = each; more && taken < bytes; taken += each)
        if ((more = take_locked(slot_shift)))
            push(cache, more, slot_shift);
    unlock(LOCK_HEADERS);
    return table;
}

header_t *tables_take(struct table_cache *cache, uint32_t slot_shift)
{
    if (!begin(cache))
        return take_group(NULL, slot_shift);
    header_t *table = pop(cache, slot_shift);
    if (!table)
        table = take_group(cache, slot_shift);
    end(cache);
    return table;
}

void tables_keep(struct table_cache *cache, header_t *table, uint32_t slot_shift)
{
    bool has_begun = begin(cache), is_kept = has_begun && cache->n[slot_shift] < most_kept(slot_shift);
    if (is_kept)
        push(cache, table, slot_shift);
    else
        tables_give_back(table, slot_shift);
    if (has_begun)
        end(cache);
}

COLD void tables_empty_cache(struct table_cache *cache)
{
    for (uint32_t slot_shift = 0; slot_shift < HEADER_PAGE_BITS; slot_shift++) {
        header_t *table;
        while ((table = pop(cache, slot_shift)))
            tables_give_back(table, slot_shift);
        cache->n[slot_shift] = cache->doublings[slot_shift] = 0;
    }
    cache->busy = false;
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
