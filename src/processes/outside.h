/* SPDX-License-Identifier: BSD-2-Clause */
/* Dumps of a process, made from outside: the process is read, and not asked. */
#ifndef JESPAN_PROCESSES_OUTSIDE_H
#define JESPAN_PROCESSES_OUTSIDE_H

#include <stdbool.h>
#include <sys/types.h>

#include "report/exporter.h"

/* A process as it was when it was read. */
struct outside {
    struct view *view;
    struct snapshot *snapshot;
};

/* Reads a process. Returns NULL, or the reason in words why it cannot be read. */
const char *outside_read(struct outside *o, pid_t pid);

/* The same for a core file. outside_is_core(): whether the file is one, by how it begins. */
bool outside_is_core(const char *path);
const char *outside_read_core(struct outside *o, const char *path);

/* Leaves out the memory of all contexts that have an open span, and of those that are no spans. */
void outside_keep_outlived(struct outside *o);

/* Leaves out the memory that was allocated in periods (age_period_s) which began less than `age_s` ago. False: the process knows no
 * ages. */
bool outside_keep_older(struct outside *o, int64_t age_s);

/* Writes a dump to a descriptor, or to a path (dump_series_write_path()). Returns 0 or a negative errno. */
int outside_write(const struct outside *o, enum exporter_profile profile, int fd);
int outside_write_path(const struct outside *o, enum exporter_profile profile, const char *path);

/* Accepts a process that could not be read, or was zeroed. */
void outside_close(struct outside *o);

#endif
