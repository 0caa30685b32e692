/* SPDX-License-Identifier: BSD-2-Clause */
/* Open spans. A handle is a number (slot and generation), never an address: a stale or invented one is recognised.
 *
 * A slot's generation is odd while its span is open. After 2^31 spans in the same slot a number comes back.
 */
#ifndef JESPAN_HANDLES_H
#define JESPAN_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#include "jespan/jespan.h"

/* Opens a span of `context`. Under LOCK_TREE. NULL when out of memory. */
jespan_span_t *handle_open(uint32_t context);

/* Closes it and returns its context, 0 when it is not open. Under LOCK_TREE. */
uint32_t handle_close(jespan_span_t *span);

/* The context of an open span, else 0. Needs no lock; may be outdated the next moment. */
uint32_t handle_context(jespan_span_t *span);

#endif
