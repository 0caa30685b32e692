/* SPDX-License-Identifier: BSD-2-Clause */
/* A snapshot as a pprof profile.
 *
 * One sample a context, its path as the stack. Everything is written as soon as it is met while the rows are walked;
 * kept is only what recognises a string or a site met before. So a snapshot of any size needs little memory, and
 * samples, sites and strings come interleaved in the file, which the format allows.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "pprof.h"
#include "pprof_head.h"
#include "pprof_kind.h"
#include "pprof_memory.h"
#include "pprof_out.h"
#include "pprof_sites.h"
#include "pprof_strings.h"
#include "profile.pb-c.h"
#include "report/exporter.h"

struct encoder {
    const struct snapshot *snapshot;
    const struct pprof_kind *kind;
    struct pprof_out out;
    struct pprof_strings strings;
    struct pprof_sites sites;
    uint32_t *row_location; /* by row; 0 = not asked for yet */
    int64_t empty_value;    /* string index, 0 = not needed yet */
    size_t n_frames, n_labels; /* of the sample at hand */
    uint64_t frames[PPROF_MAX_FRAMES + 1];
    JespanPprof__Label labels[PPROF_MAX_LABELS];
    JespanPprof__Label *label_pointers[PPROF_MAX_LABELS];
    struct pprof_head head;
};

static int64_t text(struct encoder *e, const char *string)
{
    return pprof_strings_intern(&e->strings, string);
}

static void write_sample(struct encoder *e, int64_t values[PPROF_MAX_VALUES])
{
    JespanPprof__Sample sample = JESPAN_PPROF__SAMPLE__INIT, *samples = &sample;
    sample.n_location_id = e->n_frames;
    sample.location_id = e->frames;
    sample.n_value = (size_t)e->kind->n_values;
    sample.value = values;
    sample.n_label = e->n_labels;
    sample.label = e->label_pointers;
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    part.n_sample = 1;
    part.sample = &samples;
    pprof_out_message(&e->out, &part.base);
}

/* Index 0 would mean that the label has no text, and readers drop it; a second empty string does not. */
static int64_t value_text(struct encoder *e, const char *value)
{
    if (value[0] != '\0')
        return text(e, value);
    if (e->empty_value == 0)
        e->empty_value = pprof_strings_append(&e->strings, "");
    return e->empty_value;
}

/* With a unit, even 0 is kept; readers take the key for the unit where there is none, and would show 4096 as 4 kB where
 * the key is "bytes" or "request". */
static JespanPprof__Label make_label(struct encoder *e, const struct snapshot_label *label)
{
    JespanPprof__Label made = JESPAN_PPROF__LABEL__INIT;
    made.key = text(e, label->key);
    if (label->is_integer) {
        made.num = label->integer;
        made.num_unit = text(e, "count");
    } else {
        made.str = value_text(e, label->value);
    }
    return made;
}

/* Forgets a label that an inner span has too. */
static void remove_label(struct encoder *e, const JespanPprof__Label *label)
{
    for (size_t i = 0; i < e->n_labels; i++)
        if (e->labels[i].key == label->key && e->labels[i].str == label->str && e->labels[i].num == label->num) {
            memmove(&e->labels[i], &e->labels[i + 1], (--e->n_labels - i) * sizeof e->labels[i]);
            return;
        }
}

/* A label that several spans have is written once, for the outermost of them; the same key with another value is kept.
 * So a sample's labels end in those of any context above it, by which readers can tell what is below what. */
static void add_label(struct encoder *e, const struct snapshot_label *label)
{
    const JespanPprof__Label made = make_label(e, label);
    remove_label(e, &made);
    if (e->n_labels == PPROF_MAX_LABELS)
        return;
    e->labels[e->n_labels] = made;
    e->label_pointers[e->n_labels] = &e->labels[e->n_labels];
    e->n_labels++;
}

static void add_labels(struct encoder *e, const struct snapshot_row *row)
{
    for (uint32_t k = 0; k < row->n_labels; k++)
        add_label(e, &row->labels[k]);
}

static uint32_t row_location(struct encoder *e, uint32_t i)
{
    const struct snapshot_row *row = &e->snapshot->rows[i];
    if (e->row_location[i] == 0)
        e->row_location[i] = pprof_sites_location(&e->sites, row->name, row->target, row->file, row->line);
    return e->row_location[i];
}

static bool is_root(const struct snapshot *s, uint32_t i)
{
    return i >= s->n_rows || s->rows[i].parent_row == i;
}

/* The path, leaf first, without the root, and the labels on it, nearest first. A path too long to keep loses its outer
 * end, so that writing stays linear in the number of rows whatever their shape. */
static void walk_path(struct encoder *e, uint32_t i)
{
    e->n_frames = e->n_labels = 0;
    for (;; i = e->snapshot->rows[i].parent_row) {
        if (is_root(e->snapshot, i) && e->n_frames > 0)
            return;
        const struct snapshot_row *row = &e->snapshot->rows[i];
        if (e->n_frames == PPROF_MAX_FRAMES)
            break;
        e->frames[e->n_frames++] = row_location(e, i);
        if (e->n_frames == 1 || !e->snapshot->labels_of_path)
            add_labels(e, row);
    }
    e->frames[e->n_frames++] = pprof_sites_location(&e->sites, "(path cut)", "", "", 0);
}

/* Returns whether there is anything to show. */
static bool read_values(const struct encoder *e, const struct totals *t, int64_t values[PPROF_MAX_VALUES])
{
    bool any = false;
    e->kind->read(t, values);
    for (int i = 0; i < e->kind->n_values; i++)
        any |= values[i] != 0;
    return any;
}

static void write_row(struct encoder *e, uint32_t i)
{
    int64_t values[PPROF_MAX_VALUES];
    if (!read_values(e, &e->snapshot->rows[i].totals, values))
        return;
    walk_path(e, i);
    write_sample(e, values);
}

static void write_retired(struct encoder *e)
{
    int64_t values[PPROF_MAX_VALUES];
    if (!read_values(e, &e->snapshot->retired, values))
        return;
    e->frames[0] = pprof_sites_location(&e->sites, "(retired)", "", "", 0);
    e->n_frames = 1;
    e->n_labels = 0;
    write_sample(e, values);
}

static int write_profile(struct encoder *e)
{
    pprof_strings_init(&e->strings, &e->out);
    pprof_sites_init(&e->sites, &e->strings);
    pprof_head_write(&e->head, &e->strings, e->kind, e->snapshot);
    for (uint32_t i = 0; i < e->snapshot->n_rows && e->out.error == 0; i++)
        write_row(e, i);
    write_retired(e);
    return pprof_out_finish(&e->out);
}

int pprof_encode(const struct snapshot *snapshot, const struct pprof_kind *kind, enum pprof_form form,
                 struct exporter_sink *sink)
{
    struct encoder *e = pprof_memory_take(sink->memory, 1, sizeof *e);
    if (e == NULL)
        return -ENOMEM;
    e->snapshot = snapshot;
    e->kind = kind;
    e->row_location = pprof_memory_take(sink->memory, snapshot->n_rows + (size_t)1, sizeof *e->row_location);
    int error = pprof_out_init(&e->out, form, sink);
    if (error == 0)
        error = e->row_location == NULL ? -ENOMEM : write_profile(e);
    pprof_sites_free(&e->sites);
    pprof_strings_free(&e->strings);
    pprof_out_free(&e->out);
    pprof_memory_give(sink->memory, e->row_location);
    pprof_memory_give(sink->memory, e);
    return error;
}
