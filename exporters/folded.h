/* SPDX-License-Identifier: BSD-2-Clause */
/* Names in folded stacks, with the escapes of docs/folded.md. */
#ifndef JESPAN_FOLDED_H
#define JESPAN_FOLDED_H

#include <stddef.h>
#include <string.h>

#include "utf8.h"

/* Returns the number of bytes of the first character of a text that is not empty. 0: its first byte must be escaped. Flame
 * graphs are XML, which has neither U+FFFE nor U+FFFF. */
static inline size_t folded_character(const char *text)
{
    unsigned char first = (unsigned char)*text;
    size_t bytes = utf8_character(text);
    if (first <= ' ' || first == 0x7F || first == ';' || first == '%')
        return 0;
    return bytes == 3 && (memcmp(text, "\xEF\xBF\xBE", 3) == 0 || memcmp(text, "\xEF\xBF\xBF", 3) == 0) ? 0 : bytes;
}

#endif
