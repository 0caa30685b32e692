/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes a path from its end, into a buffer that may be too small. Then the outer end is cut, and begins with "...". */
#ifndef JESPAN_PATH_WRITER_H
#define JESPAN_PATH_WRITER_H

#include <stddef.h>
#include <string.h>

struct writer {
    char *at, *begin;
};

static inline void put_before(struct writer *w, const char *text)
{
    size_t n = strlen(text);
    while (n && w->at > w->begin) {
        unsigned char c = (unsigned char)text[--n];
        *--w->at = c < ' ' || c == 127 ? '?' : (char)c;
    }
    if (n)
        memcpy(w->begin, "...", 3);
}

#endif
