/* SPDX-License-Identifier: BSD-2-Clause */
/* Names come from the program as bytes; protobuf's strings are UTF-8. */
#ifndef JESPAN_PPROF_UTF8_H
#define JESPAN_PPROF_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#define PPROF_UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

/* The bytes of the valid character that a text, which is not empty, begins with; 0: it begins with none. */
size_t pprof_utf8_character(const char *text);

bool pprof_utf8_valid(const char *text);

/* A copy in which each byte that is not part of a valid character is replaced by U+FFFD; NULL when there is no memory.
 * The caller frees it. */
char *pprof_utf8_clean(const char *text);

/* The same into memory of the caller's, of so many bytes at most. */
size_t pprof_utf8_clean_bytes(const char *text);
void pprof_utf8_clean_into(char *to, const char *text);

#endif
