/* SPDX-License-Identifier: BSD-2-Clause */
/* The profiles that are pushed of each period: named, with types and units, as Pyroscope's own clients name theirs. */
#include "pyroscope_profile.h"

#include "../src/conf.h"

/* /ingest adds up what it is not told to average, and takes for totals what it is not told are differences. Its one unit of
 * nanoseconds is named after locks. */
#define SUM(name, units)                                                                                               \
    "\"" name "\":{\"units\":\"" units "\",\"aggregation\":\"sum\",\"display-name\":\"" name "\","                     \
    "\"sampled\":false,\"cumulative\":false}"
#define AVERAGE(name, units)                                                                                           \
    "\"" name "\":{\"units\":\"" units "\",\"aggregation\":\"average\",\"display-name\":\"" name "\","                 \
    "\"sampled\":false,\"cumulative\":false}"

const struct pyroscope_profile pyroscope_profiles[PYROSCOPE_N_PROFILES] = {
    {"memory", &pprof_heap, DIGEST_ALLOCATIONS, TRACK_TIME_OFF,
     "{" SUM("alloc_objects", "objects") "," SUM("alloc_space", "bytes") "," AVERAGE("inuse_objects", "objects") ","
     AVERAGE("inuse_space", "bytes") "}"},
    {"process_cpu", &pprof_cpu, DIGEST_CPU, TRACK_TIME_CPU, "{" SUM("cpu", "lock_nanoseconds") "}"},
    {"wall", &pprof_wall, DIGEST_WALL, TRACK_TIME_WALL, "{" SUM("wall", "lock_nanoseconds") "}"},
};
