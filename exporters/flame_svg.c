/* SPDX-License-Identifier: BSD-2-Clause */
/* A flame graph as SVG. The frame of all values is at the bottom. Children are above their parent, the largest on the left.
 *
 * Names may have any bytes. What XML does not allow becomes U+FFFD. Figures are written without printf's %f, whose decimal
 * point depends on the program's locale.
 */
#include "flame_svg.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "exporter_memory.h"

#define WIDTH 1200
#define MARGIN 10
#define HEAD 34        /* above the frames */
#define FRAME_HEIGHT 18
#define FOOT 24        /* below them, for a note */
#define COLUMN 722     /* of a letter of 12 pixels, in hundredths of a pixel */
#define MAX_DEPTH 512u
#define NARROWEST 10 /* frames of fewer hundredths of a pixel are not drawn */

const struct flame_svg_unit flame_svg_bytes = {"bytes", 1024, {"KiB", "MiB", "GiB", "TiB", "PiB"}};
const struct flame_svg_unit flame_svg_us = {"µs", 1000, {"ms", "s"}};

struct drawing {
    const struct flame_svg *svg;
    struct exporter_sink *sink;
    uint64_t all;
    uint32_t height; /* frames above each other, with that of all */
    uint32_t first;  /* the largest frame above that of all */
    uint64_t n_hidden;
    int error;
    size_t n_bytes;
    char name[FLAME_SVG_NAME_BYTES];
    char bytes[8192];
};

/* ---- The tree ---- */

struct by_total {
    uint64_t total;
    uint32_t frame;
};

/* The smallest first. Of equal ones the caller's last. */
static int compare(const void *a, const void *b)
{
    const struct by_total *left = a, *right = b;
    if (left->total != right->total)
        return left->total < right->total ? -1 : 1;
    return left->frame < right->frame ? 1 : -1;
}

static uint64_t sum(uint64_t a, uint64_t b)
{
    uint64_t result;
    return __builtin_add_overflow(a, b, &result) ? UINT64_MAX : result;
}

/* Adds each frame to its parent after all its children were added to it. No recursion: a tree may be deeper than a stack. */
static void add_up(struct drawing *d)
{
    struct flame_svg_frame *frames = d->svg->frames;
    uint32_t ready = FLAME_SVG_NONE;
    for (uint32_t i = 0; i < d->svg->n; i++)
        frames[i] = (struct flame_svg_frame){.parent = frames[i].parent, .own = frames[i].own, .total = frames[i].own};
    for (uint32_t i = 0; i < d->svg->n; i++)
        if (frames[i].parent != FLAME_SVG_NONE)
            frames[frames[i].parent].waits++;
    for (uint32_t i = 0; i < d->svg->n; i++)
        if (frames[i].waits == 0) {
            frames[i].next = ready;
            ready = i;
        }
    while (ready != FLAME_SVG_NONE) {
        struct flame_svg_frame *frame = &frames[ready];
        ready = frame->next;
        uint64_t *total = frame->parent == FLAME_SVG_NONE ? &d->all : &frames[frame->parent].total;
        *total = sum(*total, frame->total);
        if (frame->parent == FLAME_SVG_NONE || --frames[frame->parent].waits > 0)
            continue;
        frames[frame->parent].next = ready;
        ready = frame->parent;
    }
}

static int link_children(struct drawing *d)
{
    struct flame_svg_frame *frames = d->svg->frames;
    struct by_total *sorted = exporter_memory_take(d->sink->memory, d->svg->n + (size_t)1, sizeof *sorted);
    if (!sorted)
        return -ENOMEM;
    for (uint32_t i = 0; i < d->svg->n; i++) {
        sorted[i] = (struct by_total){frames[i].total, i};
        frames[i].first = FLAME_SVG_NONE;
    }
    if (d->svg->n > 0)
        qsort(sorted, d->svg->n, sizeof *sorted, compare);
    d->first = FLAME_SVG_NONE;
    for (uint32_t i = 0; i < d->svg->n; i++) {
        struct flame_svg_frame *frame = &frames[sorted[i].frame];
        uint32_t *first = frame->parent == FLAME_SVG_NONE ? &d->first : &frames[frame->parent].first;
        frame->next = *first;
        *first = sorted[i].frame;
    }
    exporter_memory_give(d->sink->memory, sorted);
    return 0;
}

static uint64_t hundredths(const struct drawing *d, uint64_t value)
{
    return d->all == 0 ? 0 : (uint64_t)((double)value * (WIDTH - 2 * MARGIN) * 100 / (double)d->all);
}

/* A frame that is not drawn hides those above it. */
static bool place(struct drawing *d, uint32_t at, uint64_t start, uint32_t depth)
{
    struct flame_svg_frame *frame = &d->svg->frames[at];
    bool is_drawn = depth <= MAX_DEPTH && hundredths(d, frame->total) >= NARROWEST;
    frame->start = start;
    frame->depth = is_drawn ? depth : 0;
    if (is_drawn && depth >= d->height)
        d->height = depth + 1;
    return is_drawn;
}

/* Gives each frame its place, in the order in which they are drawn: `use` is called for each one, and says whether to go on
 * with its children. */
