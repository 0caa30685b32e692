/* SPDX-License-Identifier: BSD-2-Clause */
/* The changes of stacks. A stack is known by its context and its innermost frame, whose number never changes its meaning. A stack that
 * was recycled, and came again, begins anew: what was not told of it stays with its context. */
#include "period_stacks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "hash_index.h"

/* Its bytes are hashed, so it has no padding. */
struct stack_key {
    uint32_t id, generation; /* of the context */
    uint32_t frame;
};

struct figures {
    uint64_t alloc_objects, alloc_bytes, alloc_requested_bytes, free_objects, free_bytes;
};

struct stack_told {
    struct stack_key key;
    uint32_t row;
    struct figures sum; /* told since the program began; at first: what is to be told */
    uint64_t inuse_objects, inuse_bytes;
};

/* ---- What there is now ---- */

static bool is_stack(const void *list, uint32_t position, const void *key)
{
    return memcmp(&((const struct stack_told *)list)[position].key, key, sizeof(struct stack_key)) == 0;
}

static uint32_t hash_key(const struct stack_key *key)
{
    return hash_fold(hash_bytes(HASH_START, key, sizeof *key));
}

static void add(struct stack_told *to, const struct totals *t)
{
    to->sum.alloc_objects += t->alloc_objects;
    to->sum.alloc_bytes += t->alloc_bytes;
    to->sum.alloc_requested_bytes += t->alloc_requested_bytes;
    to->sum.free_objects += t->free_objects;
    to->sum.free_bytes += t->free_bytes;
    to->inuse_objects += totals_inuse_objects(t);
    to->inuse_bytes += totals_inuse_bytes(t);
}

/* A stack may be there several times: for several times in which it allocated. Returns how many different ones there are. */
static uint32_t gather(const struct snapshot *s, struct stack_told *now, struct hash_index *index)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_stacks; i++) {
        const struct snapshot_stack *stack = &s->stacks[i];
        if (stack->row >= s->n_rows)
            continue;
        struct stack_key key = {s->rows[stack->row].id, s->rows[stack->row].generation, stack->frame};
        uint32_t hash = hash_key(&key), found = hash_index_find(index, hash, is_stack, now, &key);
        if (found == HASH_INDEX_NONE) {
            found = n++;
            now[found] = (struct stack_told){.key = key, .row = stack->row};
            hash_index_add(index, hash, found); /* which has room */
        }
        add(&now[found], &stack->totals);
    }
    return n;
}

/* ---- What is new ---- */

/* Of a figure that went down, all is new: the stack came again. */
static struct figures new_since(const struct figures *before, const struct figures *now)
{
    if (now->alloc_objects < before->alloc_objects || now->alloc_bytes < before->alloc_bytes || now->free_objects < before->free_objects ||
        now->free_bytes < before->free_bytes || now->alloc_requested_bytes < before->alloc_requested_bytes)
        return *now;
    return (struct figures){now->alloc_objects - before->alloc_objects, now->alloc_bytes - before->alloc_bytes,
                            now->alloc_requested_bytes - before->alloc_requested_bytes, now->free_objects - before->free_objects,
                            now->free_bytes - before->free_bytes};
}

static uint64_t at_most(uint64_t n, uint64_t most)
{
    return n < most ? n : most;
}

/* What the stack has of its row, which has the rest. */
static struct totals part_of(const struct totals *row, const struct figures *more, const struct stack_told *now)
{
    struct totals t = {.alloc_objects = at_most(more->alloc_objects, row->alloc_objects),
                       .alloc_bytes = at_most(more->alloc_bytes, row->alloc_bytes),
                       .alloc_requested_bytes = at_most(more->alloc_requested_bytes, row->alloc_requested_bytes),
                       .free_objects = at_most(more->free_objects, row->free_objects),
                       .free_bytes = at_most(more->free_bytes, row->free_bytes)};
    t.credited_in_objects = at_most(now->inuse_objects, at_least_0(totals_inuse_objects(row))) + t.free_objects - t.alloc_objects;
    t.credited_in_bytes = at_most(now->inuse_bytes, at_least_0(totals_inuse_bytes(row))) + t.free_bytes - t.alloc_bytes;
    return t;
}

/* Its row may have less at this moment, since threads go on while they are counted. The next period has the rest. */
static void leave_rest(struct figures *sum, const struct figures *more, const struct totals *part)
{
    sum->alloc_objects -= more->alloc_objects - part->alloc_objects;
    sum->alloc_bytes -= more->alloc_bytes - part->alloc_bytes;
    sum->alloc_requested_bytes -= more->alloc_requested_bytes - part->alloc_requested_bytes;
    sum->free_objects -= more->free_objects - part->free_objects;
    sum->free_bytes -= more->free_bytes - part->free_bytes;
}

/* `before` has the index of what was told. Takes from the rows what stacks have, and then gives it back. Returns how many have anything. */
static uint32_t compare(const struct period_stacks *p, const struct hash_index *before, struct stack_told *now, uint32_t n,
                        struct snapshot_row *rows, struct snapshot_stack *list)
{
    static const struct totals none;
    static const struct figures nothing;
    uint32_t n_listed = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t found = hash_index_find(before, hash_key(&now[i].key), is_stack, p->told, &now[i].key);
        struct figures more = new_since(found != HASH_INDEX_NONE ? &p->told[found].sum : &nothing, &now[i].sum);
        struct totals part = part_of(&rows[now[i].row].totals, &more, &now[i]);
        leave_rest(&now[i].sum, &more, &part);
        if (memcmp(&part, &none, sizeof part) == 0)
            continue;
        totals_subtract(&rows[now[i].row].totals, &part);
        list[n_listed++] = (struct snapshot_stack){.row = now[i].row, .frame = now[i].key.frame, .totals = part};
    }
    for (uint32_t i = 0; i < n_listed; i++)
        totals_add(&rows[list[i].row].totals, &list[i].totals);
    return n_listed;
}

int64_t period_stacks_next(struct period_stacks *p, const struct snapshot *s, struct snapshot_row *rows, struct snapshot_stack **list)
{
    struct hash_index before = {0}, index = {0};
    struct stack_told *now = malloc((s->n_stacks + (size_t)1) * sizeof *now);
    *list = malloc((s->n_stacks + (size_t)1) * sizeof **list);
    int error = !now || !*list || hash_index_reserve(&before, p->n) || hash_index_reserve(&index, s->n_stacks) ? -ENOMEM : 0;
    uint32_t n = 0, n_listed = 0;
    if (error == 0) {
        for (uint32_t i = 0; i < p->n; i++)
            hash_index_add(&before, hash_key(&p->told[i].key), i); /* which has room */
        n = gather(s, now, &index);
        n_listed = compare(p, &before, now, n, rows, *list);
        period_stacks_free(p);
        *p = (struct period_stacks){now, n};
    }
    hash_index_free(&before);
    hash_index_free(&index);
    if (error == 0)
        return n_listed;
    free(now);
    free(*list);
    *list = NULL;
    return error;
}

void period_stacks_free(struct period_stacks *p)
{
    free(p->told);
    *p = (struct period_stacks){0};
}
