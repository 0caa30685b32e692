/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines and figures for the terminal.
 *
 * A line may contain any text. Control characters and bytes that are not UTF-8 become '?', so that a name in a file can
 * neither break the layout nor send commands to the terminal.
 */
#ifndef JESPAN_CONSOLE_TEXT_H
#define JESPAN_CONSOLE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <wchar.h>

#define TEXT_MAX_CHARS 160000 /* further characters are left out */

#define TEXT_SEPARATOR " > "

struct text {
    size_t n, n_parts;
    bool has_short_names; /* names of functions that are added get shorter than usual */
    wchar_t chars[TEXT_MAX_CHARS];
    uint32_t parts[TEXT_MAX_CHARS / sizeof TEXT_SEPARATOR]; /* where they begin; later ones are part of the last one */
};

/* Must be called first. Makes wchar_t hold Unicode, whatever the user's locale. */
void text_init(void);

/* An empty text, to be given to free(). NULL: no memory. One that is static, and so zero, is empty too. */
struct text *text_new(void);
void text_clear(struct text *text);
void text_add(struct text *text, const char *trusted_ascii);
void text_add_ellipsis(struct text *text);

/* Begins the next part of a path, with a separator before it unless it is the first one. */
void text_add_part(struct text *text);

/* Adds a bar of height 0 to 7: a block, or an ASCII character where there is no UTF-8. */
void text_add_level(struct text *text, unsigned level);
void text_append(struct text *text, const struct text *more);

/* Adds at most `max_chars` characters, and an ellipsis if there are more. */
void text_add_bytes(struct text *text, const void *bytes, size_t n_bytes, size_t max_chars);

bool text_fits(const struct text *text, size_t columns);

/* Cuts out the middle if the text takes more than `columns` (3 or more) on the terminal: whole parts of a path, if the first and the last
 * one then fit. */
void text_fit(struct text *text, size_t columns);
void text_print(const struct text *text);
void text_print_char(wchar_t c);

/* Writes the text as UTF-8 into `bytes` bytes, with a 0 at its end. Characters that do not fit are left out. */
void text_copy(const struct text *text, char *to, size_t bytes);

/* Encodes a character of a JSON string. Returns the number of bytes. */
#define TEXT_JSON_CHAR_BYTES 16
size_t text_json_char(char to[TEXT_JSON_CHAR_BYTES], wchar_t c);

/* Print a JSON string with its quotes: that of a text, and that of any bytes. */
void text_print_as_json(const struct text *text);
void text_print_json(const char *string);

#define FIGURE_BYTES 32 /* enough for any figure */

/* "512 B", "1.5 MiB"; digits only if `exact`. */
void figure_bytes(char *to, int64_t bytes, bool exact);

/* "512 ns", "1.5 ms", "2.0 min"; digits only if `exact`. */
void figure_time(char *to, int64_t ns, bool exact);

/* "12.3%"; "0.0%" if `whole` is 0. */
void figure_share(char *to, int64_t part, int64_t whole);

/* "1.2 s", "3 min 20 s", "5 h 1 min". */
void figure_duration(char *to, int64_t ns);

/* The number of columns that a figure takes on the terminal. */
int figure_columns(const char *figure);

/* ---- Names of C++ functions that fit a line ---- */

/* Shortens a name in place: std::string for its template, and no allocators. A name that is then longer than `wanted` bytes
 * loses its parameters, and if it is still longer, the arguments of its templates. */
void short_name(char *name, size_t wanted);

#endif
