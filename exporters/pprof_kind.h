/* SPDX-License-Identifier: BSD-2-Clause */
/* The kinds of profile: what a sample's values are, and where they come from. */
#ifndef JESPAN_PPROF_KIND_H
#define JESPAN_PPROF_KIND_H

#include <stdint.h>

#include "report/exporter.h"

#define PPROF_MAX_VALUES 4 /* of a sample */

struct pprof_type {
    const char *name, *unit;
};

struct pprof_kind {
    /* pprof shows the last one by default. It is not named as the default: other readers fail on that field. */
    struct pprof_type values[PPROF_MAX_VALUES];
    int n_values;
    struct pprof_type period;
    /* The values of a context. One whose values are all 0 is worth no sample. */
    void (*read)(const struct totals *totals, int64_t values[PPROF_MAX_VALUES]);
};

extern const struct pprof_kind pprof_heap, pprof_time; /* those of dumps */
extern const struct pprof_kind pprof_allocs;           /* pprof_heap, with what was allocated shown by default */
extern const struct pprof_kind pprof_wall, pprof_cpu;  /* self time, one value each */

/* NULL if there is no such kind. */
const struct pprof_kind *pprof_kind_find(enum exporter_profile profile);

#endif
