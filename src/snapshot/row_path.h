/* SPDX-License-Identifier: BSD-2-Clause */
/* The path of a context of a snapshot, as a text for people. */
#ifndef JESPAN_ROW_PATH_H
#define JESPAN_ROW_PATH_H

#include <stddef.h>
#include <stdint.h>

#include "snapshot/snapshot.h"

/* The path of a row with its labels, as `jespan report` prints it, but with the innermost spans only. Needs no memory. */
void row_path(char *to, size_t bytes, const struct snapshot *s, uint32_t row);

/* The same with all spans of the path, as snprintf(3): cut to `bytes` with its NUL, and returns the length of the whole text. */
size_t row_path_whole(char *to, size_t bytes, const struct snapshot *s, uint32_t row);

#endif
