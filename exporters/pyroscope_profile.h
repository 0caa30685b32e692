/* SPDX-License-Identifier: BSD-2-Clause */
/* The profiles that are pushed of each period. Adding one is a row in pyroscope_profile.c. */
#ifndef JESPAN_PYROSCOPE_PROFILE_H
#define JESPAN_PYROSCOPE_PROFILE_H

#include <stdint.h>

#include "digest.h"
#include "pprof_kind.h"

#define PYROSCOPE_N_PROFILES 3

struct pyroscope_profile {
    const char *name; /* the series' __name__ */
    const struct pprof_kind *kind;
    enum digest_figures figures; /* that it tells of */
    uint64_t track_time;         /* with which there is anything to tell, at least */
    const char *ingest_types;    /* its sample types for /ingest, in JSON */
};

extern const struct pyroscope_profile pyroscope_profiles[PYROSCOPE_N_PROFILES];

#endif
