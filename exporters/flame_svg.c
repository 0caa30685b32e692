/* SPDX-License-Identifier: BSD-2-Clause */
/* A flame graph as SVG. The frame of all values is at the bottom. Children are above their parent, the largest on the left. */
#include "flame_svg.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "exporter_memory.h"
#include "svg_text.h"

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
    uint64_t all;
    uint32_t height; /* frames above each other, with that of all */
    uint32_t first;  /* the largest frame above that of all */
    uint64_t n_hidden;
    char name[FLAME_SVG_NAME_BYTES];
    struct svg_text text;
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
    struct by_total *sorted = exporter_memory_take(d->text.sink->memory, d->svg->n + (size_t)1, sizeof *sorted);
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
    exporter_memory_give(d->text.sink->memory, sorted);
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
    while (at != FLAME_SVG_NONE && d->text.error == 0) {
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

/* "1572864 bytes (1.5 MiB)" */
static void put_figure(struct drawing *d, uint64_t value)
{
    const struct flame_svg_unit *unit = d->svg->unit;
    uint64_t one = unit->base;
    size_t i = 0;
    svg_put_number(&d->text, value);
    svg_put(&d->text, " ");
    svg_put(&d->text, unit->name);
    if (one == 0 || value < one)
        return;
    for (; i + 1 < sizeof unit->larger / sizeof *unit->larger && unit->larger[i + 1] && value / one >= unit->base; i++)
        one *= unit->base;
    svg_put(&d->text, " (");
    svg_put_decimal(&d->text, (uint64_t)((double)value * 10 / (double)one + 0.5), 10, 1);
    svg_put(&d->text, " ");
    svg_put(&d->text, unit->larger[i]);
    svg_put(&d->text, ")");
}

/* ---- The picture ---- */

static void put_attribute(struct drawing *d, const char *name, uint64_t value)
{
    svg_put(&d->text, name);
    svg_put_number(&d->text, value);
    svg_put(&d->text, "\"");
}

static void put_length(struct drawing *d, const char *name, uint64_t value)
{
    svg_put(&d->text, name);
    svg_put_decimal(&d->text, value, 100, 2);
    svg_put(&d->text, "\"");
}

static uint64_t top_of(const struct drawing *d, uint32_t depth)
{
    return HEAD + (uint64_t)(d->height - 1 - depth) * FRAME_HEIGHT;
}

/* "request {route=/look}: 1572864 bytes (1.5 MiB), 96.2 %, alone 512 bytes" */
static void put_title(struct drawing *d, uint64_t total, uint64_t own, const char *name)
{
    svg_put(&d->text, "<g><title>");
    svg_put_name(&d->text, name);
    svg_put(&d->text, ": ");
    put_figure(d, total);
    svg_put(&d->text, ", ");
    svg_put_decimal(&d->text, d->all == 0 ? 0 : (uint64_t)((double)total * 1000 / (double)d->all + 0.5), 10, 1);
    svg_put(&d->text, " %, alone ");
    put_figure(d, own);
    svg_put(&d->text, "</title>");
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
    svg_put(&d->text, " fill=\"");
    svg_put_colour(&d->text, name);
    svg_put(&d->text, "\"/>");
    if (columns >= 2) {
        put_length(d, "<text x=\"", left + MARGIN * 100 + 300);
        put_attribute(d, " y=\"", top + 13);
        svg_put(&d->text, ">");
        svg_put_name_in(&d->text, name, columns);
        svg_put(&d->text, "</text>");
    }
    svg_put(&d->text, "</g>\n");
}

static bool draw(struct drawing *d, uint32_t at, uint64_t start, uint32_t depth)
{
    const struct flame_svg_frame *frame = &d->svg->frames[at];
    if (frame->depth == 0)
        return false;
    int error = d->svg->name(d->svg->data, at, d->name);
    d->text.error = d->text.error ? d->text.error : error;
    if (d->text.error == 0)
        put_frame(d, start, frame->total, frame->own, depth, d->name);
    return true;
}

static void put_heading(struct drawing *d)
{
    svg_put_name(&d->text, d->svg->program);
    svg_put(&d->text, d->svg->program[0] != '\0' ? ", " : "");
    svg_put_name(&d->text, d->svg->figure);
    svg_put(&d->text, ": ");
    put_figure(d, d->all);
}

static void begin(struct drawing *d)
{
    uint64_t height = top_of(d, 0) + FRAME_HEIGHT + FOOT;
    put_attribute(d, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", WIDTH);
    put_attribute(d, " height=\"", height);
    svg_put(&d->text, " viewBox=\"0 0 ");
    svg_put_number(&d->text, WIDTH);
    put_attribute(d, " ", height);
    svg_put(&d->text, " font-family=\"monospace\" font-size=\"12\">\n<title>");
    put_heading(d);
    svg_put(&d->text, "</title>\n<style>svg{background:#fff}rect{stroke:#fff;stroke-width:.5}.say{fill:#222}g:hover rect{stroke:#000}\n"
                "@media(prefers-color-scheme:dark){svg{background:#16181d}rect{stroke:#16181d}.say{fill:#ddd}g:hover rect{stroke:#fff}}"
                "</style>\n"
                "<text class=\"say\" x=\"10\" y=\"22\" font-size=\"14\">");
    put_heading(d);
    svg_put(&d->text, "</text>\n");
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
        svg_put(&d->text, ">Frames that are too narrow, or too far from the bottom, to be drawn: ");
        svg_put_number(&d->text, d->n_hidden);
        svg_put(&d->text, "</text>\n");
    }
    svg_put(&d->text, "</svg>\n");
    svg_flush(&d->text);
}

int flame_svg_write(const struct flame_svg *svg, struct exporter_sink *sink)
{
    struct drawing *d = exporter_memory_take(sink->memory, 1, sizeof *d);
    if (!d)
        return -ENOMEM;
    d->svg = svg;
    d->text.sink = sink;
    d->height = 1;
    add_up(d);
    d->text.error = link_children(d);
    walk(d, place);
    if (d->text.error == 0) {
        begin(d);
        put_frame(d, 0, d->all, 0, 0, "all");
        walk(d, draw);
        end(d);
    }
    int error = d->text.error;
    exporter_memory_give(sink->memory, d);
    return error;
}
