/* SPDX-License-Identifier: BSD-2-Clause */
/* Pieces of the texts of events. Each function writes at `to`, at most to `end`, and returns where the text ends. */
#ifndef JESPAN_EVENTS_TEXT_H
#define JESPAN_EVENTS_TEXT_H

#include <stdint.h>

char *events_text(char *to, const char *end, const char *text);
char *events_number(char *to, const char *end, uint64_t n);

/* With the escapes of docs/folded.md. */
char *events_folded(char *to, const char *end, const char *text);

/* With quotes and escapes of JSON. A byte that is not UTF-8 becomes U+FFFD. The quotes always fit if there is room for 2. */
char *events_json(char *to, const char *end, const char *text);

/* Microseconds with three decimals. */
char *events_us(char *to, const char *end, uint64_t ns);

#endif
