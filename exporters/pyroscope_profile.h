/* SPDX-License-Identifier: BSD-2-Clause */
/* The profiles that are pushed of each period. Adding one is a row in pyroscope_profile.c. */
#ifndef JESPAN_PYROSCOPE_PROFILE_H
#define JESPAN_PYROSCOPE_PROFILE_H

#include <stdint.h>

#include "digest.h"
#include "pprof_kind.h"

#define PYROSCOPE_N_PROFILES 3
#define PYROSCOPE_MEMORY 0 /* the index of the one that tells of memory in use */

struct pyroscope_profile {
    const char *name; /* the series' __name__ */
    const struct pprof_kind *kind;
    const struct pprof_kind *flows; /* the same without what is a state: for periods that tell of none */
    enum digest_figures figures; /* that it tells of */
    uint64_t track_time;         /* with which there is anything to tell, at least */
    const char *ingest_types;    /* its sample types for /ingest, in JSON */
};

extern const struct pyroscope_profile pyroscope_profiles[PYROSCOPE_N_PROFILES];

#endif
