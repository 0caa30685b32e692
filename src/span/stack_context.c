/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks as contexts. */
#include "span/stack_context.h"

#include <errno.h>

#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "conf/conf.h"
#include "heap/counters.h"
#include "span/span.h"
#include "span/stack_code.h"
#include "span/stack_find.h"
#include "span/stack_mode.h"
#include "span/tree.h"
#include "stacks/codes.h"
#include "stacks/objects.h"
#include "stacks/stack_lines.h"
#include "stacks/stacks.h"
#include "stacks/unwind.h"

#define RETRY_AFTER 1024u

#define USELESS_MOST 64u
#define REST_FIRST 1024u
#define REST_MOST 65536u
#define BOUNDS_TRIES 8

/* ---- A stack that is not in the cache ---- */

#define CUTS_MOST 6u

/* How many frames are left out: an eighth, a quarter, a half, three quarters, seven eighths, all but one. One stays in any case. */
static uint32_t n_cut(uint32_t n, unsigned cut)
{
    uint32_t part = !cut ? 0 : cut <= 3 ? n >> (4 - cut) : n - (n >> (cut - 2));
    if (cut && !part)
        part = 1;
    return part < n && cut < CUTS_MOST ? part : n - 1;
}

/* Leaves out innermost frames, and has one stand for them. There are few stacks that end at a frame that calls many. */
static uint32_t intern_cut(struct thread_stacks *s, uint32_t parent, unsigned cut)
{
    uint32_t first = n_cut(s->walk.n, cut);
    if (first)
        s->walk.frames[--first] = CODES_CUT;
    uint32_t stack = frames_intern(s->walk.frames + first, s->walk.n - first, cut, tree_is_short_of_stacks());
    return stack ? tree_intern_stack(parent, stack | s->sampled, !cut && frames_are_cut(stack) ? CUTS_MOST : cut) : 0;
}

/* Under LOCK_TREE. Returns the child, entered; or 0. When numbers run short, the child is one of a shorter stack, which others share. */
static uint32_t intern(struct thread *t, struct thread_stacks *s, uint32_t parent, struct counters **counters)
{
    stack_code_translate(s->walk.frames, s->walk.n);
    uint32_t id = intern_cut(s, parent, 0);
    for (unsigned cut = 1; !id && cut <= CUTS_MOST; cut++)
        id = intern_cut(s, parent, cut);
    if (id && frames_are_cut(contexts[id].stack & ~STACK_SAMPLED))
        stacks_count(&stacks_stats.cut);
    *counters = id ? span_count_enter(t, id) : NULL;
    return *counters ? id : 0;
}

static COLD void miss(struct thread *t, struct thread_stacks *s, uint32_t parent, struct stack_line *line, uint64_t key,
                      struct stack_hold *hold)
{
    if (!lock_if_possible(LOCK_TREE)) {
        stacks_count(&stacks_stats.missed);
        return;
    }
    struct counters *counters;
    uint32_t id = intern(t, s, parent, &counters);
    uint32_t generation = id ? load_relaxed(&context_heads[id].generation) : RETRY_AFTER;
    unlock(LOCK_TREE);
    if (s->walk.ends_early && id)
        stacks_count(&stacks_stats.ended_early);
    if (!id)
        stacks_count(&stacks_stats.overflow);
    if (line)
        *line = (struct stack_line){key, id, generation};
    hold->stack = id;
    hold->counters = counters;
}

/* ---- Allocations ---- */

static inline bool is_outside(const struct stack_bounds *bounds, uintptr_t sp)
{
    return sp - bounds->low >= bounds->high - bounds->low;
}

static COLD void find_bounds(struct thread_stacks *s, uintptr_t sp)
{
    if (s->walk.bounds.is_whole || s->bounds_tries >= BOUNDS_TRIES)
        return;
    stack_bounds_find(&s->walk.bounds, sp);
    s->bounds_tries += is_outside(&s->walk.bounds, sp);
}

