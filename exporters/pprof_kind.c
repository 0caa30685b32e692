/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of kinds of profile. */
#include "pprof_kind.h"

#include <stddef.h>

static void read_heap(const struct totals *t, int64_t values[PPROF_MAX_VALUES])
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
        [EXPORTER_HEAP] = &pprof_heap, [EXPORTER_TIME] = &pprof_time};
    return (unsigned)profile < EXPORTER_N_PROFILES ? kinds[profile] : NULL;
}
