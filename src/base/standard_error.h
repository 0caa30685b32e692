/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes to the program's standard error. A write never blocks, raises no signal and reaches no other file.
 *
 * A line is dropped and counted where descriptor 2
 * - was closed when the program started, since a file there now is the program's own;
 * - is another file than at the start, unless it looks like a redirected standard error. That is a pipe, a character
 *   device, a regular file opened for writing only, or one without a name (tmpfile(), in which tests catch messages),
 *   and is not close-on-exec. Other files and sockets belong to the program, and got the number when it closed its
 *   standard error;
 * - cannot take more now, as a pipe that nobody reads, or a stopped terminal.
 *
 * All functions are async-signal-safe.
 */
#ifndef JESPAN_STANDARD_ERROR_H
#define JESPAN_STANDARD_ERROR_H

#include <stddef.h>
#include <stdint.h>

/* The longest text that a pipe takes in one piece: PIPE_BUF. */
#define STANDARD_ERROR_MAX_BYTES 4096

/* Remembers which file descriptor 2 is. To be called at the start of the process, before it has other threads. */
void standard_error_boot(void);

/* Writes a line of at most STANDARD_ERROR_MAX_BYTES, or drops it. Leaves errno alone. */
void standard_error_write(const char *line, size_t bytes);

/* The number of lines dropped. */
uint64_t standard_error_lost(void);

#endif