static inline void walk_stack(struct thread_stacks *s, const void *frame)
{
    if (unlikely(is_outside(&s->walk.bounds, (uintptr_t)frame)))
        find_bounds(s, (uintptr_t)frame);
    unwind_from(&s->walk, frame, (uint32_t)conf.stacks_depth);
}

static inline uint64_t base_of(const struct thread_stacks *s, uint32_t parent)
{
    return (uint64_t)parent << 32 ^ load_relaxed(&context_heads[parent].generation) ^ s->sampled;
}

/* Of the words that stand there now. */
static inline uint64_t layout_key(const struct thread_stacks *s, uint32_t parent, const struct layout *l)
{
    return lines_key(layout_hash(l) ^ (l->id << 32 | l->id >> 32), base_of(s, parent));
}

static inline bool hold_entered(struct stack_hold *hold, struct stack_entered entered)
{
    if (unlikely(!entered.counters))
        return false;
    hold->stack = entered.tag;
    hold->counters = entered.counters;
    return true;
}

static inline bool use_child(struct thread *t, const struct stack_line *line, struct counters *counters, struct stack_hold *hold)
{
    return hold_entered(hold, stack_enter_line(t, line, counters));
}

/* Returns true if the line decides which context the allocation is credited to, and stores the context in *hold. */
static inline bool use_line(struct thread *t, struct stack_line *line, struct stack_hold *hold)
{
    if (unlikely(!line))
        return false;
    if (likely(line->context))
        return use_child(t, line, counters_find(t, line->context), hold);
    if (!line->generation)
        return false;
    line->generation--;
    stacks_count(&stacks_stats.overflow);
    return true;
}

static uint32_t depth_of(uint32_t stack)
{
    uint32_t n = 0;
    for (; stack; stack = stack_frames[stack].parent)
        n++;
    return n;
}

bool stack_is_of(struct thread_stacks *s, const void *frame, uint32_t context)
{
    uint32_t n = 0, stack = contexts[context].stack & ~STACK_SAMPLED;
    walk_stack(s, frame);
    if (frames_are_cut(stack)) {
        stack = stack_frames[stack].parent;
        n = s->walk.n - depth_of(stack);
    }
    for (; stack && n < s->walk.n; stack = stack_frames[stack].parent, n++) {
        uint64_t address = stack_frames[stack].return_address;
        if (address != s->walk.frames[n] && address < CODES_OWN_START) /* from there on are those of code that took another one's place */
            return false;
    }
    return !stack && n == s->walk.n;
}

/* A line without a child is not kept: its count would have two places. */
static inline void keep_last(struct layout *l, uint32_t parent, uint64_t key, const struct stack_line *line, struct counters *counters)
{
    l->last = (struct stack_line){key, line->context, line->generation};
    l->last_counters = counters;
    l->last_parent = line->context ? parent : 0;
}

/* ---- Without a walk ---- */

/* Other stacks may have the same layout. If one of them comes twice in a row, the layout keeps its words. */
static void note_other(struct layout *l, uint32_t parent, uint64_t key, const struct stack_line *line, struct counters *counters)
{
    uint8_t mark = (uint8_t)(1 + line->context % UINT8_MAX);
    if (l->other == mark) {
        layout_keep_words(l);
        keep_last(l, parent, key, line, counters);
    } else {
        l->other = mark;
    }
}

/* By the hash of the words that stand there now. */
static struct stack_entered enter_by_layout(struct thread *t, struct thread_stacks *s, struct layout *l, uint32_t parent)
{
    uint64_t key = layout_key(s, parent, l);
    struct stack_line *line = lines_find(&s->lines, key);
    struct stack_entered entered = {NULL, 0};
    if (likely(line))
        entered = stack_enter_line(t, line, counters_find(t, line->context));
    if (likely(entered.counters))
        note_other(l, parent | s->sampled, key, line, entered.counters);
    return entered;
}

