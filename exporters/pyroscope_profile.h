/* SPDX-License-Identifier: BSD-2-Clause */
/* The profiles that are pushed for each period. To add one, add a row in pyroscope_profile.c. */
#ifndef JESPAN_PYROSCOPE_PROFILE_H
#define JESPAN_PYROSCOPE_PROFILE_H

#include <stdint.h>

#include "digest.h"
#include "pprof.h"

#define PYROSCOPE_N_PROFILES 3
#define PYROSCOPE_MEMORY 0 /* the index of the profile with memory in use */

struct pyroscope_profile {
    const char *name; /* the series' __name__ */
    const struct pprof_kind *kind;
    const struct pprof_kind *flows; /* the same without memory in use, for periods that do not report it */
    enum digest_figures figures; /* that it contains */
    uint64_t track_time;         /* the least value of track_time that gives these figures */
    const char *ingest_types;    /* its sample types for /ingest, in JSON */
};

extern const struct pyroscope_profile pyroscope_profiles[PYROSCOPE_N_PROFILES];

#endif
