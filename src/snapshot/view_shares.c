/* SPDX-License-Identifier: BSD-2-Clause */
/* What the threads of another process have in use, exact or within bounds (thread_bounds.h). */
#include "snapshot/view_threads.h"

#include <stdlib.h>

/* By context, over all blocks. */
static struct thread_flow *sum_contexts(const struct view_threads *t)
{
    uint32_t end = 0;
    for (size_t i = 0; i < t->n_cells; i++)
        end = t->cells[i].context >= end ? t->cells[i].context + 1 : end;
    struct thread_flow *sums = calloc((size_t)end + 1, sizeof *sums);
    for (size_t i = 0; i < t->n_cells && sums; i++) {
        sums[t->cells[i].context].in += t->cells[i].in_bytes;
        sums[t->cells[i].context].out += t->cells[i].out_bytes;
    }
    return sums;
}

struct thread_shares *view_threads_shares(const struct view_threads *t)
{
    struct thread_flow *sums = sum_contexts(t);
    struct thread_block_shares *blocks = calloc((size_t)t->n_blocks + 1, sizeof *blocks);
    struct thread_shares *shares = calloc((size_t)t->n_threads + 1, sizeof *shares);
    bool is_complete = sums && blocks && shares;
    for (size_t i = 0; i < t->n_cells && is_complete; i++) {
        const struct view_cell *cell = &t->cells[i];
        thread_block_add(&blocks[cell->block], &(struct thread_flow){cell->in_bytes, cell->out_bytes}, &sums[cell->context]);
    }
    for (uint32_t i = 0; i < t->n_threads && is_complete; i++)
        blocks[t->threads[i].block].n_threads += t->threads[i].lives > 1 ? t->threads[i].lives : 1;
    for (uint32_t i = 0; i < t->n_threads && is_complete; i++)
        shares[i] = thread_shares_of(&blocks[t->threads[i].block], t->threads[i].alloc_bytes);
    free(sums);
    free(blocks);
    if (!is_complete)
        free(shares);
    return is_complete ? shares : NULL;
}
