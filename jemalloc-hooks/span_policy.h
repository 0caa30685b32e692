/* SPDX-License-Identifier: BSD-2-Clause */
/* Tells the system how to treat the pages of a span arena, by the arena's policy. */
#ifndef JESPAN_SPAN_POLICY_H
#define JESPAN_SPAN_POLICY_H

#include "span_extents.h"

/* Tries the policy on a page of our own. Names each part that fails on stderr, once in the process. */
void span_policy_try(const struct extent_policy *policy);

/* Applies the policy to a range. Returns the number of parts that failed. Leaves errno alone. Hooks may call it. */
unsigned span_policy_apply(const struct extent_policy *policy, void *start, size_t bytes);

#endif
