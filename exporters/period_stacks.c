/* SPDX-License-Identifier: BSD-2-Clause */
/* The changes of stacks. A stack is known by its context and its innermost frame, whose number never changes its meaning. A stack that
 * was recycled, and came again, begins anew: what was not told of it stays with its context. */
#include "period_stacks.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/number.h"
#include "hash_index.h"

/* Its bytes are hashed, so it has no padding. */
struct stack_key {
    uint32_t id, generation; /* of the context */
    uint32_t frame;
};

/* What only grows while the stack is there: the first members of struct totals. */
enum { FIGURES = 5 };
_Static_assert(offsetof(struct totals, free_bytes) == (FIGURES - 1) * sizeof(uint64_t), "allocations and frees are the first members");

struct stack_told {
    struct stack_key key;
    uint32_t row;
    uint64_t sum[FIGURES]; /* told of the stack so far; at first: what it has now */
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
    for (int i = 0; i < FIGURES; i++)
        to->sum[i] += ((const uint64_t *)t)[i];
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

/* False: a figure went down, so the stack was recycled and came again. */
static bool has_stayed(const uint64_t before[FIGURES], const uint64_t now[FIGURES])
{
    for (int i = 0; i < FIGURES; i++)
        if (now[i] < before[i])
            return false;
    return true;
}

/* Tells what is new, and returns it. The row may have less at this moment, since threads go on while they are counted. Then the next
 * period has the rest. */
static struct totals tell(struct stack_told *now, const uint64_t before[FIGURES], const struct totals *row)
{
    struct totals part = {0};
    uint64_t *more = (uint64_t *)&part;
    const uint64_t *most = (const uint64_t *)row;
    for (int i = 0; i < FIGURES; i++) {
        more[i] = lesser(now->sum[i] - before[i], most[i]);
        now->sum[i] = before[i] + more[i];
    }
    part.credited_in_objects = lesser(now->inuse_objects, at_least_0(totals_inuse_objects(row))) + part.free_objects - part.alloc_objects;
    part.credited_in_bytes = lesser(now->inuse_bytes, at_least_0(totals_inuse_bytes(row))) + part.free_bytes - part.alloc_bytes;
    return part;
}

/* `before` has the index of what was told. Takes from the rows what stacks have, and then gives it back. Returns how many have anything. */
static uint32_t compare(const struct period_stacks *p, const struct hash_index *before, struct stack_told *now, uint32_t n,
                        struct snapshot_row *rows, struct snapshot_stack *list)
{
    static const uint64_t nothing[FIGURES];
    uint32_t n_listed = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t found = hash_index_find(before, hash_key(&now[i].key), is_stack, p->told, &now[i].key);
        bool is_known = found != HASH_INDEX_NONE && has_stayed(p->told[found].sum, now[i].sum);
        struct totals part = tell(&now[i], is_known ? p->told[found].sum : nothing, &rows[now[i].row].totals);
        if (!totals_any(&part))
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
