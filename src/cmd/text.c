/* SPDX-License-Identifier: BSD-2-Clause */
/* Text with terminal columns. */
#include "text.h"

#include <limits.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <wctype.h>

static wchar_t ellipsis = L'~'; /* until the locale can write better */

void text_init(void)
{
    if (setlocale(LC_CTYPE, "C.UTF-8") != NULL)
        ellipsis = L'\u2026';
}

void text_clear(struct text *text)
{
    text->n = 0;
}

static void add_char(struct text *text, wchar_t c)
{
    if (text->n < TEXT_MAX_CHARS)
        text->chars[text->n++] = c;
}

void text_add(struct text *text, const char *trusted_ascii)
{
    for (; *trusted_ascii != '\0'; trusted_ascii++)
        add_char(text, (wchar_t)*trusted_ascii);
}

void text_add_ellipsis(struct text *text)
{
    add_char(text, ellipsis);
}

/* Not those that print nothing, nor those that turn the direction of what follows. */
static bool is_harmless(wchar_t c)
{
    bool turns = (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
    return iswprint((wint_t)c) && wcwidth(c) >= 0 && !turns;
}

/* Takes one character, or one byte where there is none. */
static wchar_t take_char(struct wire *bytes)
{
    mbstate_t state = {0};
    wchar_t c;
    size_t n = mbrtowc(&c, (const char *)bytes->at, (size_t)(bytes->end - bytes->at), &state);
    bool is_char = n != 0 && n != (size_t)-1 && n != (size_t)-2;
    bytes->at += is_char ? n : 1;
    return is_char && is_harmless(c) ? c : L'?';
}

void text_add_wire(struct text *text, struct wire bytes, size_t max_chars)
{
    for (size_t n = 0; bytes.at < bytes.end; n++) {
        if (n == max_chars) {
            add_char(text, ellipsis);
            return;
        }
        add_char(text, take_char(&bytes));
    }
}

/* All characters in a text are printable, so none has a negative width. */
static size_t columns_of(const wchar_t *chars, size_t n)
{
    size_t columns = 0;
    for (size_t i = 0; i < n; i++)
        columns += (size_t)wcwidth(chars[i]);
    return columns;
}

/* The inner end of a path and the labels behind it say more than the outer end: they get three fifths. */
void text_fit(struct text *text, size_t columns)
{
    size_t head = 0, tail = text->n, used = 1;
    size_t head_columns = 0, head_limit = (columns - 1) * 2 / 5;
    if (columns_of(text->chars, text->n) <= columns)
        return;
    while (head_columns + (size_t)wcwidth(text->chars[head]) <= head_limit)
        head_columns += (size_t)wcwidth(text->chars[head++]);
    used += head_columns;
    while (used + (size_t)wcwidth(text->chars[tail - 1]) <= columns)
        used += (size_t)wcwidth(text->chars[--tail]);
    text->chars[head++] = ellipsis;
    memmove(text->chars + head, text->chars + tail, (text->n - tail) * sizeof *text->chars);
    text->n = head + text->n - tail;
}

void text_print(const struct text *text)
{
    mbstate_t state = {0};
    for (size_t i = 0; i < text->n; i++) {
        char bytes[MB_LEN_MAX];
        size_t n = wcrtomb(bytes, text->chars[i], &state);
        if (n != (size_t)-1)
            fwrite(bytes, 1, n, stdout);
    }
}
