/* SPDX-License-Identifier: BSD-2-Clause */
/* What a profile says once: kinds of values, the program, when. */
#include <config.h>

#include "pprof_head.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "pprof_sites.h"
#include "profile.pb-c.h"

/* pprof picks the last sample type, the space in use, by default. It is not named as the default: other readers fail on
 * that field. */
static void write_value_types(struct pprof_strings *strings)
{
    JespanPprof__ValueType types[] = {JESPAN_PPROF__VALUE_TYPE__INIT, JESPAN_PPROF__VALUE_TYPE__INIT,
                                      JESPAN_PPROF__VALUE_TYPE__INIT, JESPAN_PPROF__VALUE_TYPE__INIT};
    JespanPprof__ValueType *pointers[] = {&types[0], &types[1], &types[2], &types[3]};
    static const char *const names[] = {"alloc_objects", "alloc_space", "inuse_objects", "inuse_space"};
    for (size_t i = 0; i < 4; i++) {
        types[i].type = pprof_strings_intern(strings, names[i]);
        types[i].unit = pprof_strings_intern(strings, i % 2 == 0 ? "count" : "bytes");
    }
    JespanPprof__ValueType period = JESPAN_PPROF__VALUE_TYPE__INIT;
    period.type = pprof_strings_intern(strings, "space");
    period.unit = pprof_strings_intern(strings, "bytes");
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    part.n_sample_type = 4;
    part.sample_type = pointers;
    part.period_type = &period;
    part.period = 1;
    pprof_out_message(strings->out, &part.base);
}

/* With functions, files and lines said to be known, no reader tries to look them up in the binary. */
static void write_mapping(struct pprof_strings *strings, struct pprof_mapping *from)
{
    pprof_mapping_read(from);
    JespanPprof__Mapping mapping = JESPAN_PPROF__MAPPING__INIT, *mappings = &mapping;
    mapping.id = PPROF_MAPPING_ID;
    mapping.memory_start = from->start;
    mapping.memory_limit = from->limit;
    mapping.file_offset = from->offset;
    mapping.filename = pprof_strings_intern(strings, from->file);
    mapping.build_id = pprof_strings_intern(strings, from->build_id);
    mapping.has_functions = mapping.has_filenames = mapping.has_line_numbers = 1;
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    part.n_mapping = 1;
    part.mapping = &mappings;
    pprof_out_message(strings->out, &part.base);
}

static void write_times_and_comment(struct pprof_strings *strings, const struct snapshot *s, char *text, size_t bytes)
{
    snprintf(text, bytes, "jespan %s, process %" PRIu32 ", snapshot %" PRIu64, PACKAGE_VERSION, s->pid,
             s->epoch);
    int64_t comment = pprof_strings_intern(strings, text);
    JespanPprof__Profile part = JESPAN_PPROF__PROFILE__INIT;
    part.time_nanos = (int64_t)s->time_unix_ns;
    part.duration_nanos = s->time_unix_ns > s->start_unix_ns ? (int64_t)(s->time_unix_ns - s->start_unix_ns) : 0;
    part.n_comment = 1;
    part.comment = &comment;
    pprof_out_message(strings->out, &part.base);
}

void pprof_head_write(struct pprof_head *head, struct pprof_strings *strings, const struct snapshot *snapshot)
{
    write_value_types(strings);
    write_mapping(strings, &head->mapping);
    write_times_and_comment(strings, snapshot, head->comment, sizeof head->comment);
}
