/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines and figures for the terminal. */
#include "text.h"

#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wctype.h>

#include "base/encode.h"

static wchar_t ellipsis = L'~'; /* where there is no UTF-8 */

void text_init(void)
{
    if (setlocale(LC_CTYPE, "C.UTF-8"))
        ellipsis = L'\u2026';
}

struct text *text_new(void)
{
    return calloc(1, sizeof(struct text));
}

void text_clear(struct text *text)
{
    text->n = text->n_parts = 0;
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

void text_add_part(struct text *text)
{
    if (text->n > 0)
        text_add(text, TEXT_SEPARATOR);
    if (text->n_parts < sizeof text->parts / sizeof *text->parts)
        text->parts[text->n_parts++] = (uint32_t)text->n;
}

/* Most characters are these, and libc takes 50 ns for each. They are the same in all locales that are used here. */
static bool is_plain(wchar_t c)
{
    return c >= ' ' && c <= '~';
}

/* Characters that print nothing, or that change the direction of the text after them, are not harmless. */
static bool is_harmless(wchar_t c)
{
    bool turns = (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
    return iswprint((wint_t)c) && wcwidth(c) >= 0 && !turns;
}

/* Takes one character, or one byte if the bytes are no character. */
static wchar_t take_char(const char **at, const char *end)
{
    mbstate_t state = {0};
    wchar_t c = (unsigned char)**at;
    if (is_plain(c)) {
        ++*at;
        return c;
    }
    size_t n = mbrtowc(&c, *at, (size_t)(end - *at), &state);
    bool is_char = n != 0 && n != (size_t)-1 && n != (size_t)-2;
    *at += is_char ? n : 1;
    return is_char && is_harmless(c) ? c : L'?';
}

void text_add_level(struct text *text, unsigned level)
{
    static const char ascii[] = "_.,-~=*#";
    level = level < sizeof ascii - 1 ? level : sizeof ascii - 2;
    add_char(text, ellipsis == L'~' ? (wchar_t)ascii[level] : (wchar_t)(L'\u2581' + (wchar_t)level));
}

void text_append(struct text *text, const struct text *more)
{
    for (size_t i = 0; i < more->n; i++)
        add_char(text, more->chars[i]);
}

void text_add_bytes(struct text *text, const void *bytes, size_t n_bytes, size_t max_chars)
{
    const char *at = n_bytes == 0 ? "" : bytes, *end = at + n_bytes;
    for (size_t n = 0; n < max_chars && at < end; n++)
        add_char(text, take_char(&at, end));
    if (at < end)
        add_char(text, ellipsis);
}

/* In columns. Every character in a text is printable, so no width is negative. */
static size_t width_of(wchar_t c)
{
    return is_plain(c) ? 1 : (size_t)wcwidth(c);
}

static size_t columns_of(const wchar_t *chars, size_t n)
{
    size_t columns = 0;
    for (size_t i = 0; i < n; i++)
        columns += width_of(chars[i]);
    return columns;
}

bool text_fits(const struct text *text, size_t columns)
{
    return columns_of(text->chars, text->n) <= columns;
}

/* Puts an ellipsis in the place of the characters from `from` to `to`. */
static void cut(struct text *text, size_t from, size_t to)
{
    text->chars[from++] = ellipsis;
    memmove(text->chars + from, text->chars + to, (text->n - to) * sizeof *text->chars);
    text->n -= to - from;
}

/* The inner end of a path and its labels tell more than the outer end, so they get three fifths of the columns. */
static size_t head_columns(size_t columns)
{
    return (columns - 1) * 2 / 5;
}

static void cut_anywhere(struct text *text, size_t columns)
{
    size_t from = 0, to = text->n, used = 0;
    while (used + width_of(text->chars[from]) <= head_columns(columns))
        used += width_of(text->chars[from++]);
    for (used++; used + width_of(text->chars[to - 1]) <= columns;)
        used += width_of(text->chars[--to]);
    cut(text, from, to);
}

/* Of a path: with the separator behind it. */
static size_t part_columns(const struct text *text, size_t i)
{
    size_t end = i + 1 < text->n_parts ? text->parts[i + 1] : text->n;
    return columns_of(text->chars + text->parts[i], end - text->parts[i]);
}

/* The inner end gets what the outer one leaves, and then the outer one what is left. False: there is no room for both. */
static bool cut_parts(struct text *text, size_t columns)
{
    size_t n = text->n_parts, from = 1, to = n - 1;
    if (n < 3)
        return false;
    size_t used = part_columns(text, 0) + 1 + strlen(TEXT_SEPARATOR) + part_columns(text, to);
    if (used > columns)
        return false;
    size_t head = part_columns(text, 0);
    for (; from < to && head + part_columns(text, from) <= head_columns(columns) && used + part_columns(text, from) <= columns; from++) {
        head += part_columns(text, from);
        used += part_columns(text, from);
    }
    while (from < to && used + part_columns(text, to - 1) <= columns)
        used += part_columns(text, --to);
    while (from < to && used + part_columns(text, from) <= columns)
        used += part_columns(text, from++);
    cut(text, text->parts[from], text->parts[to] - strlen(TEXT_SEPARATOR));
    return true;
}

void text_fit(struct text *text, size_t columns)
{
    if (!text_fits(text, columns) && !cut_parts(text, columns))
        cut_anywhere(text, columns);
    text->n_parts = 0;
}

/* Every character of a text is one of the locale, so this cannot fail. */
static size_t encode(char to[MB_LEN_MAX], wchar_t c)
{
    mbstate_t state = {0};
    if (is_plain(c)) {
        *to = (char)c;
        return 1;
    }
    size_t n = wcrtomb(to, c, &state);
    return n == (size_t)-1 ? 0 : n;
}

void text_print_char(wchar_t c)
{
    char bytes[MB_LEN_MAX];
    if (is_plain(c))
        putc_unlocked(c, stdout);
    else
        fwrite(bytes, 1, encode(bytes, c), stdout);
}

void text_copy(const struct text *text, char *to, size_t bytes)
{
    char *end = to + bytes - MB_LEN_MAX - 1;
    for (size_t i = 0; i < text->n && to < end; i++)
        to += encode(to, text->chars[i]);
    *to = '\0';
}

size_t text_json_char(char to[TEXT_JSON_CHAR_BYTES], wchar_t c)
{
    char buffer[JSON_ESCAPE_BYTES];
    const char *escaped = c < 128 ? json_escape((unsigned char)c, buffer) : NULL;
    if (!escaped)
        return encode(to, c);
    memcpy(to, escaped, strlen(escaped));
    return strlen(escaped);
}

void text_print_as_json(const struct text *text)
{
    char bytes[TEXT_JSON_CHAR_BYTES];
    putchar('"');
    for (size_t i = 0; i < text->n; i++)
        fwrite(bytes, 1, text_json_char(bytes, text->chars[i]), stdout);
    putchar('"');
}

void text_print(const struct text *text)
{
    for (size_t i = 0; i < text->n; i++)
        text_print_char(text->chars[i]);
}

void text_print_json(const char *string)
{
    static struct text text;
    text_clear(&text);
    text_add_bytes(&text, string, strlen(string), TEXT_MAX_CHARS);
    text_print_as_json(&text);
}

void figure_bytes(char *to, int64_t bytes, bool exact)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    size_t unit = 0;
    if (exact || (bytes > -1024 && bytes < 1024)) {
        snprintf(to, FIGURE_BYTES, exact ? "%" PRId64 : "%" PRId64 " B", bytes);
        return;
    }
    for (value /= 1024; (value >= 1023.95 || value <= -1023.95) && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1024;
    snprintf(to, FIGURE_BYTES, "%.1f %s", value, units[unit]);
}

/* 1000.0 µs is shown as 1.0 ms, and 60.0 s as 1.0 min. */
void figure_time(char *to, int64_t ns, bool exact)
{
    static const struct {
        const char *name;
        double next; /* so many are one of the next unit */
    } units[] = {{"µs", 1000}, {"ms", 1000}, {"s", 60}, {"min", 60}, {"h", 1e18}};
    double value = (double)ns / 1000;
    size_t unit = 0;
    if (exact || (ns > -1000 && ns < 1000)) {
        snprintf(to, FIGURE_BYTES, exact ? "%" PRId64 : "%" PRId64 " ns", ns);
        return;
    }
    for (; value >= units[unit].next - 0.05 || value <= 0.05 - units[unit].next; unit++)
        value /= units[unit].next;
    snprintf(to, FIGURE_BYTES, "%.1f %s", value, units[unit].name);
}

int figure_columns(const char *figure)
{
    int columns = 0;
    for (; *figure != '\0'; figure++)
        columns += ((unsigned char)*figure & 0xc0) != 0x80; /* µ has two bytes */
    return columns;
}

void figure_share(char *to, int64_t part, int64_t whole)
{
    snprintf(to, FIGURE_BYTES, "%.1f%%", whole == 0 ? 0.0 : 100.0 * (double)part / (double)whole);
}

void figure_duration(char *to, int64_t ns)
{
    int64_t s = ns < 0 ? 0 : ns / 1000000000;
    if (s < 60)
        snprintf(to, FIGURE_BYTES, "%.1f s", ns < 0 ? 0.0 : (double)ns / 1e9);
    else if (s < 3600)
        snprintf(to, FIGURE_BYTES, "%" PRId64 " min %" PRId64 " s", s / 60, s % 60);
    else
        snprintf(to, FIGURE_BYTES, "%" PRId64 " h %" PRId64 " min", s / 3600, s / 60 % 60);
}

/* ---- Names of C++ functions that fit a line ---- */

static const char string_template[] = "std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> >";
static const char old_string_template[] = "std::basic_string<char, std::char_traits<char>, std::allocator<char> >";
static const char string_name[] = "std::string";

/* The replacement is not longer than what it replaces. */
static void replace(char *at, size_t n, const char *by)
{
    size_t bytes = strlen(by);
    memcpy(at, by, bytes);
    memmove(at + bytes, at + n, strlen(at + n) + 1);
}

static void replace_all(char *name, const char *what, const char *by)
{
    for (char *at = name; (at = strstr(at, what)); at += strlen(by))
        replace(at, strlen(what), by);
}

/* Whether < and > at this place are part of an operator's name: operator<<, operator->. */
static bool is_operator(const char *name, const char *at)
{
    while (at > name && strchr("<>=-", at[-1]))
        at--;
    return at - name >= 8 && memcmp(at - 8, "operator", 8) == 0;
}

/* The end of the brackets that open here, or NULL. */
static char *find_end(const char *name, char *open)
{
    char closing = *open == '<' ? '>' : ')';
    int depth = 0;
    for (char *at = open; *at != '\0'; at++) {
        bool is_part = !is_operator(name, at);
        if (*at == *open && is_part)
            depth++;
        else if (*at == closing && is_part && --depth == 0)
            return at;
    }
    return NULL;
}

static void drop_allocators(char *name)
{
    static const char allocator[] = ", std::allocator<";
    for (char *at = name; (at = strstr(at, allocator));) {
        char *end = find_end(name, at + sizeof allocator - 2);
        if (!end)
            return;
        end += end[1] == ' ' && end[2] == '>' ? 2 : 1; /* "> >" */
        replace(at, (size_t)(end - at), "");
    }
}

/* The parameters are the last brackets that are not in others; "const" and "[clone …]" may follow. */
static void drop_parameters(char *name)
{
    char *open = NULL, *end = NULL;
    for (char *at = name; *at != '\0'; at++)
        if ((*at == '(' || *at == '<') && !is_operator(name, at)) {
            char *closing = find_end(name, at);
            if (!closing)
                break;
            if (*at == '(') {
                open = at;
                end = closing;
            }
            at = closing;
        }
    if (open && end - open > 4 && strncmp(open, "(anonymous", 10) != 0)
        replace(open, (size_t)(end + 1 - open), "(...)");
}

static void drop_arguments(char *name)
{
    for (char *at = name; *at != '\0'; at++)
        if (*at == '<' && !is_operator(name, at)) {
            char *end = find_end(name, at);
            if (!end)
                return;
            if (end - at > 4)
                replace(at, (size_t)(end + 1 - at), "<...>");
            at = strchr(at, '>');
        }
}

void short_name(char *name, size_t wanted)
{
    replace_all(name, string_template, string_name);
    replace_all(name, old_string_template, string_name);
    replace_all(name, "std::string >", "std::string>");
    drop_allocators(name);
    if (strlen(name) > wanted)
        drop_parameters(name);
    if (strlen(name) > wanted)
        drop_arguments(name);
}
