/* SPDX-License-Identifier: BSD-2-Clause */
/* The names of numbered dumps: PROFILE.PID.NUMBER.pb.gz, with more where it is needed:
 *
 *     heap.17.3.pb.gz                    the third dump of process 17
 *     heap.17.1795383775123.3.pb.gz      the same, where an earlier process 17 has left files: with the life's number
 *     heap.17.3.oom.pb.gz                the same for an event (dump_on)
 *     heap.17.3.pb.gz.17.0badcafe.tmp    while it is written
 *
 * Pure functions.
 */
#ifndef JESPAN_DUMP_NAME_H
#define JESPAN_DUMP_NAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dump_on.h"
#include "report/exporter.h"

#define DUMP_NAME_BYTES 160 /* enough for any of them */

extern const char *const dump_profile_names[EXPORTER_N_PROFILES];

struct dump_name {
    enum exporter_profile profile;
    uint64_t pid;
    uint64_t life;   /* 0: not in the name */
    uint64_t number; /* from 1 */
    enum dump_reason reason; /* DUMP_N_REASONS: none but its time */
    bool is_temporary;       /* its suffix is not kept here */
};

/* The name of a file that is not temporary. Returns what snprintf() does. */
int dump_name_make(char *text, size_t bytes, const struct dump_name *name);

/* Whether `text` is exactly such a name. */
bool dump_name_parse(struct dump_name *name, const char *text);

/* Whether both are of one dump, whatever they show of it. */
bool dump_name_is_same_dump(const struct dump_name *a, const struct dump_name *b);

#endif
