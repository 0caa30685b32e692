/* SPDX-License-Identifier: BSD-2-Clause */
/* Whether stacks are taken, how many were lost, and the numbers of stacks. */
#include "stacks/stacks.h"

#include <errno.h>

#include "base/die.h"
#include "base/figures.h"
#include "base/lock.h"
#include "base/meta.h"
#include "base/state_file.h"
#include "conf/conf.h"
#include "stacks/codes.h"
#include "stacks/unwind.h"
#include "stacks/unwind_rules.h"

_Atomic uint32_t stacks_mode;
_Atomic uint64_t stacks_min_bytes;
FIGURE_ROW(figure_min_bytes, "spans.stacks_min_bytes", stacks_min_bytes, FIGURE_NUMBER);
struct stacks_stats stacks_stats;
FIGURE_ROW(figure_overflow, "spans.stats.stacks.overflow", stacks_stats.overflow, FIGURE_NUMBER);
FIGURE_ROW(figure_missed, "spans.stats.stacks.missed", stacks_stats.missed, FIGURE_NUMBER);
FIGURE_ROW(figure_ended_early, "spans.stats.stacks.ended_early", stacks_stats.ended_early, FIGURE_NUMBER);
FIGURE_ROW(figure_cut, "spans.stats.stacks.cut", stacks_stats.cut, FIGURE_NUMBER);

COLD int stacks_boot(void)
{
    store_relaxed(&stacks_stats.sample_bytes, conf.stacks_sample_bytes);
    int error = rules_boot();
    if (!error)
        error = frames_boot((uint32_t)conf.max_stacks);
    if (!error)
        error = codes_boot();
    if (!error)
        unwind_boot();
    return error;
}

/* ---- The tree of return addresses ---- */

struct stack_frame *stack_frames;
_Atomic uint32_t stack_frames_end = 1;
FIGURE_ROW(figure_frames, "spans.stats.stacks.frames", stack_frames_end, FIGURE_LESS_1);

#define GROWTH 4096u /* frames at a time */

/* The heads of the buckets. Their number grows by one with each other frame, and the frames of one bucket are divided between it and the
 * new one (linear hashing: W. Litwin, 1980). So the heads in use lie together, and no frame waits for a larger table. With all heads in
 * use from the start, nearly each new frame of a small program would take a page fault. */
#define HEADS_FIRST 1024u /* a power of two */
#define FRAMES_PER_HEAD 2u

static struct meta_array array;
static uint32_t *heads, n_heads, hash_mask, max_frames, mapped;
static uint16_t *n_called; /* by frame: other frames below it, FRAMES_CALLED for more */

COLD int frames_boot(uint32_t max)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    if (stack_frames)
        return 0;
    size_t head_bytes = ((size_t)max / FRAMES_PER_HEAD + HEADS_FIRST) * sizeof *heads;
    size_t called_bytes = (size_t)max * sizeof *n_called;
    heads = meta_map(head_bytes);
    n_called = meta_map(called_bytes);
    int error = heads && n_called ? meta_array_begin(&array, (size_t)max * sizeof *stack_frames) : -ENOMEM;
    if (error) {
        meta_unmap(heads, head_bytes);
        meta_unmap(n_called, called_bytes);
        return error;
    }
    n_heads = HEADS_FIRST;
    hash_mask = HEADS_FIRST - 1;
    max_frames = max;
    stack_frames = (struct stack_frame *)array.start;
    meta_array_watch(&array);
    STATE_COPY(stack_frames);
    return 0;
}

static COLD bool grow(void)
{
    uint32_t end = max_frames - mapped < GROWTH ? max_frames : mapped + GROWTH;
    if (end == mapped || !meta_array_grow(&array, end * sizeof *stack_frames))
        return false;
    mapped = end;
    return true;
}

static uint32_t *head_of(uint32_t parent, uintptr_t return_address)
{
    uint64_t hash = (return_address ^ parent * UINT64_C(0xbf58476d1ce4e5b9)) * 0x9e3779b97f4a7c15u;
    uint32_t i = hash >> 32 & hash_mask; /* all bits of both count here */
    return &heads[i < n_heads ? i : i & hash_mask >> 1];
}

static void add_head(void)
{
    if (n_heads > hash_mask)
        hash_mask = 2 * hash_mask + 1;
    uint32_t *old = &heads[n_heads++ & hash_mask >> 1];
    uint32_t i = *old, next;
    for (*old = 0; i; i = next) {
        struct stack_frame *frame = &stack_frames[i];
        uint32_t *head = head_of(frame->parent, frame->return_address);
        next = frame->next;
        frame->next = *head;
        *head = i;
    }
}

static bool is_frame(uint32_t number, uint32_t parent, uintptr_t return_address)
{
    return stack_frames[number].return_address == return_address && stack_frames[number].parent == parent;
}

/* The frames of a new stack got their numbers in a row. So the next number is tried first, which is mostly in the same
 * cache line. */
static uint32_t find_one(uint32_t parent, uintptr_t return_address)
{
    if (parent + 1 < load_relaxed(&stack_frames_end) && is_frame(parent + 1, parent, return_address))
        return parent + 1;
    for (uint32_t i = *head_of(parent, return_address); i; i = stack_frames[i].next)
        if (is_frame(i, parent, return_address))
            return i;
    return 0;
}

static uint32_t make_one(uint32_t parent, uintptr_t return_address, uint32_t bound)
{
    uint32_t number = load_relaxed(&stack_frames_end);
    if (number >= bound || (number >= mapped && !grow()))
        return 0;
    if (number / FRAMES_PER_HEAD >= n_heads)
        add_head();
    uint32_t *head = head_of(parent, return_address);
    stack_frames[number] = (struct stack_frame){return_address, parent, *head};
    *head = number;
    n_called[parent] += parent && n_called[parent] < FRAMES_CALLED;
    store_release(&stack_frames_end, number + 1);
    STATE_COPY(stack_frames[number]);
    STATE_COPY(stack_frames_end);
    STATE_COPY(stacks_stats);
    if (return_address < CODES_OWN_START)
        state_see_code(return_address);
    return number;
}

static uint32_t intern_one(uint32_t parent, uintptr_t return_address, uint32_t bound)
{
    uint32_t number = find_one(parent, return_address);
    return number ? number : make_one(parent, return_address, bound);
}

/* The stack that was interned last, from the outermost frame on. Two stacks in a row often have most frames in common. */
#define LAST_MOST 256u
static struct {
    uintptr_t return_address;
    uint32_t number;
} last[LAST_MOST];
static uint32_t n_last;

uint32_t frames_intern(const uintptr_t *return_addresses, uint32_t n, unsigned cut, bool is_short)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    uint32_t number = 0, depth = 0, bound = stacks_bound(max_frames, cut);
    is_short |= load_relaxed(&stack_frames_end) >= max_frames / 2;
    while (depth < n && depth < n_last && last[depth].return_address == return_addresses[n - 1 - depth])
        number = last[depth++].number;
    for (n_last = depth; depth < n; depth++) {
        uintptr_t return_address = return_addresses[n - 1 - depth];
        if (is_short && n_called[number] == FRAMES_CALLED && !find_one(number, return_address))
            return intern_one(number, CODES_CUT, bound);
        number = intern_one(number, return_address, bound);
        if (!number)
            return 0;
        if (depth < LAST_MOST) {
            last[depth].return_address = return_address;
            last[depth].number = number;
            n_last = depth + 1;
        }
    }
    return number;
}

bool frames_are_cut(uint32_t number)
{
    return stack_frames[number].return_address == CODES_CUT;
}
