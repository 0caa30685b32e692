/* SPDX-License-Identifier: BSD-2-Clause */
/* The span API of programs that are measured without jespan: it does nothing. */
#include <jespan/jespan.h>
#include <jespan/limit.h>

#include <errno.h>

static char any_span;

jespan_span_t *jespan_open(const struct jespan_site *site, jespan_context_t parent, const struct jespan_label *labels,
                           size_t n_labels)
{
    (void)parent, (void)labels, (void)n_labels;
    if (site->arena.flags & JESPAN_ARENA_REGION)
        return NULL; /* what is allocated in it will have to be freed */
    return (jespan_span_t *)(void *)&any_span;
}

int jespan_enter(jespan_span_t *span)
{
    (void)span;
    return 0;
}

int jespan_exit(jespan_span_t *span)
{
    (void)span;
    return 0;
}

int jespan_close(jespan_span_t *span)
{
    (void)span;
    return 0;
}

jespan_context_t jespan_current(void)
{
    return JESPAN_ROOT;
}

jespan_context_t jespan_attach(jespan_context_t context)
{
    (void)context;
    return JESPAN_ROOT;
}

void jespan_enter_block(struct jespan_block *scope, const struct jespan_site *site, const char *const *name_and_labels,
                        size_t count)
{
    (void)scope, (void)site, (void)name_and_labels, (void)count;
}

void jespan_exit_block(struct jespan_block *scope)
{
    (void)scope;
}

void jespan_enter_credit(struct jespan_block *scope, jespan_context_t context)
{
    (void)scope, (void)context;
}

void jespan_exit_credit(struct jespan_block *scope)
{
    (void)scope;
}

int jespan_set_limit(jespan_context_t context, uint64_t soft_bytes, uint64_t hard_bytes)
{
    (void)context, (void)soft_bytes, (void)hard_bytes;
    return 0;
}

/* Of allocators that have none. */
int mallctl(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes);
int mallctl(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes)
{
    (void)name, (void)old, (void)old_bytes, (void)new_value, (void)new_bytes;
    return ENOENT;
}
