/* SPDX-License-Identifier: BSD-2-Clause */
/* Names come from the program as bytes; protobuf's strings are UTF-8. */
#ifndef JESPAN_PPROF_UTF8_H
#define JESPAN_PPROF_UTF8_H

#include <stdbool.h>

bool pprof_utf8_valid(const char *text);

/* A copy in which each byte that is not part of a valid character is replaced by U+FFFD; NULL when there is no memory.
 * The caller frees it. */
char *pprof_utf8_clean(const char *text);

#endif
