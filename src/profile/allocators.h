/* SPDX-License-Identifier: BSD-2-Clause */
/* Functions that allocate for their callers. */
#ifndef JESPAN_PROFILE_ALLOCATORS_H
#define JESPAN_PROFILE_ALLOCATORS_H

#include <stdbool.h>

#include <protobuf-c/protobuf-c.h>

/* Whether the function is one of them: one that is known, or that the user has named. */
bool allocators_have(ProtobufCBinaryData name);

/* For a command line: one more, `*` at its end standing for anything. The word stays the caller's. Returns 0, or prints an error and
 * returns STATUS_USAGE. */
int allocators_read(void *unused, const char *word);

#endif
