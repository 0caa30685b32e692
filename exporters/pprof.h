/* SPDX-License-Identifier: BSD-2-Clause */
/* Encodes a snapshot as a pprof profile (pprof_encode.c). Several modules have this encoder in them. */
#ifndef JESPAN_PPROF_H
#define JESPAN_PPROF_H

#include <stdbool.h>
#include <stdint.h>

#include "report/exporter.h"

/* A longer path keeps its innermost frames and ends with "(path cut)". The nearest labels are kept. Readers written in
 * Python recurse by frame and fail at 1,000. */
#define PPROF_MAX_FRAMES 512
#define PPROF_MAX_LABELS 256

/* ---- The kinds of profiles ---- */

#define PPROF_MAX_VALUES 9 /* of a sample */

struct pprof_type {
    const char *name, *unit;
};

struct pprof_kind {
    /* pprof shows the last value by default. The profile does not name the default: some readers fail on that field. */
    struct pprof_type values[PPROF_MAX_VALUES];
    int n_values;
    struct pprof_type period;
    /* Reads the values of a context. A context whose values are all 0 gets no sample. */
    void (*read)(const struct totals *totals, int64_t values[PPROF_MAX_VALUES]);
    bool has_peaks; /* the values from PPROF_PEAKS on are the peaks of the context, and `read` sets them to 0 */
};
#define PPROF_PEAKS 0 /* pprof shows the last value by default, so the peaks come first */

extern const struct pprof_kind pprof_dump, pprof_time; /* for dumps */
extern const struct pprof_kind pprof_heap;             /* like pprof_dump, without peaks: for others that know these types */
extern const struct pprof_kind pprof_allocs;           /* like pprof_heap; pprof shows allocated bytes by default */
extern const struct pprof_kind pprof_wall, pprof_cpu;  /* own time, one value each */

/* NULL: there is no such kind. */
const struct pprof_kind *pprof_kind_find(enum exporter_profile profile);

/* ---- Encoding ---- */

enum pprof_form { PPROF_GZIP, PPROF_PLAIN };

/* Writes the profile to the sink in pieces. Returns 0, -ENOMEM or an error of the sink. */
int pprof_encode(const struct snapshot *snapshot, const struct pprof_kind *kind, enum pprof_form form,
                 struct exporter_sink *sink);

/* The exporter, gzipped (pprof.c). */
__attribute__((visibility("default"))) EXPORTER_DEFINE(pprof);

#endif
