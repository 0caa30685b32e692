/* SPDX-License-Identifier: BSD-2-Clause */
/* Bounds of the memory that a thread has in use, and of what others freed for it.
 *
 * A header names the context of an object, and not its thread. If only one thread allocates in a context, all is exact.
 * Otherwise a thread has in use what it allocated there, less all that was freed there, at least; and the smaller one of what
 * it allocated and what is in use there, at most. Frees by others have bounds of the same kind.
 */
#ifndef JESPAN_THREAD_BOUNDS_H
#define JESPAN_THREAD_BOUNDS_H

#include <stdint.h>

#include "base/number.h"

struct bounds {
    uint64_t low, high;
};

struct thread_shares {
    struct bounds in_use;          /* of what the thread allocated */
    struct bounds freed_by_others; /* of that, too */
};

/* What came in and went out in one context: allocated and freed, also by jespan_credit(). */
struct thread_flow {
    uint64_t in, out;
};

/* The figures of a thread block are those of all threads that have had it. Zeroed, it has counted nothing. */
struct thread_block_shares {
    struct thread_shares shares;
    uint64_t in, freed_by_any;
    uint64_t n_threads;
};

static inline void bounds_add(struct bounds *to, uint64_t low, uint64_t high)
{
    to->low += lesser(low, high);
    to->high += high;
}

/* Adds a context: what the block's threads did there, and what all threads did. */
static inline void thread_block_add(struct thread_block_shares *block, const struct thread_flow *own, const struct thread_flow *all)
{
    uint64_t others_out = saturating_sub(all->out, own->out), others_in = saturating_sub(all->in, own->in);
    bounds_add(&block->shares.in_use, saturating_sub(own->in, all->out), lesser(own->in, saturating_sub(all->in, all->out)));
    bounds_add(&block->shares.freed_by_others, saturating_sub(others_out, others_in), lesser(own->in, others_out));
    block->in += own->in;
    block->freed_by_any += lesser(own->in, all->out);
}

/* A thread that shared its block with others, one after the other: what they may have had is not its. */
static inline struct bounds bounds_narrow(const struct bounds *block, uint64_t of_thread, uint64_t of_block)
{
    uint64_t high = lesser(block->high, of_thread);
    return (struct bounds){lesser(saturating_sub(block->low, saturating_sub(of_block, of_thread)), high), high};
}

static inline struct thread_shares thread_shares_of(const struct thread_block_shares *block, uint64_t allocated_by_thread)
{
    const struct bounds by_any = {block->shares.freed_by_others.low, block->freed_by_any};
    if (block->n_threads <= 1)
        return block->shares;
    return (struct thread_shares){.in_use = bounds_narrow(&block->shares.in_use, allocated_by_thread, block->in),
                                  .freed_by_others = bounds_narrow(&by_any, allocated_by_thread, block->in)};
}

#endif
