/* SPDX-License-Identifier: BSD-2-Clause */
/* Encodes a snapshot as a pprof profile.
 *
 * Each context is one sample, with its path as the stack. The encoder walks the rows and writes each string, site and
 * sample at once. It keeps only what it needs to recognise strings and sites. So a snapshot of any size needs little
 * memory. Samples, sites and strings are interleaved in the file, which the format allows.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "exporter_memory.h"
#include "pprof.h"
#include "pprof_parts.h"
#include "profile.pb-c.h"
#include "report/exporter.h"

/* ---- The kinds of profiles ---- */

static void read_heap(const struct totals *t, int64_t *values)
{
    values[0] = (int64_t)t->alloc_objects;
    values[1] = (int64_t)t->alloc_bytes;
    values[2] = (int64_t)totals_inuse_objects(t);
    values[3] = (int64_t)totals_inuse_bytes(t);
}

static void read_allocs(const struct totals *t, int64_t values[PPROF_MAX_VALUES])
{
    values[0] = (int64_t)totals_inuse_objects(t);
    values[1] = (int64_t)totals_inuse_bytes(t);
    values[2] = (int64_t)t->alloc_objects;
    values[3] = (int64_t)t->alloc_bytes;
}

static void read_time(const struct totals *t, int64_t values[PPROF_MAX_VALUES])
{
    values[0] = (int64_t)t->opens;
    values[1] = (int64_t)t->wall;
    values[2] = (int64_t)t->busy;
    values[3] = (int64_t)t->cpu;
}

static void read_wall(const struct totals *t, int64_t values[PPROF_MAX_VALUES])
{
    values[0] = (int64_t)t->wall;
}

static void read_cpu(const struct totals *t, int64_t values[PPROF_MAX_VALUES])
{
    values[0] = (int64_t)t->cpu;
}

/* After the peaks */
static void read_dump(const struct totals *t, int64_t values[PPROF_MAX_VALUES])
{
    memset(values, 0, PPROF_MAX_VALUES * sizeof *values);
    read_heap(t, values + 3);
}

static void read_dump_temporary(const struct totals *t, int64_t values[PPROF_MAX_VALUES])
{
    memset(values, 0, PPROF_MAX_VALUES * sizeof *values);
    values[3] = (int64_t)t->temporary_objects;
    read_heap(t, values + 4);
}

static void read_dump_lifetimes(const struct totals *t, int64_t values[PPROF_MAX_VALUES])
{
    memset(values, 0, PPROF_MAX_VALUES * sizeof *values);
    values[3] = (int64_t)t->lifetimes;
    values[4] = (int64_t)t->temporary_objects;
    read_heap(t, values + 5);
}

/* The first two are the most that a context had at once: alone, and with all below it. They cannot be added up. The third
 * is what contexts had when the process had most. */
const struct pprof_kind pprof_dump = {
    .values = {{"max_space", "bytes"}, {"max_total_space", "bytes"}, {"peak_space", "bytes"},
               {"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"}, {"inuse_space", "bytes"}},
    .n_values = 7,
    .period = {"space", "bytes"},
    .read = read_dump,
    .has_peaks = true,
};

/* The same for programs in which temporary allocations were counted. */
static const struct pprof_kind pprof_dump_temporary = {
    .values = {{"max_space", "bytes"}, {"max_total_space", "bytes"}, {"peak_space", "bytes"}, {"temporary_objects", "count"},
               {"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"}, {"inuse_space", "bytes"}},
    .n_values = 8,
    .period = {"space", "bytes"},
    .read = read_dump_temporary,
    .has_peaks = true,
};

/* The same for programs with lifetimes:true. */
static const struct pprof_kind pprof_dump_lifetimes = {
    .values = {{"max_space", "bytes"}, {"max_total_space", "bytes"}, {"peak_space", "bytes"}, {"lifetimes", "microseconds"},
               {"temporary_objects", "count"}, {"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"},
               {"inuse_space", "bytes"}},
    .n_values = 9,
    .period = {"space", "bytes"},
    .read = read_dump_lifetimes,
    .has_peaks = true,
};

