/* SPDX-License-Identifier: BSD-2-Clause */
/* The profiles that are pushed for each period. Names, types and units are those of Pyroscope's own clients. */
#include "pyroscope_profile.h"

#include "conf/conf.h"

/* /ingest sums values unless it is told to average them, and takes them for totals unless it is told that they are
 * differences. Its only unit of nanoseconds is named after locks. */
#define SUM(name, units)                                                                                               \
    "\"" name "\":{\"units\":\"" units "\",\"aggregation\":\"sum\",\"display-name\":\"" name "\","                     \
    "\"sampled\":false,\"cumulative\":false}"
#define AVERAGE(name, units)                                                                                           \
    "\"" name "\":{\"units\":\"" units "\",\"aggregation\":\"average\",\"display-name\":\"" name "\","                 \
    "\"sampled\":false,\"cumulative\":false}"

static void read_allocations(const struct totals *t, int64_t values[PPROF_MAX_VALUES])
{
    values[0] = (int64_t)t->alloc_objects;
    values[1] = (int64_t)t->alloc_bytes;
}

static const struct pprof_kind allocations = {
    .values = {{"alloc_objects", "count"}, {"alloc_space", "bytes"}},
    .n_values = 2,
    .period = {"space", "bytes"},
    .read = read_allocations,
};

const struct pyroscope_profile pyroscope_profiles[PYROSCOPE_N_PROFILES] = {
    {"memory", &pprof_heap, &allocations, DIGEST_ALLOCATIONS, TRACK_TIME_OFF,
     "{" SUM("alloc_objects", "objects") "," SUM("alloc_space", "bytes") "," AVERAGE("inuse_objects", "objects") ","
     AVERAGE("inuse_space", "bytes") "}"},
    {"process_cpu", &pprof_cpu, &pprof_cpu, DIGEST_CPU, TRACK_TIME_CPU, "{" SUM("cpu", "lock_nanoseconds") "}"},
    {"wall", &pprof_wall, &pprof_wall, DIGEST_WALL, TRACK_TIME_WALL, "{" SUM("wall", "lock_nanoseconds") "}"},
};
