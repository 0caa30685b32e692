/* SPDX-License-Identifier: BSD-2-Clause */
/* Valid UTF-8 (base/utf8.h). */
#include "utf8.h"

#include <stdlib.h>
#include <string.h>

static const char replacement[] = UTF8_REPLACEMENT;

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
