/* SPDX-License-Identifier: BSD-2-Clause */
/* The profiles that are pushed of each period: named, with types and units, as Pyroscope's own clients name theirs. */
#include "pyroscope_profile.h"

#include "../src/conf.h"

/* /ingest adds up what it is not told to average, and takes the difference of what it is not told is none. Its unit of
 * time is a sample, of which there are a thousand million in a second (see pyroscope_request.c). */
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
    {"process_cpu", &pprof_cpu, DIGEST_CPU, TRACK_TIME_CPU, "{" SUM("cpu", "samples") "}"},
    {"wall", &pprof_wall, DIGEST_WALL, TRACK_TIME_WALL, "{" SUM("wall", "samples") "}"},
};
