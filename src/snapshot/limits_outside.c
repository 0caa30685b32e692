/* SPDX-License-Identifier: BSD-2-Clause */
/* The limits of another process. They are copied a chunk at a time. */
#include "snapshot/limits_outside.h"

#include <errno.h>
#include <stdlib.h>

#include "snapshot/names_outside_parts.h"

#define PER_CHUNK (1u << LIMITS_PER_CHUNK_BITS)
#define CHUNKS ((LIMITS_MAX >> LIMITS_PER_CHUNK_BITS) + 1)

/* A limit without bounds stands for none, as limit 0 does. */
static void tell(const struct limit *l, const struct snapshot *s, limits_outside_found *found, void *to)
{
    uint32_t context = load_relaxed(&l->context);
    const struct snapshot_row *row = context ? snapshot_find(s, context) : NULL;
    const struct limit_outside limit = {row ? (uint32_t)(row - s->rows) : 0, load_relaxed(&l->soft), load_relaxed(&l->hard),
                                        load_relaxed(&l->refusals)};
    if (row && (limit.soft_bytes || limit.hard_bytes))
        found(to, &limit);
}

int limits_outside_list(struct view *view, const struct snapshot *s, limits_outside_found *found, void *to)
{
    uint64_t chunks[CHUNKS];
    struct limit *limits = aligned_alloc(_Alignof(struct limit), PER_CHUNK * sizeof *limits);
    if (!limits)
        return -ENOMEM;
    int error = names_outside_copy(view, chunks, space_address(view->books.limits), sizeof chunks);
    for (unsigned c = 0; c < CHUNKS && !error; c++) {
        if (chunks[c])
            error = names_outside_copy(view, limits, chunks[c], PER_CHUNK * sizeof *limits);
        for (unsigned i = 0; i < PER_CHUNK && chunks[c] && !error; i++)
            tell(&limits[i], s, found, to);
    }
    free(limits);
    return error == -EFAULT ? -EBADMSG : error;
}
