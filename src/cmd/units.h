/* SPDX-License-Identifier: BSD-2-Clause */
/* Figures as people read them. */
#ifndef JESPAN_CMD_UNITS_H
#define JESPAN_CMD_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#define UNITS_BYTES 32 /* room for any figure */

/* "512 B", "1.5 MiB"; all digits if `exact`. */
void units_bytes(char *to, int64_t bytes, bool exact);

/* "512 ns", "1.5 ms", "2.0 min"; all digits if `exact`. */
void units_time(char *to, int64_t ns, bool exact);

/* How many columns a figure takes on the terminal. */
int units_columns(const char *figure);

/* "12.3%"; of nothing it is 0. */
void units_share(char *to, int64_t part, int64_t whole);

/* "1.2 s", "3 min 20 s", "5 h 1 min". */
void units_duration(char *to, int64_t ns);

#endif
