/* SPDX-License-Identifier: BSD-2-Clause */
/* What a thread remembers of stacks, and the quick way to the context of a stack that it has just seen. stack_context.c has
 * all other ways. */
#ifndef JESPAN_STACK_FIND_H
#define JESPAN_STACK_FIND_H

#include <stdbool.h>
#include <stdint.h>

#include "base/die.h"
#include "heap/counters.h"
#include "span/span.h"
#include "span/stack_mode.h"
#include "span/tree.h"
#include "stacks/layouts.h"
#include "stacks/stacks.h"
#include "stacks/unwind.h"

struct thread_stacks {
    bool busy; /* inside a search: a signal handler may have interrupted it */
    bool looked;      /* stack_enter_known() has looked for the present allocation, in vain. So no layout leads to it */
    uint32_t sampled; /* STACK_SAMPLED where the present allocation is a sample, else 0 */
    struct layouts *layouts;
    uint32_t tried;   /* layouts that led to no line, for the present allocation */
    uint32_t useless; /* the same and 1 more for each stack that a walk then found in the cache, less layouts that led to a line */
    uint32_t rest;    /* this many allocations do not look at layouts, since layouts were of no use */
    uint32_t rested;  /* how long the rest before was; 0: layouts have been of use since */
    struct trail *trail; /* while layouts rest, and after that */
    struct stack_lines lines;
    uint32_t bounds_tries;
    uint64_t random;
    struct unwind walk;
};

/* stack_thread.c: the thread's next sample. */
void stack_thread_draw(struct thread *t, struct thread_stacks *s);

/* Counts the enter before it checks that the child was not recycled: tree.h. Where membarrier(2) is missing, returns
 * false: the caller then locks the tree. */
HOT_INLINE bool stack_enter_cached(struct thread *t, const struct stack_line *line, struct counters *counters)
{
    if (unlikely(!tree_has_membarrier))
        return false;
    own_add(&counters->enters, 1);
    counters_moved(t, line->context);
    compiler_barrier();
    if (likely(load_relaxed(&context_heads[line->context].generation) == line->generation))
        return true;
    span_undo_enter(counters);
    return false;
}

/* Whether the layout has the present stack, in that context. */
__attribute__((no_sanitize("address", "thread"), always_inline))
static inline bool stack_is_last(const struct layout *l, uintptr_t begin, uintptr_t pc, uint32_t parent)
{
    return likely(l->begin == begin) && likely(l->pc == pc) && likely(l->last_parent == parent) && likely(layout_is_same(l));
}

/* The layout that has the present stack below `parent`. NULL: none has it. */
__attribute__((no_sanitize("address", "thread"), always_inline))
static inline struct layout *stack_find_last(const struct thread_stacks *s, const void *frame, uint32_t parent)
{
    uintptr_t begin = (uintptr_t)frame, pc = ((const uintptr_t *)frame)[1];
    if (unlikely(!s->layouts))
        return NULL;
    struct layout *l = layouts_set(s->layouts, begin, pc);
    for (uint32_t i = 0; i < LAYOUT_WAYS; i++, l++)
        if (likely(stack_is_last(l, begin, pc, parent)))
            return l;
    return NULL;
}

/* A child that was entered. */
struct stack_entered {
    struct counters *counters; /* NULL: none */
    uint32_t tag;
};

HOT_INLINE struct stack_entered stack_enter_line(struct thread *t, const struct stack_line *line, struct counters *counters)
{
    bool is_entered = likely(counters) && likely(stack_enter_cached(t, line, counters));
    return (struct stack_entered){likely(is_entered) ? counters : NULL, line->context};
}

/* The same by the layouts of other stacks that began at the same place. */
struct stack_entered stack_enter_by_layouts(struct thread *t, struct thread_stacks *s, const void *frame, uint32_t parent);

/* The same by a walk that only hashes, where layouts are of no use. */
struct stack_entered stack_enter_by_hash(struct thread *t, struct thread_stacks *s, const void *frame, uint32_t parent);

/* For builds with assertions: whether a walk by rules finds the stack of the context. Changes s->walk. */
bool stack_is_of(struct thread_stacks *s, const void *frame, uint32_t context);

/* For a thread that takes all stacks and has no policy: enters the child for the present stack, if it is known. If not, call
 * stack_context_enter(). After the allocation, call span_undo_enter(). */
__attribute__((no_sanitize("address", "thread"), always_inline))
static inline struct stack_entered stack_enter_known(struct thread *t, const void *frame, size_t bytes)
{
    struct thread_stacks *s = t->stacks;
    struct stack_entered entered = {NULL, 0};
    uint32_t parent = t->tag;
    if (unlikely(s->busy) || unlikely(bytes < load_relaxed(&stacks_min_bytes)) ||
        unlikely(load_relaxed(&contexts[parent].stacks_for) != load_relaxed(&stack_mode_taken)))
        return entered;
    s->busy = true;
    compiler_barrier();
    if (unlikely(s->rest)) {
        entered = stack_enter_by_hash(t, s, frame, parent);
    } else {
        struct layout *l = stack_find_last(s, frame, parent);
        if (likely(l)) {
            entered = stack_enter_line(t, &l->last, l->last_counters);
            l->other = 0;
            s->useless -= s->useless != 0;
        } else if (likely(s->layouts)) {
            entered = stack_enter_by_layouts(t, s, frame, parent);
        }
    }
    s->looked = !entered.counters;
    jespan_assert(s->looked || stack_is_of(s, frame, entered.tag));
    compiler_barrier();
    s->busy = false;
    return entered;
}

#endif
