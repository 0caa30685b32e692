/* SPDX-License-Identifier: BSD-2-Clause */
/* What `jespan leaks` reads. */
#ifndef JESPAN_CMD_LEAKS_INPUT_H
#define JESPAN_CMD_LEAKS_INPUT_H

#include <stddef.h>

#include "profile.h"

/* Reads a file, the newest heap dump of a directory, or a process. Sets `name` to what was read. Returns NULL, or the reason in
 * words. The profile is freed by the caller in either case. */
const char *leaks_input_read(struct profile *profile, const char *word, char *name, size_t name_bytes);

#endif