static NOINLINE struct stack_entered enter_by_layouts(struct thread *t, struct thread_stacks *s, const void *frame, uint32_t parent)
{
    uintptr_t begin = (uintptr_t)frame, pc = ((const uintptr_t *)frame)[1];
    struct stack_entered entered = {NULL, 0};
    struct layout *l = layouts_set(s->layouts, begin, pc);
    s->tried = 0;
    for (uint32_t i = 0; i < LAYOUT_WAYS && !entered.counters; i++, l++) {
        if (l->begin != begin || l->pc != pc)
            continue;
        entered = enter_by_layout(t, s, l, parent);
        s->tried += !entered.counters;
    }
    s->useless -= entered.counters && s->useless;
    return entered;
}

struct stack_entered stack_enter_by_layouts(struct thread *t, struct thread_stacks *s, const void *frame, uint32_t parent)
{
    s->sampled = 0;
    return enter_by_layouts(t, s, frame, parent);
}

__attribute__((no_sanitize("address", "thread"), always_inline))
static inline bool find_by_layout(struct thread *t, struct thread_stacks *s, const void *frame, uint32_t parent,
                                  struct stack_hold *hold)
{
    if (unlikely(s->rest)) {
        s->tried = 0;
        s->rest--;
        return false;
    }
    if (unlikely(!s->layouts) || s->looked)
        return false;
    const struct layout *l = stack_find_last(s, frame, parent | s->sampled);
    if (l && likely(use_child(t, &l->last, l->last_counters, hold)))
        return true;
    return hold_entered(hold, enter_by_layouts(t, s, frame, parent));
}

/* A second line, by which the layout leads to what a walk found. */
static void add_layout_line(struct thread_stacks *s, const struct stack_line *found)
{
    if (!found->context)
        return;
    struct stack_line *line = lines_find(&s->lines, found->key);
    if (!line)
        line = lines_add(&s->lines, found->key);
    if (line)
        *line = *found;
}

/* False: no memory. */
static COLD bool make_trail(struct thread_stacks *s)
{
    if (!s->trail && (s->trail = meta_map(sizeof *s->trail)))
        trail_clear(s->trail);
    return s->trail;
}

/* Keeps the layout of the walk. Pauses for some allocations if layouts are of no use, and longer each time. */
static void keep_layout(struct thread_stacks *s, uint32_t parent, const struct stack_line *line, struct counters *counters)
{
    if (s->rest || !s->walk.has_layout)
        return;
    s->useless += s->tried + 1;
    if (s->useless > USELESS_MOST && make_trail(s)) {
        s->useless = USELESS_MOST / 2;
        s->rested = s->rested ? s->rested : REST_FIRST / 2;
        s->rest = s->rested = s->rested < REST_MOST ? 2 * s->rested : REST_MOST;
        return;
    }
    if (!s->useless)
        s->rested = 0;
    if (unlikely(!s->layouts) && !(s->layouts = meta_map(sizeof *s->layouts)))
        return;
    struct layout *l = layouts_place(s->layouts, s->walk.notes.begin, s->walk.notes.pc);
    layout_make(l, &s->walk.notes);
    keep_last(l, parent | s->sampled, layout_key(s, parent, l), line, counters);
    add_layout_line(s, &l->last);
}

/* ---- With a walk ---- */

/* The line of a stack of usual frames. NULL: it is not in the cache, or has other frames. */
HOT_INLINE struct stack_line *find_by_hash(const struct thread_stacks *s, const void *frame, uint32_t parent)
{
    uint64_t hash, base = base_of(s, parent);
    s->trail->look = (struct lines_look){s->lines.all, s->lines.mask, base};
    bool is_usual = unwind_hash(&s->walk.bounds, frame, (uint32_t)conf.stacks_depth, s->trail, &hash);
    return likely(is_usual) ? lines_find(&s->lines, lines_key(hash, base)) : NULL;
}

