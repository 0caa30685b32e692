/* SPDX-License-Identifier: BSD-2-Clause */
/* A pair at the end of a stack of about 16 frames: one stack, or many that take turns. */
#include "workload.h"

#include <stdlib.h>

#define DEPTH 14
#define OUTER 11 /* calls that stacks near each other have in common */
#define NOINLINE __attribute__((noinline))

struct state {
    const struct stacks_shape *shape;
    uint64_t random;
    uint32_t left;  /* so many stacks keep the present outer calls */
    unsigned outer;
};

static NOINLINE unsigned pair(unsigned n)
{
    free(bench_touch(malloc(64)));
    return n + 1; /* after the call, so it is no jump */
}

/* Each level calls one of two functions, whose frames have different sizes. To ask for the frame's address makes the
 * compiler keep a frame pointer. */
#define LEVEL(name, small, large, bytes, frame)                                                                        \
    static NOINLINE unsigned name(unsigned path, unsigned depth)                                                       \
    {                                                                                                                  \
        volatile char room[bytes];                                                                                     \
        __asm__ volatile("" : : "r"(room), "r"(frame) : "memory");                                                     \
        if (!depth)                                                                                                    \
            return pair(path) + 1;                                                                                     \
        return path & 1 ? small(path >> 1, depth - 1) + 1 : large(path >> 1, depth - 1) + 2;                           \
    }

#define LEVELS(small, large, frame)                                                                                    \
    static unsigned small(unsigned path, unsigned depth);                                                              \
    static unsigned large(unsigned path, unsigned depth);                                                              \
    LEVEL(small, small, large, 16, frame)                                                                              \
    LEVEL(large, small, large, 80, frame)

LEVELS(small, large, 0)
LEVELS(small_fp, large_fp, __builtin_frame_address(0))

void *stacks_start(const void *shape)
{
    struct state *s = bench_array(sizeof *s);
    *s = (struct state){.shape = shape, .random = BENCH_SEED};
    return s;
}

void stacks_stop(void *state)
{
    bench_array_free(state, sizeof(struct state));
}

/* The lowest bit is the outermost call. */
static unsigned next_path(struct state *s)
{
    unsigned path = bench_below(bench_random(&s->random), s->shape->stacks);
    if (!s->shape->near)
        return path;
    if (!s->left--) {
        s->left = s->shape->near - 1;
        s->outer = path & ((1u << OUTER) - 1);
    }
    return path >> OUTER << OUTER | s->outer;
}

void stacks_round(void *state, size_t operations)
{
    struct state *s = state;
    for (size_t i = 0; i < operations; i++) {
        unsigned path = next_path(s);
        s->shape->frame_pointers ? small_fp(path, DEPTH) : small(path, DEPTH);
    }
}
