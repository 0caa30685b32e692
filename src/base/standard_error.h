/* SPDX-License-Identifier: BSD-2-Clause */
/* Writing to the program's standard error so that it never blocks, raises no signal and reaches no other file.
 *
 * A line is dropped and counted where descriptor 2
 * - was closed when the program started: what is there now, if anything, is the program's own file;
 * - is another file than at the start, unless it looks like a redirected standard error: a pipe, a character device, a
 *   regular file opened for writing only, or one without a name (tmpfile(), in which tests catch messages), and not
 *   close-on-exec. Other files and sockets are the program's, and got the number when it closed its standard error;
 * - has no room: a pipe that nobody reads, a terminal that was stopped.
 *
 * All of it is async-signal-safe.
 */
#ifndef JESPAN_STANDARD_ERROR_H
#define JESPAN_STANDARD_ERROR_H

#include <stddef.h>
#include <stdint.h>

/* The longest text that a pipe takes as a whole: PIPE_BUF. */
#define STANDARD_ERROR_MAX_BYTES 4096

/* Remembers what descriptor 2 is. At the start of the process, before its other threads. */
void standard_error_boot(void);

/* Writes a line of STANDARD_ERROR_MAX_BYTES at most, or drops it. Leaves errno alone. */
void standard_error_write(const char *line, size_t bytes);

/* Lines dropped. */
uint64_t standard_error_lost(void);

#endif