struct stack_entered stack_enter_by_hash(struct thread *t, struct thread_stacks *s, const void *frame, uint32_t parent)
{
    s->sampled = 0;
    struct stack_line *line = find_by_hash(s, frame, parent);
    if (unlikely(!line) || unlikely(!line->context))
        return (struct stack_entered){NULL, 0};
    struct stack_entered entered = stack_enter_line(t, line, counters_find(t, line->context));
    s->rest -= entered.counters != NULL;
    return entered;
}

/* Walks the stack, finds or makes its context, and enters that. Stores the context in *hold. */
static NOINLINE void find_by_walk(struct thread *t, struct thread_stacks *s, const void *frame, uint32_t parent, struct stack_hold *hold)
{
    if (s->rest && !s->looked && likely(use_line(t, find_by_hash(s, frame, parent), hold)))
        return;
    if (s->trail)
        trail_clear(s->trail); /* it may lead through code that is no longer there */
    walk_stack(s, frame);
    if (unlikely(!s->lines.all))
        lines_grow(&s->lines);
    uint64_t key = lines_key(s->walk.hash, base_of(s, parent));
    struct stack_line *line = lines_find(&s->lines, key);
    if (likely(use_line(t, line, hold))) {
        keep_layout(s, parent, line, hold->counters);
        return;
    }
    bool is_linker = s->walk.n && object_is_linker(s->walk.frames[0]);
    if (unlikely(is_linker) && !object_is_linker(((const uintptr_t *)frame)[1]))
        stack_code_look(); /* the caller of malloc was not known before: a build where malloc does not jump */
    if (!line && !is_linker)
        line = lines_add(&s->lines, key);
    if (unlikely(!unwind_check(&s->walk, load_acquire(&stack_code_loads)))) {
        walk_stack(s, frame);
        line = NULL;
    }
    if (s->walk.n)
        miss(t, s, parent, line, key, hold);
}

static inline bool is_taken(struct thread *t, struct thread_stacks *s, size_t bytes)
{
    s->sampled = 0;
    if (load_relaxed(&stacks_mode) == STACKS_SAMPLED) {
        if (stack_context_passes(t, bytes))
            return false;
        stack_thread_draw(t, s);
        s->sampled = STACK_SAMPLED;
    }
    return bytes >= load_relaxed(&stacks_min_bytes);
}

__attribute__((no_sanitize("address", "thread"))) /* it reads the stack itself: layout_is_same() */
void stack_context_enter(struct thread *t, const void *frame, size_t bytes, struct stack_hold *hold)
{
    struct thread_stacks *s = t->stacks;
    hold->stack = 0;
    hold->is_sample = false;
    if (unlikely(object_is_linker(((const uintptr_t *)frame)[1])))
        stack_code_look();
    if (unlikely(s->busy)) {
        stacks_count(&stacks_stats.missed);
        return;
    }
    if (!is_taken(t, s, bytes))
        return;
    uint32_t parent = tree_without_stack(t->tag); /* a signal handler may have interrupted an allocation */
    if (!stack_mode_covers(parent))
        return;
    s->busy = true;
    compiler_barrier();
    bool found = find_by_layout(t, s, frame, parent, hold);
    if (!likely(found))
        find_by_walk(t, s, frame, parent, hold);
    s->looked = false;
    jespan_assert(!hold->stack || stack_is_of(s, frame, hold->stack));
    if (likely(hold->stack)) {
        hold->is_sample = s->sampled;
        stack_context_hold(t, hold);
    }
    compiler_barrier();
    s->busy = false;
}

/* The allocation may have changed the thread's context: it may have found that the thread was renamed. */
void stack_context_leave(struct thread *t, const struct stack_hold *hold)
{
    if (!hold->stack)
        return;
    if (likely(t->tag == hold->stack)) {
        t->tag = hold->tag;
        t->current = hold->current;
    }
    span_undo_enter(hold->counters); /* these enters are not part of the figures */
}
