/* SPDX-License-Identifier: BSD-2-Clause */
/* Pieces of the texts of events. */
#include "events_out.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/encode.h"
#include "folded.h"

static char *add(char *to, const char *end, const char *text, size_t n)
{
    if ((size_t)(end - to) < n)
        return to;
    memcpy(to, text, n);
    return to + n;
}

char *events_text(char *to, const char *end, const char *text)
{
    return add(to, end, text, strlen(text));
}

static char *add_digits(char *to, const char *end, uint64_t n, size_t least)
{
    char digits[24], *first = digits + sizeof digits;
    for (; n != 0 || least > 0; n /= 10) {
        *--first = (char)('0' + n % 10);
        least -= least > 0;
    }
    return add(to, end, first, (size_t)(digits + sizeof digits - first));
}

char *events_number(char *to, const char *end, uint64_t n)
{
    return add_digits(to, end, n, 1);
}

char *events_us(char *to, const char *end, uint64_t ns)
{
    return add_digits(events_text(add_digits(to, end, ns / 1000, 1), end, "."), end, ns % 1000, 3);
}

char *events_folded(char *to, const char *end, const char *text)
{
    while (*text != '\0') {
        size_t n = folded_character(text);
        char escaped[sizeof "%FF"];
        if (n != 0) {
            to = add(to, end, text, n);
            text += n;
            continue;
        }
        snprintf(escaped, sizeof escaped, "%%%02X", (unsigned char)*text++);
        to = events_text(to, end, escaped);
    }
    return to;
}

/* Leaves room for the quote at the end. */
char *events_json(char *to, const char *end, const char *text)
{
    to = events_text(to, end, "\"");
    for (const char *last = end - 1; *text != '\0';) {
        size_t n = utf8_character(text);
        char buffer[JSON_ESCAPE_BYTES];
        const char *escaped = n == 1 ? json_escape((unsigned char)*text, buffer) : n == 0 ? UTF8_REPLACEMENT : NULL;
        to = escaped ? events_text(to, last, escaped) : add(to, last, text, n);
        text += n > 0 ? n : 1;
    }
    return events_text(to, end, "\"");
}
