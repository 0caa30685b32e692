/* SPDX-License-Identifier: BSD-2-Clause */
/* Valid UTF-8 from the program's names, which may be any bytes. Strings of protobuf and of folded stacks are UTF-8. */
#ifndef JESPAN_UTF8_H
#define JESPAN_UTF8_H

#include <stdbool.h>
#include <stddef.h>

#include "base/utf8.h"

bool utf8_valid(const char *text);

/* Returns a copy with U+FFFD in place of each byte that is not part of a valid character. NULL: no memory. The caller
 * frees it. */
char *utf8_clean(const char *text);

/* The same into memory of the caller, with the number of bytes that suffice. */
size_t utf8_clean_bytes(const char *text);
void utf8_clean_into(char *to, const char *text);

#endif
