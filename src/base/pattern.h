/* SPDX-License-Identifier: BSD-2-Clause */
/* Patterns of names, as the configuration has them for sites and labels. */
#ifndef JESPAN_PATTERN_H
#define JESPAN_PATTERN_H

#include <stdbool.h>

/* `*` stands for any text, anywhere and as often as wanted. In a time of at most the product of the lengths. */
bool pattern_fits(const char *pattern, const char *text);

#endif
