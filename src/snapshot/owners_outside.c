/* SPDX-License-Identifier: BSD-2-Clause */
/* Which context has the figures of another one in its row. */
#include <errno.h>
#include <stdlib.h>

#include "snapshot/view_outside.h"
#include "span/tree.h"

static uint32_t owner_of(uint32_t id, const struct context *c)
{
    bool is_part = c->kind == CONTEXT_STACK || c->kind == CONTEXT_PERIOD;
    return id == CONTEXT_ID_UNSAMPLED ? CONTEXT_ID_ROOT : is_part ? c->parent : id;
}

/* The parent of a stack may be a period. */
static int copy_owners(struct view *view, uint32_t *owners, uint32_t end)
{
    enum { AT_ONCE = 256 };
    uint64_t start = 0;
    const struct piece array = {&start, space_address(view->books.contexts), sizeof start};
    int error = space_copy(&view->space, &array, 1);
    struct context *some = malloc(AT_ONCE * sizeof *some);
    if (!some)
        error = -ENOMEM;
    for (uint32_t first = 0; first < end && !error; first += AT_ONCE) {
        uint32_t n = end - first < AT_ONCE ? end - first : AT_ONCE;
        const struct piece piece = {some, start + first * sizeof *some, n * sizeof *some};
        error = space_copy(&view->space, &piece, 1);
        for (uint32_t i = 0; i < n && !error; i++)
            owners[first + i] = owner_of(first + i, &some[i]);
    }
    free(some);
    return error;
}

int outside_owners(struct view *view, uint32_t **owners, uint32_t *n)
{
    const struct piece piece = {n, space_address(view->books.context_end), sizeof *n};
    int error = space_copy(&view->space, &piece, 1);
    if (!error && *n > CONTEXTS_MAX)
        error = -EBADMSG;
    *owners = error ? NULL : malloc(((size_t)*n + 1) * sizeof **owners);
    if (!error)
        error = *owners ? copy_owners(view, *owners, *n) : -ENOMEM;
    return error;
}