static const struct pprof_kind *kind_of(const struct snapshot *snapshot, const struct pprof_kind *kind)
{
    if (kind != &pprof_dump)
        return kind;
    return snapshot->all.lifetimes ? &pprof_dump_lifetimes : snapshot->all.temporary_objects ? &pprof_dump_temporary : kind;
}

const struct pprof_kind pprof_heap = {
    .values = {{"alloc_objects", "count"}, {"alloc_space", "bytes"}, {"inuse_objects", "count"}, {"inuse_space", "bytes"}},
    .n_values = 4,
    .period = {"space", "bytes"},
    .read = read_heap,
};

const struct pprof_kind pprof_allocs = {
    .values = {{"inuse_objects", "count"}, {"inuse_space", "bytes"}, {"alloc_objects", "count"}, {"alloc_space", "bytes"}},
    .n_values = 4,
    .period = {"space", "bytes"},
    .read = read_allocs,
};

const struct pprof_kind pprof_time = {
    .values = {{"opens", "count"}, {"wall", "nanoseconds"}, {"busy", "nanoseconds"}, {"cpu", "nanoseconds"}},
    .n_values = 4,
    .period = {"cpu", "nanoseconds"},
    .read = read_time,
};

const struct pprof_kind pprof_wall = {
    .values = {{"wall", "nanoseconds"}},
    .n_values = 1,
    .period = {"wall", "nanoseconds"},
    .read = read_wall,
};

const struct pprof_kind pprof_cpu = {
    .values = {{"cpu", "nanoseconds"}},
    .n_values = 1,
    .period = {"cpu", "nanoseconds"},
    .read = read_cpu,
};

const struct pprof_kind *pprof_kind_find(enum exporter_profile profile)
{
    static const struct pprof_kind *const kinds[EXPORTER_N_PROFILES] = {
        [EXPORTER_HEAP] = &pprof_dump, [EXPORTER_TIME] = &pprof_time};
    return (unsigned)profile < EXPORTER_N_PROFILES ? kinds[profile] : NULL;
}

/* ---- Encoding ---- */

