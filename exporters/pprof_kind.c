/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of kinds of profile. */
#include "pprof_kind.h"

#include <stddef.h>

static void read_heap(const struct totals *t, int64_t values[PPROF_N_VALUES])
{
    values[0] = (int64_t)t->alloc_objects;
    values[1] = (int64_t)t->alloc_bytes;
    values[2] = (int64_t)totals_inuse_objects(t);
    values[3] = (int64_t)totals_inuse_bytes(t);
}

static void read_time(const struct totals *t, int64_t values[PPROF_N_VALUES])
{
    values[0] = (int64_t)t->opens;
    values[1] = (int64_t)t->wall;
    values[2] = (int64_t)t->busy;
    values[3] = (int64_t)t->cpu;
}

static const struct pprof_kind kinds[EXPORTER_N_PROFILES] = {
    [EXPORTER_HEAP] = {
        .values = {{"alloc_objects", "count"}, {"alloc_space", "bytes"},
                   {"inuse_objects", "count"}, {"inuse_space", "bytes"}},
        .period = {"space", "bytes"},
        .read = read_heap,
    },
    [EXPORTER_TIME] = {
        .values = {{"opens", "count"}, {"wall", "nanoseconds"}, {"busy", "nanoseconds"}, {"cpu", "nanoseconds"}},
        .period = {"cpu", "nanoseconds"},
        .read = read_time,
    },
};

const struct pprof_kind *pprof_kind_find(enum exporter_profile profile)
{
    return (unsigned)profile < EXPORTER_N_PROFILES ? &kinds[profile] : NULL;
}
