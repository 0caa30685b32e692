/* SPDX-License-Identifier: BSD-2-Clause */
/* The rows of a tree as a flame graph: `jespan report --svg`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "exporters/flame_svg.h"
#include "report.h"

static const struct flame_svg_unit ns = {"ns", 1000, {"µs", "ms", "s"}};
static const struct flame_svg_unit objects = {"objects", 0, {NULL}}, spans = {"spans", 0, {NULL}};

static const struct shown {
    enum profile_kind kind;
    int sort;
    const char *figure;
    const struct flame_svg_unit *unit;
} all_shown[] = {
    {PROFILE_HEAP, PROFILE_INUSE_BYTES, "memory in use", &flame_svg_bytes},
    {PROFILE_HEAP, PROFILE_ALLOC_BYTES, "memory allocated", &flame_svg_bytes},
    {PROFILE_HEAP, PROFILE_INUSE_OBJECTS, "objects in use", &objects},
    {PROFILE_HEAP, PROFILE_ALLOC_OBJECTS, "objects allocated", &objects},
    {PROFILE_HEAP, REPORT_SORT_AT_PEAK, "memory in use at the peak", &flame_svg_bytes},
    {PROFILE_HEAP, PROFILE_TEMPORARY, "temporary allocations", &objects},
    {PROFILE_TIME, PROFILE_CPU, "CPU time", &ns},
    {PROFILE_TIME, PROFILE_BUSY, "busy time", &ns},
    {PROFILE_TIME, PROFILE_WALL, "wall time", &ns},
    {PROFILE_TIME, PROFILE_OPENS, "spans opened", &spans},
};

/* NULL: the figure does not add up. */
static const struct shown *find_shown(enum profile_kind kind, int sort)
{
    for (size_t i = 0; i < sizeof all_shown / sizeof *all_shown; i++)
        if (all_shown[i].kind == kind && all_shown[i].sort == sort)
            return &all_shown[i];
    return NULL;
}

struct naming {
    const struct report_table *table;
    struct text *text;
};

static int name_row(void *data, uint32_t row, char name[FLAME_SVG_NAME_BYTES])
{
    struct naming *n = data;
    int error = report_row_text(n->table, n->text, &n->table->rows.items[row]);
    text_copy(n->text, name, FLAME_SVG_NAME_BYTES);
    return error;
}

static uint64_t not_negative(int64_t value)
{
    return value < 0 ? 0 : (uint64_t)value;
}

/* Rows have the values of those below them, except opens. */
static void fill_frames(struct flame_svg_frame *frames, const struct report_table *table)
{
    const struct report_rows *rows = &table->rows;
    bool is_inclusive = table->sort != report_own_value(table->kind);
    for (uint32_t i = 0; i < rows->n; i++)
        frames[i] = (struct flame_svg_frame){.parent = rows->items[i].parent, .own = not_negative(rows->items[i].key)};
    for (uint32_t i = 0; i < rows->n; i++) {
        struct flame_svg_frame *parent = rows->items[i].parent == REPORT_NONE ? NULL : &frames[rows->items[i].parent];
        uint64_t value = not_negative(rows->items[i].key);
        if (parent && is_inclusive)
            parent->own -= value < parent->own ? value : parent->own;
    }
}

const char *report_svg_refuses(const struct report_table *table)
{
    for (uint32_t i = 0; i < table->rows.n; i++)
        if (table->rows.items[i].key < 0)
            return "--svg cannot draw figures below 0, such as those of a difference; --folded prints them";
    return NULL;
}

static int print(struct exporter_sink *sink, const void *data, size_t bytes)
{
    (void)sink;
    return fwrite(data, 1, bytes, stdout) == bytes ? 0 : -EIO;
}

int report_print_svg(struct report_table *table)
{
    static char program[FLAME_SVG_NAME_BYTES];
    const struct shown *shown = find_shown(table->kind, table->sort);
    struct exporter_sink sink = {.write = print};
    struct naming naming = {.table = table, .text = text_new()};
    struct flame_svg svg = {.program = program, .figure = shown->figure, .unit = shown->unit, .n = table->rows.n,
                            .frames = calloc(table->rows.n + (size_t)1, sizeof *svg.frames), .name = name_row, .data = &naming};
    int error = naming.text && svg.frames ? 0 : -ENOMEM;
    if (error == 0) {
        ProtobufCBinaryData name = profile_program(&table->inputs[0].profile);
        text_clear(naming.text);
        text_add_bytes(naming.text, name.data, name.len, TEXT_MAX_CHARS);
        text_copy(naming.text, program, sizeof program);
        fill_frames(svg.frames, table);
        error = flame_svg_write(&svg, &sink);
    }
    free(naming.text);
    free(svg.frames);
    return error == -EIO ? 0 : error; /* the caller looks at stdout */
}