static void walk(struct drawing *d, bool (*use)(struct drawing *d, uint32_t at, uint64_t start, uint32_t depth))
{
    const struct flame_svg_frame *frames = d->svg->frames;
    uint32_t at = d->first, depth = 1;
    uint64_t start = 0;
    while (at != FLAME_SVG_NONE && d->error == 0) {
        if (use(d, at, start, depth) && frames[at].first != FLAME_SVG_NONE) {
            at = frames[at].first;
            depth++;
            continue;
        }
        start = sum(start, frames[at].total);
        while (at != FLAME_SVG_NONE && frames[at].next == FLAME_SVG_NONE) {
            at = frames[at].parent;
            depth--;
            start = at == FLAME_SVG_NONE ? start : sum(frames[at].start, frames[at].total);
        }
        at = at == FLAME_SVG_NONE ? at : frames[at].next;
    }
}

/* ---- Text ---- */

static void flush(struct drawing *d)
{
    if (d->error == 0 && d->n_bytes > 0)
        d->error = d->sink->write(d->sink, d->bytes, d->n_bytes);
    d->n_bytes = 0;
}

static void put(struct drawing *d, const char *text, size_t n)
{
    if (d->n_bytes + n > sizeof d->bytes)
        flush(d);
    memcpy(d->bytes + d->n_bytes, text, n);
    d->n_bytes += n;
}

static void put_text(struct drawing *d, const char *text)
{
    put(d, text, strlen(text));
}

static void put_number(struct drawing *d, uint64_t n)
{
    char text[24];
    put(d, text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)n));
}

/* `digits` decimals: n is in tenths, hundredths … */
static void put_decimal(struct drawing *d, uint64_t n, unsigned base, int digits)
{
    char text[40];
    unsigned long long whole = n / base, rest = n % base;
    put(d, text, (size_t)snprintf(text, sizeof text, "%llu.%0*llu", whole, digits, rest));
}

/* One character of XML. Returns the bytes that it has in the name. */
static size_t put_character(struct drawing *d, const char *text)
{
    size_t n = utf8_character(text);
    bool is_control = n == 1 && ((unsigned char)*text < ' ' || *text == 0x7F);
    bool is_nothing = n == 3 && (memcmp(text, "\xEF\xBF\xBE", 3) == 0 || memcmp(text, "\xEF\xBF\xBF", 3) == 0);
    if (n == 0 || is_control || is_nothing)
        put_text(d, UTF8_REPLACEMENT);
    else if (*text == '<')
        put_text(d, "&lt;");
    else if (*text == '>')
        put_text(d, "&gt;");
    else if (*text == '&')
        put_text(d, "&amp;");
    else
        put(d, text, n);
    return n > 0 ? n : 1;
}

static void put_name(struct drawing *d, const char *name)
{
    while (*name != '\0')
        name += put_character(d, name);
}

/* Letters from U+1100 on may be twice as wide. */
static size_t columns_of(const char *text)
{
    return (unsigned char)*text >= 0xE1 && utf8_character(text) >= 3 ? 2 : 1;
}

/* As much of the name as fits, with an ellipsis for the rest. */
static void put_name_in(struct drawing *d, const char *name, size_t columns)
{
    size_t needed = 0;
    for (const char *at = name; *at != '\0' && needed <= columns; at += utf8_character(at) ? utf8_character(at) : 1)
        needed += columns_of(at);
    if (needed <= columns) {
        put_name(d, name);
        return;
    }
    for (size_t used = 1 + columns_of(name); used <= columns; used += columns_of(name))
        name += put_character(d, name);
    put_text(d, "…");
}

/* "1572864 bytes (1.5 MiB)" */
static void put_figure(struct drawing *d, uint64_t value)
{
    const struct flame_svg_unit *unit = d->svg->unit;
    uint64_t one = unit->base;
    size_t i = 0;
    put_number(d, value);
    put_text(d, " ");
    put_text(d, unit->name);
    if (one == 0 || value < one)
        return;
    for (; i + 1 < sizeof unit->larger / sizeof *unit->larger && unit->larger[i + 1] && value / one >= unit->base; i++)
        one *= unit->base;
    put_text(d, " (");
    put_decimal(d, (uint64_t)((double)value * 10 / (double)one + 0.5), 10, 1);
    put_text(d, " ");
    put_text(d, unit->larger[i]);
    put_text(d, ")");
}

/* ---- Colours: those of the page (hueOf() in page/model.js) ---- */

static unsigned channel(unsigned hue, unsigned shift)
{
    unsigned at = (hue + shift) % 360, distance = at < 180 ? at : 360 - at; /* from the hue where the channel is full */
    unsigned part = distance <= 60 ? 60 : distance >= 120 ? 0 : 120 - distance;
    return 137 + part * 93 / 60; /* a saturation of 65 % and a lightness of 72 % */
}

static void put_colour(struct drawing *d, const char *name)
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
    put(d, text, (size_t)snprintf(text, sizeof text, "#%02x%02x%02x", channel(hue, 0), channel(hue, 240), channel(hue, 120)));
}

/* ---- The picture ---- */

