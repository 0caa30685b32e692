/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages on stderr without stdio and without allocation, and the end of a program whose heap is corrupt.
 *
 * All functions may be called from anywhere, a malloc callback or a signal handler included.
 */
#ifndef JESPAN_DIE_H
#define JESPAN_DIE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Writes "jespan: " and the parts up to NULL as one line with one system call, which never blocks.
 * A line is cut at 511 bytes. Control characters in it become '?'. */
void warn_parts(const char *const *parts);
#define WARN(...) warn_parts((const char *const[]){__VA_ARGS__, NULL})

/* Writes one line that names the pointer, then calls abort(3). Only for certain heap corruption. */
_Noreturn void die_pointer(const char *what, const void *pointer);

/* An invariant. A build with --enable-assertions aborts where it does not hold. Other builds compile the condition but
 * make no code of it. The condition has no side effects. No assertion stands on the hot path, so that
 * tools/check-hot-path and tools/check-instructions hold in each build. */
#define jespan_assert(condition) \
    (JESPAN_ASSERTIONS && !(condition) ? (WARN(__FILE__ ":" LINE_TEXT(__LINE__), ": broken invariant: " #condition), abort()) : (void)0)
#define LINE_TEXT(line) LINE_DIGITS(line)
#define LINE_DIGITS(line) #line

/* Writes `value` in the base, NUL-terminated, and returns the start within `buffer`. */
#define NUMBER_BYTES 32
const char *number_text(char buffer[NUMBER_BYTES], uint64_t value, unsigned base);

/* The meaning of an errno value in the system's words, such as "Permission denied". Not translated. */
const char *errno_text(int error);

/* ---- Standard error ---- */

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
 * All functions are async-signal-safe. */

/* The longest text that a pipe takes in one piece: PIPE_BUF. */
#define STANDARD_ERROR_MAX_BYTES 4096

/* Remembers which file descriptor 2 is. To be called at the start of the process, before it has other threads. */
void standard_error_boot(void);

/* Writes a line of at most STANDARD_ERROR_MAX_BYTES, or drops it. Leaves errno alone. */
void standard_error_write(const char *line, size_t bytes);

/* The number of lines dropped. */
uint64_t standard_error_lost(void);

#endif
