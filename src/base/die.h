/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages on stderr without stdio and without allocation, and the end of a program whose heap is corrupt.
 *
 * Both may be called from anywhere, a malloc callback or a signal handler included.
 */
#ifndef JESPAN_DIE_H
#define JESPAN_DIE_H

#include <stdint.h>

/* Writes "<jespan>: " and the parts up to NULL as one line with one system call, which never blocks (standard_error.h).
 * A line is cut at 511 bytes. */
void warn_parts(const char *const *parts);
#define WARN(...) warn_parts((const char *const[]){__VA_ARGS__, NULL})

/* One line that names the pointer, then abort(3). Only for what is certainly heap corruption. */
_Noreturn void die_pointer(const char *what, const void *pointer);

/* Writes `value` in the base, NUL-terminated, and returns the start within `buffer`. */
#define NUMBER_BYTES 32
const char *number_text(char buffer[NUMBER_BYTES], uint64_t value, unsigned base);

/* What an errno value means, in the system's words: "Permission denied". Untranslated. */
const char *errno_text(int error);

#endif
