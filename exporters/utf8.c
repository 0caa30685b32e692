/* SPDX-License-Identifier: BSD-2-Clause */
/* UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, nothing above U+10FFFF. */
#include "utf8.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char replacement[] = UTF8_REPLACEMENT;

/* Returns the number of bytes of a character that starts with `first`, and the lowest code point that needs so many. */
static size_t sequence_bytes(unsigned char first, uint32_t *lowest)
{
    static const uint32_t lowest_by_bytes[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t bytes = first < 0x80 ? 1 : first >> 5 == 0x6 ? 2 : first >> 4 == 0xE ? 3 : first >> 3 == 0x1E ? 4 : 0;
    *lowest = lowest_by_bytes[bytes];
    return bytes;
}

/* The terminating NUL is no continuation byte, so nothing after it is read. */
size_t utf8_character(const char *string)
{
    const unsigned char *text = (const unsigned char *)string;
    uint32_t lowest;
    size_t bytes = sequence_bytes(text[0], &lowest);
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

bool utf8_valid(const char *text)
{
    while (*text != '\0') {
        size_t bytes = utf8_character(text);
        if (bytes == 0)
            return false;
        text += bytes;
    }
    return true;
}

size_t utf8_clean_bytes(const char *text)
{
    return strlen(text) * (sizeof replacement - 1) + 1;
}

void utf8_clean_into(char *to, const char *text)
{
    while (*text != '\0') {
        size_t bytes = utf8_character(text);
        const char *from = bytes == 0 ? replacement : text;
        size_t n = bytes == 0 ? sizeof replacement - 1 : bytes;
        memcpy(to, from, n);
        to += n;
        text += bytes == 0 ? 1 : bytes;
    }
    *to = '\0';
}

char *utf8_clean(const char *text)
{
    char *clean = malloc(utf8_clean_bytes(text));
    if (clean)
        utf8_clean_into(clean, text);
    return clean;
}
