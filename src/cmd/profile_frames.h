/* SPDX-License-Identifier: BSD-2-Clause */
/* Which frames the samples of a profile have when they are read: all as in the file, those of spans, or those of spans and
 * calls as people read them. */
#ifndef JESPAN_CMD_PROFILE_FRAMES_H
#define JESPAN_CMD_PROFILE_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "profile.h"

enum profile_frames_kind {
    PROFILE_SPANS, /* without the calls below the spans; a profile that is not jespan's keeps all */
    PROFILE_CALLS, /* inlined functions are locations of their own; the allocator and libc's start are left out */
};

/* From now on profile_sample() returns such samples. For PROFILE_CALLS the profile should have names. Returns 0 or -ENOMEM. */
int profile_frames_set(struct profile *profile, enum profile_frames_kind kind);

/* Whether any location is a call. Only after profile_frames_set(). */
bool profile_frames_has_calls(const struct profile *profile);

/* Whether a location is a call, and not a span. */
bool profile_frames_is_call(const struct profile *profile, uint64_t location);

/* For profile.c. */
int profile_frames_apply(struct profile *profile, JespanPprof__Sample *sample);
void profile_frames_free(struct profile *profile);

#endif
