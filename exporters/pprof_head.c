/* SPDX-License-Identifier: BSD-2-Clause */
/* What a profile says once: kinds of values, the program, when. */
#include <config.h>

#include "pprof_head.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "pprof_sites.h"
#include "profile.pb-c.h"

static void set_type(JespanPprof__ValueType *to, struct pprof_strings *strings, const struct pprof_type *type)
{
    jespan_pprof__value_type__init(to);
    to->type = pprof_strings_intern(strings, type->name);
    to->unit = pprof_strings_intern(strings, type->unit);
}

static void write_value_types(struct pprof_strings *strings, const struct pprof_kind *kind)
{
    JespanPprof__ValueType types[PPROF_MAX_VALUES], *pointers[PPROF_MAX_VALUES], period;
    for (int i = 0; i < kind->n_values; i++) {
        set_type(&types[i], strings, &kind->values[i]);
        pointers[i] = &types[i];
    }
    set_type(&period, strings, &kind->period);
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    part.n_sample_type = (size_t)kind->n_values;
    part.sample_type = pointers;
    part.period_type = &period;
    part.period = 1;
    pprof_out_message(strings->out, &part.base);
}

/* With functions, files and lines said to be known, no reader tries to look them up in the binary. */
static void write_mapping(struct pprof_strings *strings, JespanPprof__Mapping *mapping)
{
    mapping->has_functions = mapping->has_filenames = mapping->has_line_numbers = 1;
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    part.n_mapping = 1;
    part.mapping = &mapping;
    pprof_out_message(strings->out, &part.base);
}

static void write_program(struct pprof_strings *strings, struct pprof_mapping *from)
{
    pprof_mapping_read(from);
    JespanPprof__Mapping mapping = JESPAN_PPROF__MAPPING__INIT;
    mapping.id = PPROF_PROGRAM_MAPPING_ID;
    mapping.memory_start = from->start;
    mapping.memory_limit = from->limit;
    mapping.file_offset = from->offset;
    mapping.filename = pprof_strings_intern(strings, from->file);
    mapping.build_id = pprof_strings_intern(strings, from->build_id);
    write_mapping(strings, &mapping);
}

/* Where the made-up addresses of sites are. A name in brackets is that of no file, as with the kernel's [vdso]. */
static void write_sites_mapping(struct pprof_strings *strings)
{
    JespanPprof__Mapping mapping = JESPAN_PPROF__MAPPING__INIT;
    mapping.id = PPROF_SITES_MAPPING_ID;
    mapping.memory_start = PPROF_SITES_START;
    mapping.memory_limit = PPROF_SITES_LIMIT;
    mapping.filename = pprof_strings_intern(strings, "[jespan]");
    write_mapping(strings, &mapping);
}

static void write_times_and_comment(struct pprof_strings *strings, const struct snapshot *s, char *text, size_t bytes)
{
    int n = snprintf(text, bytes, "jespan %s", PACKAGE_VERSION);
    if (s->epoch > 0) /* else it was made of others */
        snprintf(text + n, bytes - (size_t)n, ", process %" PRIu32 ", snapshot %" PRIu64, s->pid, s->epoch);
    int64_t comment = pprof_strings_intern(strings, text);
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    part.time_nanos = (int64_t)s->time_unix_ns;
    part.duration_nanos = s->time_unix_ns > s->start_unix_ns ? (int64_t)(s->time_unix_ns - s->start_unix_ns) : 0;
    part.n_comment = 1;
    part.comment = &comment;
    pprof_out_message(strings->out, &part.base);
}

void pprof_head_write(struct pprof_head *head, struct pprof_strings *strings, const struct pprof_kind *kind,
                      const struct snapshot *snapshot)
{
    write_value_types(strings, kind);
    write_program(strings, &head->mapping);
    write_sites_mapping(strings);
    write_times_and_comment(strings, snapshot, head->comment, sizeof head->comment);
}
