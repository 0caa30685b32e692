/* SPDX-License-Identifier: BSD-2-Clause */
/* Characters of UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef JESPAN_BASE_UTF8_H
#define JESPAN_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

/* Returns the number of bytes of a character that starts with `first`, and the lowest code point that needs so many. */
static inline size_t utf8_sequence_bytes(unsigned char first, uint32_t *lowest)
{
    static const uint32_t lowest_by_bytes[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t bytes = first < 0x80 ? 1 : first >> 5 == 0x6 ? 2 : first >> 4 == 0xE ? 3 : first >> 3 == 0x1E ? 4 : 0;
    *lowest = lowest_by_bytes[bytes];
    return bytes;
}

/* Returns the number of bytes of the valid character at the start of a text that is not empty. 0: no valid character.
 * The terminating NUL is no continuation byte, so nothing after it is read. */
static inline size_t utf8_character(const char *string)
{
    const unsigned char *text = (const unsigned char *)string;
    uint32_t lowest;
    size_t bytes = utf8_sequence_bytes(text[0], &lowest);
    if (bytes <= 1)
        return bytes;
    uint32_t code = text[0] & (0x7Fu >> bytes);
    for (size_t i = 1; i < bytes; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3F);
    }
    bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    return code < lowest || code > 0x10FFFF || surrogate ? 0 : bytes;
}

#endif
