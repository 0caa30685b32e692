/* SPDX-License-Identifier: BSD-2-Clause */
/* When a thread takes stacks: whether it does, and which allocation is its next sample. */
#include "base/clock.h"
#include "base/meta.h"
#include "conf/conf.h"
#include "span/stack_context.h"
#include "span/stack_find.h"

/* ---- Samples ---- */

/* For numbers between 0 and 1, to 40 bits. libm is not used. Each squaring gives one bit of the binary logarithm. */
static double natural_logarithm(double x)
{
    double binary = 0, bit = 0.5;
    for (; x < 1; x *= 2)
        binary -= 1;
    for (int i = 0; i < 40; i++, bit /= 2) {
        x *= x;
        if (x >= 2) {
            x /= 2;
            binary += bit;
        }
    }
    return binary * 0.69314718055994530942;
}

/* A seed that is not 0. Threads that start together must not take their samples together. */
static uint64_t seed(const struct thread_stacks *s)
{
    uint64_t x = ((uintptr_t)s ^ clock_ticks()) * 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 32) * 0xbf58476d1ce4e5b9u;
    return (x ^ x >> 29) | 1;
}

/* The bytes until the next sample are distributed exponentially, so each byte is sampled with the same probability. */
COLD void stack_thread_draw(struct thread *t, struct thread_stacks *s)
{
    s->random ^= s->random << 13;
    s->random ^= s->random >> 7;
    s->random ^= s->random << 17;
    double uniform = ((double)(s->random >> 11) + 0.5) / 9007199254740992.0;
    t->until_sample = (uint64_t)(-natural_logarithm(uniform) * (double)conf.stacks_sample_bytes);
}

/* ---- Begin and end ---- */

/* Another thread may unset the mode at any time. This thread is then reviewed again. */
COLD void stack_context_review(struct thread *t)
{
    t->stacks = NULL;
    if (load_relaxed(&stacks_mode) != STACKS_ALL)
        t->recent = (struct recent_objects){0}; /* allocations that follow are not seen */
    if (load_relaxed(&stacks_mode) == STACKS_OFF)
        return;
    if (!t->stacks_kept) {
        struct thread_stacks *s = meta_alloc(sizeof *s);
        if (!s)
            return;
        s->random = seed(s);
        t->stacks_kept = s;
        stack_thread_draw(t, s);
    }
    t->stacks = t->stacks_kept;
}

COLD void stack_context_leave_thread(struct thread *t)
{
    struct thread_stacks *s = t->stacks_kept;
    t->stacks = NULL;
    t->recent = (struct recent_objects){0};
    if (!s)
        return;
    s->busy = false;
    s->bounds_tries = s->useless = s->rest = s->rested = 0;
    s->walk.bounds = (struct stack_bounds){0};
    meta_unmap(s->layouts, sizeof *s->layouts);
    s->layouts = NULL;
    meta_unmap(s->trail, sizeof *s->trail);
    s->trail = NULL;
}
