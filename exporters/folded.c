/* SPDX-License-Identifier: BSD-2-Clause */
/* The exporter `folded`: folded stacks, the text that flame graph tools read. A line has a path, outermost span first,
 * and a value: `request{route=put};parse 1234`. docs/folded.md has the format.
 *
 * Readers take the text after the last blank for the value, and split the rest at semicolons. They take two numbers for
 * a difference. So names and labels must have neither blanks nor semicolons: such bytes are written as %20 and %3B.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "exporter_memory.h"
#include "folded.h"
#include "report/exporter.h"

#define MAX_FRAMES 512 /* as in pprof.h. A longer path loses its outer end, so writing is linear in the number of rows */
#define NS_PER_US 1000

/* The output. After the first error it takes nothing more. */
struct folded {
    struct exporter_sink *sink;
    int error;
    uint32_t path[MAX_FRAMES]; /* rows, innermost first. A thread's stack may be small */
    size_t n_bytes;
    char bytes[(size_t)64 << 10];
};

static void flush(struct folded *f)
{
    if (f->error == 0 && f->n_bytes > 0)
        f->error = f->sink->write(f->sink, f->bytes, f->n_bytes);
    f->n_bytes = 0;
}

static void put(struct folded *f, char c)
{
    if (f->n_bytes == sizeof f->bytes)
        flush(f);
    f->bytes[f->n_bytes++] = c;
}

static void put_text(struct folded *f, const char *text)
{
    while (*text != '\0')
        put(f, *text++);
}

static void put_escaped(struct folded *f, unsigned char c)
{
    char text[sizeof "%FF"];
    snprintf(text, sizeof text, "%%%02X", c);
    put_text(f, text);
}

/* Also escapes the bytes that are not part of a valid character: readers refuse a file that is not UTF-8. */
static void put_name(struct folded *f, const char *name)
{
    while (*name != '\0') {
        size_t bytes = folded_character(name);
        if (bytes == 0) {
            put_escaped(f, (unsigned char)*name++);
            continue;
        }
        for (; bytes > 0; bytes--)
            put(f, *name++);
    }
}

static void put_labels(struct folded *f, const struct snapshot_row *row)
{
    for (uint32_t i = 0; i < row->n_labels; i++) {
        put(f, i == 0 ? '{' : ',');
        put_name(f, row->labels[i].key);
        put(f, '=');
        put_name(f, row->labels[i].value);
    }
    if (row->n_labels > 0)
        put(f, '}');
}

static void put_frame(struct folded *f, const struct snapshot_row *row)
{
    put_name(f, row->name[0] != '\0' ? row->name : "(unnamed)");
    put_labels(f, row);
}

static void put_value(struct folded *f, uint64_t value)
{
    char text[sizeof " 18446744073709551615\n"];
    snprintf(text, sizeof text, " %llu\n", (unsigned long long)value);
    put_text(f, text);
}

static bool is_root(const struct snapshot *s, uint32_t row)
{
    return row >= s->n_rows || s->rows[row].parent_row == row;
}

/* Writes a path without the root. The root's own path is the root. */
static void put_path(struct folded *f, const struct snapshot *s, uint32_t row)
{
    size_t n = 0;
    do {
        f->path[n++] = row;
        row = s->rows[row].parent_row;
    } while (!is_root(s, row) && n < MAX_FRAMES);
    if (!is_root(s, row)) {
        put_name(f, "(path cut)");
        put(f, ';');
    }
    while (n-- > 0) {
        put_frame(f, &s->rows[f->path[n]]);
        if (n > 0)
            put(f, ';');
    }
}

static uint64_t value_of(const struct totals *t, enum exporter_profile profile)
{
    return profile == EXPORTER_HEAP ? totals_inuse_bytes(t) : t->busy / NS_PER_US;
}

static void write_lines(struct folded *f, const struct snapshot *s, enum exporter_profile profile)
{
    for (uint32_t i = 0; i < s->n_rows && f->error == 0; i++) {
        uint64_t value = value_of(&s->rows[i].totals, profile);
        if (value == 0)
            continue;
        put_path(f, s, i);
        put_value(f, value);
    }
    if (value_of(&s->retired, profile) > 0) {
        put_text(f, "(retired)");
        put_value(f, value_of(&s->retired, profile));
    }
}

static int encode(const struct snapshot *snapshot, enum exporter_profile profile, struct exporter_sink *sink)
{
    if ((unsigned)profile >= EXPORTER_N_PROFILES)
        return -EINVAL;
    struct folded *f = exporter_memory_take(sink->memory, 1, sizeof *f);
    if (!f)
        return -ENOMEM;
    f->sink = sink;
    write_lines(f, snapshot, profile);
    flush(f);
    int error = f->error;
    exporter_memory_give(sink->memory, f);
    return error;
}

EXPORTER_DEFINE(folded);
const struct exporter jespan_exporter_folded = {
    .abi = EXPORTER_ABI,
    .name = "folded",
    .suffix = ".folded",
    .encode = encode,
};
