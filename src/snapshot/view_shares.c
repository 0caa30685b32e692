/* SPDX-License-Identifier: BSD-2-Clause */
/* Bounds of the memory that threads have in use, and of what others freed for them.
 *
 * A header names the context of an object, and not its thread. If only one thread allocates in a context, all is exact.
 * Otherwise a thread has in use what it allocated there, less all that was freed there, at least; and the smaller one of what
 * it allocated and what is in use there, at most. Frees by others have bounds of the same kind.
 */
#include "snapshot/view_threads.h"

#include <stdlib.h>

#include "base/number.h"

static void add(struct bounds *to, uint64_t low, uint64_t high)
{
    to->low += lesser(low, high);
    to->high += high;
}

struct sums {
    uint64_t in, out;
};

/* By context, over all blocks. */
static struct sums *sum_contexts(const struct view_threads *t)
{
    uint32_t end = 0;
    for (size_t i = 0; i < t->n_cells; i++)
        end = t->cells[i].context >= end ? t->cells[i].context + 1 : end;
    struct sums *sums = calloc((size_t)end + 1, sizeof *sums);
    for (size_t i = 0; i < t->n_cells && sums; i++) {
        sums[t->cells[i].context].in += t->cells[i].in_bytes;
        sums[t->cells[i].context].out += t->cells[i].out_bytes;
    }
    return sums;
}

/* The figures of a thread block are those of all threads that have had it. */
struct block {
    struct thread_shares shares;
    uint64_t in, freed_by_any;
    uint64_t n_threads;
};

static void add_cell(struct block *block, const struct view_cell *cell, const struct sums *all)
{
    uint64_t others_out = saturating_sub(all->out, cell->out_bytes), others_in = saturating_sub(all->in, cell->in_bytes);
    add(&block->shares.in_use, saturating_sub(cell->in_bytes, all->out), lesser(cell->in_bytes, saturating_sub(all->in, all->out)));
    add(&block->shares.freed_by_others, saturating_sub(others_out, others_in), lesser(cell->in_bytes, others_out));
    block->in += cell->in_bytes;
    block->freed_by_any += lesser(cell->in_bytes, all->out);
}

/* A thread that shared its block with others, one after the other: what they may have had is not its. */
static struct bounds narrow(const struct bounds *block, uint64_t of_thread, uint64_t of_block)
{
    uint64_t high = lesser(block->high, of_thread);
    return (struct bounds){lesser(saturating_sub(block->low, saturating_sub(of_block, of_thread)), high), high};
}

struct thread_shares *view_threads_shares(const struct view_threads *t)
{
    struct sums *sums = sum_contexts(t);
    struct block *blocks = calloc((size_t)t->n_blocks + 1, sizeof *blocks);
    struct thread_shares *shares = calloc((size_t)t->n_threads + 1, sizeof *shares);
    bool is_complete = sums && blocks && shares;
    for (size_t i = 0; i < t->n_cells && is_complete; i++) {
        const struct view_cell *cell = &t->cells[i];
        add_cell(&blocks[cell->block], cell, &sums[cell->context]);
    }
    for (uint32_t i = 0; i < t->n_threads && is_complete; i++)
        blocks[t->threads[i].block].n_threads += t->threads[i].lives > 1 ? t->threads[i].lives : 1;
    for (uint32_t i = 0; i < t->n_threads && is_complete; i++) {
        const struct view_thread *thread = &t->threads[i];
        const struct block *block = &blocks[thread->block];
        shares[i] = block->shares;
        if (block->n_threads > 1) {
            struct bounds by_any = {block->shares.freed_by_others.low, block->freed_by_any};
            shares[i].in_use = narrow(&block->shares.in_use, thread->alloc_bytes, block->in);
            shares[i].freed_by_others = narrow(&by_any, thread->alloc_bytes, block->in);
        }
    }
    free(sums);
    free(blocks);
    if (!is_complete)
        free(shares);
    return is_complete ? shares : NULL;
}
