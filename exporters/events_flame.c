/* SPDX-License-Identifier: BSD-2-Clause */
/* The flames of the service `events`, which it writes once, at the end: times as folded stacks, and a flame graph as SVG. */
#include "events_out.h"

#include <errno.h>
#include <string.h>

#include "exporter_memory.h"
#include "flame_svg.h"

EXPORTER_DEFINE(folded);

#define NS_PER_US 1000

enum { INUSE, BUSY }; /* flame_svg_figure */

struct flame_sink {
    struct exporter_sink sink; /* first */
    struct events_file *file;
};

static int write_flame(struct exporter_sink *sink, const void *data, size_t bytes)
{
    struct events_file *f = ((struct flame_sink *)sink)->file;
    for (const char *from = data; bytes > 0;) {
        size_t n = bytes < EVENTS_PIECE_BYTES ? bytes : EVENTS_PIECE_BYTES;
        char *to = events_file_line(f);
        if (!to)
            return -EFBIG;
        memcpy(to, from, n);
        events_file_added(f, to + n);
        from += n;
        bytes -= n;
    }
    return 0;
}

void events_flame_folded(struct events_file *f, const struct snapshot *s)
{
    struct flame_sink sink = {{.write = write_flame}, f};
    jespan_exporter_folded.encode(s, EXPORTER_TIME, &sink.sink);
}

/* ---- The flame graph ---- */

static int name_row(void *data, uint32_t at, char text[FLAME_SVG_NAME_BYTES])
{
    const struct snapshot *s = data;
    const char *end = text + FLAME_SVG_NAME_BYTES - 1;
    char *to = text;
    if (at == s->n_rows || at == 0) {
        strcpy(text, at == 0 ? "(root)" : "(retired)");
        return 0;
    }
    const struct snapshot_row *row = &s->rows[at];
    to = events_text(to, end, row->name[0] != '\0' ? row->name : "(unnamed)");
    for (uint32_t i = 0; i < row->n_labels; i++) {
        to = events_text(events_text(to, end, i == 0 ? " {" : ", "), end, row->labels[i].key);
        to = events_text(events_text(to, end, "="), end, row->labels[i].value);
    }
    *events_text(to, end, row->n_labels > 0 ? "}" : "") = '\0';
    return 0;
}

static uint64_t value_of(const struct totals *t, uint64_t figure)
{
    return figure == INUSE ? totals_inuse_bytes(t) : t->busy / NS_PER_US;
}

/* As in folded stacks, the root is a frame beside those of its children. */
static void fill_frames(struct flame_svg_frame *frames, const struct snapshot *s, uint64_t figure)
{
    for (uint32_t i = 0; i < s->n_rows; i++) {
        frames[i].parent = s->rows[i].parent_row == 0 ? FLAME_SVG_NONE : s->rows[i].parent_row;
        frames[i].own = value_of(&s->rows[i].totals, figure);
    }
    frames[s->n_rows] = (struct flame_svg_frame){.parent = FLAME_SVG_NONE, .own = value_of(&s->retired, figure)};
}

void events_flame_svg(struct events_file *f, const struct snapshot *s, const char *program)
{
    struct flame_sink sink = {{.write = write_flame}, f};
    uint64_t figure = f->host->conf->flame_svg_figure;
    struct flame_svg svg = {.program = program, .figure = figure == INUSE ? "memory in use" : "busy time",
                            .unit = figure == INUSE ? &flame_svg_bytes : &flame_svg_us, .n = s->n_rows + 1,
                            .name = name_row, .data = (void *)s};
    int error = -ENOMEM;
    svg.frames = calloc(svg.n, sizeof *svg.frames);
    if (svg.frames) {
        fill_frames(svg.frames, s, figure);
        error = flame_svg_write(&svg, &sink.sink);
    }
    free(svg.frames);
    if (error == -ENOMEM)
        f->host->say((const char *const[]){f->path, ": out of memory", NULL});
}
