/* SPDX-License-Identifier: BSD-2-Clause */
/* The numbered dumps of one process, and the writing of dump files.
 *
 * The process writes them itself (dump.c), or another process does it for it (src/sidecar). Nothing here takes a
 * snapshot, and nothing allocates. One thread at a time, since paths are static variables.
 */
#ifndef JESPAN_DUMP_SERIES_H
#define JESPAN_DUMP_SERIES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dump_on.h"
#include "report/exporter.h"

/* The numbers of the dumps of a process, so that it removes no others. They are kept as ranges, because numbers that
 * were taken already are skipped. With too many ranges the oldest is forgotten, and its dumps are never removed. All
 * members except the pid are 0 before the first dump. */
#define DUMP_MAX_RANGES 32
struct dump_series {
    uint64_t pid; /* in names. 0: of the calling process */
    const char *suffix; /* of names, from the last exporter. NULL: there was none */
    bool is_known;
    uint64_t life, last; /* last: the number of the last dump, 0: none yet */
    struct dump_range {
        uint64_t first, end;
    } ranges[DUMP_MAX_RANGES];
    unsigned n_ranges;
    bool failing; /* the last dump failed */
    _Atomic uint64_t written, lost; /* files */
};

/* The contents to write. All files of one dump show the same snapshot. */
struct dump_source {
    const struct exporter *exporter;
    const struct snapshot *snapshot;
    const struct exporter_memory *memory; /* NULL: malloc */
    int error;                            /* not 0: there is no snapshot. Nothing is written, and the error is reported */
    bool urgent; /* the process may be killed soon: the file gets its name before it is synced */
};

/* Writes one profile to a path, which may be that of a FIFO or device (dump_file.h). Returns 0 or a negative errno. */
int dump_series_write_path(struct dump_series *series, const struct dump_source *source, enum exporter_profile profile,
                           const char *path);

/* Looks through conf.dump_dir for earlier dumps of a process with this pid. dump_series_write_next() does so too. */
void dump_series_begin(struct dump_series *series);

/* Writes the next numbered dump into conf.dump_dir, and removes old ones (dump_next() in dump.h). `reason` is
 * DUMP_N_REASONS for the interval. The first of consecutive failures is written to stderr. Returns 0 or a negative
 * errno. */
int dump_series_write_next(struct dump_series *series, const struct dump_source *source, enum dump_reason reason);

/* Writes the path of the last dump of the heap, as written for that reason. */
void dump_series_last_path(const struct dump_series *series, enum dump_reason reason, char *path, size_t bytes);

#endif
