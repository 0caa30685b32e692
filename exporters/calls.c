/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that allocated, as rows of a snapshot below those of their contexts. What was allocated there is taken from the row of its
 * context, so all sums stay as they are. calls_names.c gives them names. */
#include "calls.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "stacks/codes.h"
#include "stacks/stacks.h"

#define MOST_CALLS 20000u /* of all stacks; deeper calls of smaller stacks count for the calls above them */

static bool is_call(const void *owner, uint32_t position, const void *key)
{
    return memcmp(&((const struct calls *)owner)->keys[position], key, sizeof(struct call_key)) == 0;
}

static bool grow(struct calls *c)
{
    uint32_t room = c->room ? 2 * c->room : 256;
    struct snapshot_row *rows = realloc(c->rows, ((size_t)c->n_contexts + room) * sizeof *rows);
    c->rows = rows ? rows : c->rows;
    struct call_key *keys = rows ? realloc(c->keys, room * sizeof *keys) : NULL;
    c->keys = keys ? keys : c->keys;
    char(*names)[CALL_NAME_BYTES] = keys ? realloc(c->names, room * sizeof *names) : NULL;
    c->names = names ? names : c->names;
    c->room = names ? room : c->room;
    return names;
}

/* "libx.so+0x1234": the offset in the file, of the call and not of the return. */
static void name_call(struct calls *c, struct snapshot_row *row, char name[CALL_NAME_BYTES], uint64_t address)
{
    const struct code_map *map = code_maps_find(&c->maps, address);
    const char *slash = map ? strrchr(map->file, '/') : NULL;
    if (map)
        snprintf(name, CALL_NAME_BYTES, "%.50s+0x%" PRIx64, slash ? slash + 1 : map->file, address - map->start + map->offset);
    else if (address == CODES_CUT - 1)
        strcpy(name, CODES_CUT_NAME);
    else
        snprintf(name, CALL_NAME_BYTES, "0x%" PRIx64, address);
    row->target = map ? map->file : "";
}

/* Returns the row of a call, which is made below `parent` if there is none. The parent again: there is no room. */
static uint32_t find_call(struct calls *c, uint32_t context, uint32_t frame, uint32_t parent)
{
    struct call_key key = {context, frame};
    uint32_t hash = hash_fold(hash_bytes(HASH_START, &key, sizeof key)), found = hash_index_find(&c->index, hash, is_call, c, &key);
    if (found != HASH_INDEX_NONE)
        return c->n_contexts + found;
    if (c->n == MOST_CALLS || (c->n == c->room && !grow(c)) || hash_index_add(&c->index, hash, c->n))
        return parent;
    struct snapshot_row *row = &c->rows[c->n_contexts + c->n];
    uint32_t id = snapshot_ids_end(&c->shown) + c->n;
    *row = (struct snapshot_row){.id = id, .parent_row = parent, .kind = CONTEXT_STACK, .file = ""};
    c->keys[c->n] = key;
    name_call(c, row, c->names[c->n], c->shown.frames[frame].return_address - 1);
    return c->n_contexts + c->n++;
}

static void add_stack(struct calls *c, const struct snapshot_stack *stack)
{
    uint32_t frames[PPROF_MAX_STACK_FRAMES], n = 0, at = stack->row, before;
    for (uint32_t f = stack->frame; f && f < c->shown.n_frames && n < PPROF_MAX_STACK_FRAMES; f = c->shown.frames[f].parent)
        frames[n++] = f;
    do {
        before = at;
        at = n > 0 ? find_call(c, stack->row, frames[--n], at) : at;
    } while (at != before && n > 0);
    totals_subtract(&c->rows[stack->row].totals, &stack->totals);
    totals_add(&c->rows[at].totals, &stack->totals);
}

/* Those with most in use first, then those that allocated most. */
static int compare(const void *a, const void *b)
{
    const struct snapshot_stack *x = *(const struct snapshot_stack *const *)a, *y = *(const struct snapshot_stack *const *)b;
    uint64_t u = totals_inuse_bytes(&x->totals), v = totals_inuse_bytes(&y->totals);
    if (u == v) {
        u = x->totals.alloc_bytes;
        v = y->totals.alloc_bytes;
    }
    return u != v ? (u < v ? 1 : -1) : (x > y) - (x < y);
}

static bool add_stacks(struct calls *c, const struct snapshot *s)
{
    const struct snapshot_stack **order = calloc(s->n_stacks + (size_t)1, sizeof *order);
    bool done = order && grow(c);
    if (done)
        memcpy(c->rows, s->rows, s->n_rows * sizeof *c->rows);
    for (uint32_t i = 0; i < s->n_stacks && done; i++)
        order[i] = &s->stacks[i];
    if (done && s->n_stacks)
        qsort(order, s->n_stacks, sizeof *order, compare);
    for (uint32_t i = 0; i < s->n_stacks && done; i++)
        if (order[i]->row < c->n_contexts)
            add_stack(c, order[i]);
    for (uint32_t i = 0; i < c->n && done; i++)
        c->rows[c->n_contexts + i].name = c->names[i];
    free(order);
    return done;
}

bool calls_make(struct calls *c, const struct snapshot *s)
{
    *c = (struct calls){.shown = *s, .n_contexts = s->n_rows};
    code_maps_read(&c->maps, s, NULL);
    return s->n_rows > 0 && add_stacks(c, s);
}

void calls_free(struct calls *c)
{
    calls_end_names(c);
    free(c->asked);
    free(c->binaries);
    code_maps_free(&c->maps);
    hash_index_free(&c->index);
    free(c->rows);
    free(c->keys);
    free(c->names);
}
