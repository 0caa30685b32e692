/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages on stderr without stdio and without allocation, and the end of a program whose heap is corrupt. */
#include "base/die.h"

#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "base/standard_error.h"

#define LINE_BYTES 512

static size_t append(char *line, size_t used, const char *text)
{
    size_t n = strlen(text);
    if (n > LINE_BYTES - 1 - used)
        n = LINE_BYTES - 1 - used;
    memcpy(line + used, text, n);
    return used + n;
}

/* Names and labels may come from a client, and a message is one line. */
static void hide_control_characters(char *text, size_t n)
{
    for (; n--; text++)
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = '?';
}

COLD void warn_parts(const char *const *parts)
{
    char line[LINE_BYTES];
    size_t used = append(line, 0, "<jespan>: ");
    for (; *parts; parts++)
        used = append(line, used, *parts);
    hide_control_characters(line, used);
    line[used++] = '\n';
    standard_error_write(line, used);
}

COLD const char *number_text(char buffer[NUMBER_BYTES], uint64_t value, unsigned base)
{
    char *p = buffer + NUMBER_BYTES - 1;
    *p = '\0';
    do {
        *--p = "0123456789abcdef"[value % base];
        value /= base;
    } while (value && p > buffer);
    return p;
}

COLD _Noreturn void die_pointer(const char *what, const void *pointer)
{
    char number[NUMBER_BYTES];
    WARN(what, " 0x", number_text(number, (uintptr_t)pointer, 16));
    abort();
}

COLD const char *errno_text(int error)
{
    const char *words = strerrordesc_np(error);
    return words ? words : "unknown error";
}