static void put_attribute(struct drawing *d, const char *name, uint64_t value)
{
    put_text(d, name);
    put_number(d, value);
    put_text(d, "\"");
}

static void put_length(struct drawing *d, const char *name, uint64_t value)
{
    put_text(d, name);
    put_decimal(d, value, 100, 2);
    put_text(d, "\"");
}

static uint64_t top_of(const struct drawing *d, uint32_t depth)
{
    return HEAD + (uint64_t)(d->height - 1 - depth) * FRAME_HEIGHT;
}

/* "request {route=/look}: 1572864 bytes (1.5 MiB), 96.2 %, alone 512 bytes" */
static void put_title(struct drawing *d, uint64_t total, uint64_t own, const char *name)
{
    put_text(d, "<g><title>");
    put_name(d, name);
    put_text(d, ": ");
    put_figure(d, total);
    put_text(d, ", ");
    put_decimal(d, d->all == 0 ? 0 : (uint64_t)((double)total * 1000 / (double)d->all + 0.5), 10, 1);
    put_text(d, " %, alone ");
    put_figure(d, own);
    put_text(d, "</title>");
}

static void put_frame(struct drawing *d, uint64_t start, uint64_t total, uint64_t own, uint32_t depth, const char *name)
{
    uint64_t left = hundredths(d, start), width = hundredths(d, sum(start, total)) - left, top = top_of(d, depth);
    size_t columns = width > 600 ? (width - 600) / COLUMN : 0;
    put_title(d, total, own, name);
    put_length(d, "<rect x=\"", left + MARGIN * 100);
    put_attribute(d, " y=\"", top);
    put_length(d, " width=\"", width);
    put_attribute(d, " height=\"", FRAME_HEIGHT - 1);
    put_text(d, " fill=\"");
    put_colour(d, name);
    put_text(d, "\"/>");
    if (columns >= 2) {
        put_length(d, "<text x=\"", left + MARGIN * 100 + 300);
        put_attribute(d, " y=\"", top + 13);
        put_text(d, ">");
        put_name_in(d, name, columns);
        put_text(d, "</text>");
    }
    put_text(d, "</g>\n");
}

static bool draw(struct drawing *d, uint32_t at, uint64_t start, uint32_t depth)
{
    const struct flame_svg_frame *frame = &d->svg->frames[at];
    if (frame->depth == 0)
        return false;
    int error = d->svg->name(d->svg->data, at, d->name);
    d->error = d->error ? d->error : error;
    if (d->error == 0)
        put_frame(d, start, frame->total, frame->own, depth, d->name);
    return true;
}

static void put_heading(struct drawing *d)
{
    put_name(d, d->svg->program);
    put_text(d, d->svg->program[0] != '\0' ? ", " : "");
    put_name(d, d->svg->figure);
    put_text(d, ": ");
    put_figure(d, d->all);
}

static void begin(struct drawing *d)
{
    uint64_t height = top_of(d, 0) + FRAME_HEIGHT + FOOT;
    put_attribute(d, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", WIDTH);
    put_attribute(d, " height=\"", height);
    put_text(d, " viewBox=\"0 0 ");
    put_number(d, WIDTH);
    put_attribute(d, " ", height);
    put_text(d, " font-family=\"monospace\" font-size=\"12\">\n<title>");
    put_heading(d);
    put_text(d, "</title>\n<style>svg{background:#fff}rect{stroke:#fff;stroke-width:.5}.say{fill:#222}g:hover rect{stroke:#000}\n"
                "@media(prefers-color-scheme:dark){svg{background:#16181d}rect{stroke:#16181d}.say{fill:#ddd}g:hover rect{stroke:#fff}}"
                "</style>\n"
                "<text class=\"say\" x=\"10\" y=\"22\" font-size=\"14\">");
    put_heading(d);
    put_text(d, "</text>\n");
}

static void count_hidden(struct drawing *d)
{
    for (uint32_t i = 0; i < d->svg->n; i++)
        d->n_hidden += d->svg->frames[i].depth == 0 && d->svg->frames[i].total > 0;
}

static void end(struct drawing *d)
{
    count_hidden(d);
    if (d->n_hidden > 0) {
        put_attribute(d, "<text class=\"say\" x=\"10\" y=\"", top_of(d, 0) + FRAME_HEIGHT + 16);
        put_text(d, ">Frames that are too narrow, or too far from the bottom, to be drawn: ");
        put_number(d, d->n_hidden);
        put_text(d, "</text>\n");
    }
    put_text(d, "</svg>\n");
    flush(d);
}

int flame_svg_write(const struct flame_svg *svg, struct exporter_sink *sink)
{
    struct drawing *d = exporter_memory_take(sink->memory, 1, sizeof *d);
    if (!d)
        return -ENOMEM;
    d->svg = svg;
    d->sink = sink;
    d->height = 1;
    add_up(d);
    d->error = link_children(d);
    walk(d, place);
    if (d->error == 0) {
        begin(d);
        put_frame(d, 0, d->all, 0, 0, "all");
        walk(d, draw);
        end(d);
    }
    int error = d->error;
    exporter_memory_give(sink->memory, d);
    return error;
}
