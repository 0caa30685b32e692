/* SPDX-License-Identifier: BSD-2-Clause */
/* The span arena and the limit of a context: answers to the tree's questions (span/context_policy.h), and the list of
 * contexts that share an arena. Everything here is under LOCK_TREE, except policy_has_own_arena() and
 * policy_settle(). */
#include "span/context_policy.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/die.h"
#include "base/lock.h"
#include "heap/sums.h"
#include "policy/arenas.h"
#include "policy/limits.h"
#include "span/tree.h"

/* The root and jespan's own contexts have no arena, even where a pattern of the configuration fits their names. */
static uint16_t arena_of(enum context_kind kind, const struct site *site, const struct label_set *labels, uint16_t above)
{
    if (tree_is_part(kind))
        return arenas_share(above);
    return kind == CONTEXT_SPAN || kind == CONTEXT_THREAD ? arenas_join(site, labels, above) : 0;
}

static void join_arena(uint32_t id, uint16_t arena)
{
    struct context *c = &contexts[id];
    store_relaxed(&context_heads[id].arena, arena);
    c->arena_before = 0;
    c->arena_next = arena ? arenas[arena].first_context : 0;
    if (c->arena_next)
        contexts[c->arena_next].arena_before = id;
    if (arena)
        arenas[arena].first_context = id;
}

static void leave_arena(uint32_t id)
{
    struct context *c = &contexts[id];
    uint16_t arena = load_relaxed(&context_heads[id].arena);
    if (!arena)
        return;
    if (c->arena_next)
        contexts[c->arena_next].arena_before = c->arena_before;
    if (c->arena_before)
        contexts[c->arena_before].arena_next = c->arena_next;
    else
        arenas[arena].first_context = c->arena_next;
    store_relaxed(&context_heads[id].arena, 0);
    arenas_leave(arena);
}

/* Below a context that lost its arena, one that shares an arena with that is as it. */
static bool shares_a_loss(const struct context *c)
{
    return load_relaxed(&contexts[c->parent].lost_arena) &&
           (tree_is_part(c->kind) || !(c->site->arena.flags & (JESPAN_ARENA | JESPAN_ARENA_NONE)));
}

void policy_context_made(uint32_t id)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    struct context *c = &contexts[id];
    uint16_t above = load_relaxed(&context_heads[c->parent].arena);
    if (unlikely(above || c->site->arena.flags)) {
        join_arena(id, arena_of(c->kind, c->site, c->labels, above));
    } else {
        store_relaxed(&context_heads[id].arena, 0);
        c->arena_next = c->arena_before = 0;
    }
    store_relaxed(&c->lost_arena, shares_a_loss(c));
    limits_join(id);
}

void policy_context_freed(uint32_t id)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    leave_arena(id);
    limits_leave(id);
}

void policy_arena_refused(void)
{
    arenas_count_refused();
}

void policy_recycling_begins(void)
{
    limits_begin_recycling();
}

void policy_recycling_ends(void)
{
    limits_end_recycling();
}

bool policy_has_own_arena(uint32_t id)
{
    const struct context *c = &contexts[id];
    uint16_t arena = load_relaxed(&context_heads[id].arena);
    return arena && arenas[arena].site == c->site;
}

void policy_settle(struct thread *t)
{
    limits_settle(t);
}

/* ---- Arenas that no open span needs ---- */

/* No span is open in the context and no thread is inside it. arenas.c checks whether objects are left in the arena. */
static bool is_left(uint32_t id)
{
    struct totals sum = {0};
    if (!contexts[id].open_spans)
        sum = sums_of(id);
    return !contexts[id].open_spans && sum.enters == sum.exits;
}

static bool are_left(const struct span_arena *a)
{
    uint32_t id = a->first_context;
    while (id && is_left(id))
        id = contexts[id].arena_next;
    return !id;
}

static void want_only_what_is_left(void)
{
    for (uint32_t i = 1; i < arenas_end(); i++)
        arenas[i].wanted = arenas[i].wanted && are_left(&arenas[i]);
}

/* A thread counts that it enters, and reads the generation after that. So either it sees the change, or its enter is
 * seen here. */
static bool change_generations(void)
{
    bool any = false;
    for (uint32_t i = 1; i < arenas_end(); i++)
        for (uint32_t id = arenas[i].wanted ? arenas[i].first_context : 0; id; id = contexts[id].arena_next) {
            store_relaxed(&context_heads[id].generation, load_relaxed(&context_heads[id].generation) + 2);
            any = true;
        }
    return any;
}

static bool take_arenas(void)
{
    bool any = false;
    for (uint32_t i = 1; i < arenas_end(); i++) {
        any |= arenas[i].wanted;
        while (arenas[i].wanted && arenas[i].first_context) {
            uint32_t id = arenas[i].first_context;
            leave_arena(id);
            store_relaxed(&contexts[id].lost_arena, true);
        }
    }
    return any;
}

static void show_generations(void)
{
    if (tree_lockless)
        syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

COLD bool arenas_take_from_contexts(void)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    int saved = errno;
    want_only_what_is_left();
    if (change_generations())
        show_generations();
    want_only_what_is_left();
    errno = saved;
    return take_arenas();
}

/* ---- An arena for a context that lost its own ---- */

/* Threads may have cached that the context and its stacks have no arena. True: no thread is inside, and none gets inside
 * without LOCK_TREE. */
static bool forget_and_look(uint32_t id)
{
    int saved = errno;
    tree_forget(id);
    for (uint32_t stack = contexts[id].first_stack; stack; stack = contexts[stack].stack_next)
        tree_forget(stack);
    show_generations();
    errno = saved;
    return is_left(id);
}

/* Spans that are open would not notice: their handles, and the threads inside, know that there is no allocation policy. */
COLD void policy_arena_again(uint32_t id)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    struct context *c = &contexts[id];
    if (!is_left(id))
        return;
    c->open_spans++; /* so that looking for an arena does not take arenas from this context's parent */
    uint16_t arena = arena_of(c->kind, c->site, c->labels, load_relaxed(&context_heads[c->parent].arena));
    c->open_spans--;
    if (!arena)
        return;
    if (!forget_and_look(id)) {
        arenas_leave(arena);
        return;
    }
    store_relaxed(&c->lost_arena, false);
    join_arena(id, arena);
}
