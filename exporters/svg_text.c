/* SPDX-License-Identifier: BSD-2-Clause */
/* Text, figures and colours of an SVG file. Figures are written without printf's %f, whose decimal point depends on the program's
 * locale. */
#include "svg_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

void svg_flush(struct svg_text *t)
{
    if (t->error == 0 && t->n > 0)
        t->error = t->sink->write(t->sink, t->bytes, t->n);
    t->n = 0;
}

static void put(struct svg_text *t, const char *text, size_t n)
{
    if (t->n + n > sizeof t->bytes)
        svg_flush(t);
    memcpy(t->bytes + t->n, text, n);
    t->n += n;
}

void svg_put(struct svg_text *t, const char *text)
{
    put(t, text, strlen(text));
}

void svg_put_number(struct svg_text *t, uint64_t n)
{
    char text[24];
    put(t, text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)n));
}

/* `digits` decimals: n is in tenths, hundredths … */
void svg_put_decimal(struct svg_text *t, uint64_t n, unsigned base, int digits)
{
    char text[40];
    unsigned long long whole = n / base, rest = n % base;
    put(t, text, (size_t)snprintf(text, sizeof text, "%llu.%0*llu", whole, digits, rest));
}

/* One character of XML. Returns the bytes that it has in the name. */
static size_t put_character(struct svg_text *t, const char *text)
{
    size_t n = utf8_character(text);
    bool is_control = n == 1 && ((unsigned char)*text < ' ' || *text == 0x7F);
    bool is_nothing = n == 3 && (memcmp(text, "\xEF\xBF\xBE", 3) == 0 || memcmp(text, "\xEF\xBF\xBF", 3) == 0);
    if (n == 0 || is_control || is_nothing)
        svg_put(t, UTF8_REPLACEMENT);
    else if (*text == '<')
        svg_put(t, "&lt;");
    else if (*text == '>')
        svg_put(t, "&gt;");
    else if (*text == '&')
        svg_put(t, "&amp;");
    else
        put(t, text, n);
    return n > 0 ? n : 1;
}

void svg_put_name(struct svg_text *t, const char *name)
{
    while (*name != '\0')
        name += put_character(t, name);
}

/* Letters from U+1100 on may be twice as wide. */
static size_t columns_of(const char *text)
{
    return (unsigned char)*text >= 0xE1 && utf8_character(text) >= 3 ? 2 : 1;
}

/* As much of the name as fits, with an ellipsis for the rest. */
void svg_put_name_in(struct svg_text *t, const char *name, size_t columns)
{
    size_t needed = 0;
    for (const char *at = name; *at != '\0' && needed <= columns; at += utf8_character(at) ? utf8_character(at) : 1)
        needed += columns_of(at);
    if (needed <= columns) {
        svg_put_name(t, name);
        return;
    }
    for (size_t used = 1 + columns_of(name); used <= columns; used += columns_of(name))
        name += put_character(t, name);
    svg_put(t, "…");
}

/* ---- Colours ---- */

static unsigned channel(unsigned hue, unsigned shift)
{
    unsigned at = (hue + shift) % 360, distance = at < 180 ? at : 360 - at; /* from the hue where the channel is full */
    unsigned part = distance <= 60 ? 60 : distance >= 120 ? 0 : 120 - distance;
    return 137 + part * 93 / 60; /* a saturation of 65 % and a lightness of 72 % */
}

void svg_put_colour(struct svg_text *t, const char *name)
{
    const char *labels = strstr(name, " {"), *end = labels ? labels : name + strlen(name);
    uint32_t hash = 2166136261u;
    char text[16];
    while (name < end) {
        uint32_t lowest, code = (unsigned char)*name;
        size_t n = utf8_character(name);
        if (n > 1) {
            code &= 0x7Fu >> utf8_sequence_bytes((unsigned char)*name, &lowest);
            for (size_t i = 1; i < n; i++)
                code = code << 6 | ((unsigned char)name[i] & 0x3F);
        }
        hash = (hash ^ code) * 16777619u;
        name += n > 0 ? n : 1;
    }
    double turns = hash * 0.618034;
    unsigned hue = (unsigned)((turns - (double)(uint64_t)turns) * 360 + 0.5);
    put(t, text, (size_t)snprintf(text, sizeof text, "#%02x%02x%02x", channel(hue, 0), channel(hue, 240), channel(hue, 120)));
}
