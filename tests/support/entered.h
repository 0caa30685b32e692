/* SPDX-License-Identifier: BSD-2-Clause */
/* Opens and enters a span in one call. A failure is a failed check. */
#ifndef JESPAN_TESTS_ENTERED_H
#define JESPAN_TESTS_ENTERED_H

#include <stddef.h>

#include <jespan/jespan.h>

#include "check.h"

static inline jespan_span_t *open_span(const struct jespan_site *site)
{
    jespan_span_t *span = jespan_open(site, JESPAN_CURRENT, NULL, 0);
    CHECK(span != NULL);
    return span;
}

static inline jespan_span_t *enter_new(const struct jespan_site *site)
{
    jespan_span_t *span = open_span(site);
    CHECK_EQ(jespan_enter(span), 0);
    return span;
}

static inline void leave(jespan_span_t *span)
{
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(jespan_close(span), 0);
}

#endif
