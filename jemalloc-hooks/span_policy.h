/* SPDX-License-Identifier: BSD-2-Clause */
/* How the system shall treat a range of pages, by a span arena's policy. */
#ifndef JESPAN_SPAN_POLICY_H
#define JESPAN_SPAN_POLICY_H

#include "span_extents.h"

/* Tries the policy on a page of our own. What fails is said on stderr, each thing once in the process. */
void span_policy_try(const struct extent_policy *policy);

/* Puts it on a range. Returns how many of its parts failed. errno is left alone. For hooks. */
unsigned span_policy_apply(const struct extent_policy *policy, void *start, size_t bytes);

#endif