struct encoder {
    const struct snapshot *snapshot;
    const struct pprof_kind *kind;
    struct pprof_out out;
    struct pprof_strings strings;
    struct pprof_sites sites;
    struct pprof_stacks stacks;
    uint32_t *row_location; /* location id by row. 0: none yet */
    int64_t empty_value;    /* string index. 0: none yet */
    size_t n_frames, n_labels; /* of the present sample */
    uint64_t frames[PPROF_MAX_STACK_FRAMES + PPROF_MAX_FRAMES + 1];
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

/* Index 0 means that the label has no text, and readers drop such labels. So an empty value is a second empty
 * string. */
static int64_t value_text(struct encoder *e, const char *value)
{
    if (value[0] != '\0')
        return text(e, value);
    if (e->empty_value == 0)
        e->empty_value = pprof_strings_append(&e->strings, "");
    return e->empty_value;
}

/* The unit makes readers keep a 0. Without a unit they take the key for it, and show 4096 as 4 kB if the key is
 * "bytes" or "request". */
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

/* Removes the label of the next inner span that has the key, if the values are equal. */
static void remove_label(struct encoder *e, const JespanPprof__Label *label)
{
    size_t i = e->n_labels;
    while (i > 0 && e->labels[i - 1].key != label->key)
        i--;
    if (i == 0 || e->labels[i - 1].str != label->str || e->labels[i - 1].num != label->num)
        return;
    memmove(&e->labels[i - 1], &e->labels[i], (e->n_labels - i) * sizeof e->labels[i]);
    e->n_labels--;
}

/* A label that spans have again is written once, for the outermost of them. If a span between them has another value, both are
 * kept, so that the first value of a key is that of the nearest span. The labels of a sample end with those of each
 * ancestor, and readers can tell ancestors from it. */
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

/* Collects the path without the root, leaf first, and its labels, nearest first. A path that is too long loses its
 * outer end. So writing is linear in the number of rows for any tree. `n_inner` frames of a stack are there already. */
static void walk_path(struct encoder *e, uint32_t i, size_t n_inner)
{
    e->n_frames = n_inner;
    e->n_labels = 0;
    for (;; i = e->snapshot->rows[i].parent_row) {
        if (is_root(e->snapshot, i) && e->n_frames > n_inner)
            return;
        const struct snapshot_row *row = &e->snapshot->rows[i];
        if (e->n_frames == n_inner + PPROF_MAX_FRAMES)
            break;
        e->frames[e->n_frames++] = row_location(e, i);
        if (e->n_frames == n_inner + 1 || !e->snapshot->labels_of_path)
            add_labels(e, row);
    }
    e->frames[e->n_frames++] = pprof_sites_location(&e->sites, "(path cut)", "", "", 0);
}

/* Returns false if all values are 0. */
static bool read_values(const struct encoder *e, const struct totals *t, const struct snapshot_peaks *peaks,
                        int64_t values[PPROF_MAX_VALUES])
{
    bool any = false;
    e->kind->read(t, values);
    if (e->kind->has_peaks) {
        values[PPROF_PEAKS] = (int64_t)peaks->own_bytes;
        values[PPROF_PEAKS + 1] = (int64_t)peaks->total_bytes;
        values[PPROF_PEAKS + 2] = (int64_t)peaks->at_peak_bytes;
    }
    for (int i = 0; i < e->kind->n_values; i++)
        any |= values[i] != 0;
    return any;
}

/* The stacks of a context are samples of their own, with the frames of the stack inside those of the path. The rest of
 * the context's figures is a sample without them. It also has the context's own peaks, which do not add up. */
static void write_stacks(struct encoder *e, uint32_t i, struct totals *rest, struct snapshot_peaks *rest_peaks)
{
    int64_t values[PPROF_MAX_VALUES];
    const struct snapshot *s = e->snapshot;
    for (uint32_t k = s->rows[i].first_stack; k && e->out.error == 0; k = s->stacks[k - 1].next) {
        const struct snapshot_stack *stack = &s->stacks[k - 1];
        const struct snapshot_peaks peaks = {stack->peak_bytes, stack->peak_bytes, stack->at_peak_bytes};
        totals_subtract(rest, &stack->totals);
        rest_peaks->at_peak_bytes -= peaks.at_peak_bytes < rest_peaks->at_peak_bytes ? peaks.at_peak_bytes : rest_peaks->at_peak_bytes;
        if (!read_values(e, &stack->totals, &peaks, values))
            continue;
        walk_path(e, i, pprof_stacks_walk(&e->stacks, stack->frame, e->frames));
        write_sample(e, values);
    }
}

static void write_row(struct encoder *e, uint32_t i)
{
    int64_t values[PPROF_MAX_VALUES];
    struct totals own = e->snapshot->rows[i].totals;
    struct snapshot_peaks peaks = e->snapshot->rows[i].peaks;
    write_stacks(e, i, &own, &peaks);
    if (!read_values(e, &own, &peaks, values))
        return;
    walk_path(e, i, 0);
    write_sample(e, values);
}

static void write_retired(struct encoder *e)
{
    int64_t values[PPROF_MAX_VALUES];
    if (!read_values(e, &e->snapshot->retired, &e->snapshot->retired_peaks, values))
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
    pprof_stacks_init(&e->stacks, &e->strings, e->snapshot, pprof_head_program(&e->head, e->snapshot));
    for (uint32_t i = 0; i < e->snapshot->n_rows && e->out.error == 0; i++)
        write_row(e, i);
    write_retired(e);
    return pprof_out_finish(&e->out);
}

int pprof_encode(const struct snapshot *snapshot, const struct pprof_kind *kind, enum pprof_form form,
                 struct exporter_sink *sink)
{
    struct encoder *e = exporter_memory_take(sink->memory, 1, sizeof *e);
    if (!e)
        return -ENOMEM;
    e->snapshot = snapshot;
    e->kind = kind_of(snapshot, kind);
    e->row_location = exporter_memory_take(sink->memory, snapshot->n_rows + (size_t)1, sizeof *e->row_location);
    int error = pprof_out_init(&e->out, form, sink);
    if (error == 0)
        error = e->row_location ? write_profile(e) : -ENOMEM;
    pprof_stacks_free(&e->stacks);
    pprof_sites_free(&e->sites);
    pprof_strings_free(&e->strings);
    pprof_out_free(&e->out);
    exporter_memory_give(sink->memory, e->row_location);
    exporter_memory_give(sink->memory, e);
    return error;
}
