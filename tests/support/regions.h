/* SPDX-License-Identifier: BSD-2-Clause */
/* Helpers for tests of regions. */
#ifndef JESPAN_TESTS_REGIONS_H
#define JESPAN_TESTS_REGIONS_H

#include "arenas.h"
#include "entered.h"

/* Whether allocations that libc makes for itself are kept out of regions (base/libc_calls.h): everywhere but where libc does
 * not call our malloc. */
#define LIBC_IS_TOLD_APART FAMILY_INTERPOSED

#endif
