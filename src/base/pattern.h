/* SPDX-License-Identifier: BSD-2-Clause */
/* Patterns of names in the configuration, for sites and labels. */
#ifndef JESPAN_PATTERN_H
#define JESPAN_PATTERN_H

#include <stdbool.h>

/* `*` stands for any text and may occur any number of times. Takes time up to the product of the lengths. */
bool pattern_fits(const char *pattern, const char *text);

#endif
