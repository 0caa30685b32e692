/* SPDX-License-Identifier: BSD-2-Clause */
/* A line for the terminal, made of text that may be anything: control characters and bytes that are not UTF-8 become
 * '?', so that a name in a file can neither break the layout nor command the terminal. */
#ifndef JESPAN_CMD_TEXT_H
#define JESPAN_CMD_TEXT_H

#include <stddef.h>
#include <wchar.h>

#include "wire.h"

#define TEXT_MAX_CHARS 160000 /* what does not fit is left out */

struct text {
    size_t n;
    wchar_t chars[TEXT_MAX_CHARS];
};

/* To be called once, before anything else here: makes wchar_t hold Unicode, whatever the user's locale. */
void text_init(void);

void text_clear(struct text *text);
void text_add(struct text *text, const char *trusted_ascii);
void text_add_ellipsis(struct text *text);

/* Adds at most `max_chars` characters, with an ellipsis for the others. */
void text_add_wire(struct text *text, struct wire bytes, size_t max_chars);

/* Cuts out the middle so that the text takes at most `columns` (3 or more) on the terminal. */
void text_fit(struct text *text, size_t columns);
void text_print(const struct text *text);

#endif
