/* SPDX-License-Identifier: BSD-2-Clause */
/* JESPAN_REGION() blocks: a span that is opened and entered, exited and closed. */
#include <errno.h>

#include "api/block.h"
#include "base/compiler.h"
#include "jespan/jespan.h"
#include "policy/regions.h"

/* Without an arena to be had, a span like others is better than none: of another site, as sites with equal contents are one. */
static jespan_span_t *open_or_plain(const struct jespan_site *site)
{
    jespan_span_t *span = jespan_open(site, JESPAN_CURRENT, NULL, 0);
    if (span)
        return span;
    struct jespan_site plain = *site;
    plain.line = 0;
    plain.arena = (struct jespan_arena){0};
    regions_count_lost();
    return jespan_open(&plain, JESPAN_CURRENT, NULL, 0);
}

EXPORT void jespan_region_enter(struct jespan_scope *scope, const struct jespan_site *site)
{
    int saved = errno;
    if (!scope)
        return;
    jespan_span_t *span = site ? open_or_plain(site) : NULL;
    if (span && jespan_enter(span)) {
        jespan_close(span);
        span = NULL;
    }
    if (span)
        thread_current->entries[thread_current->depth - 1].kind |= ENTRY_BLOCK;
    scope->entered = (uintptr_t)span;
    errno = saved;
}

EXPORT void jespan_region_exit(struct jespan_scope *scope)
{
    jespan_span_t *span = scope ? (jespan_span_t *)(uintptr_t)scope->entered : NULL;
    int saved = errno;
    if (!span)
        return;
    jespan_exit(span);
    span_close_anyway(span);
    errno = saved;
}
