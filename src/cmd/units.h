/* SPDX-License-Identifier: BSD-2-Clause */
/* Figures as people read them. */
#ifndef JESPAN_CMD_UNITS_H
#define JESPAN_CMD_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#define UNITS_BYTES 32 /* room for any figure */

/* "512 B", "1.5 MiB"; all digits if `exact`. */
void units_bytes(char *to, int64_t bytes, bool exact);

/* "12.3%"; of nothing it is 0. */
void units_share(char *to, int64_t part, int64_t whole);

/* "1.2 s", "3 min 20 s", "5 h 1 min". */
void units_duration(char *to, int64_t ns);

#endif
