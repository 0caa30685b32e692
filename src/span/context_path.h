/* SPDX-License-Identifier: BSD-2-Clause */
/* A context's path as text for people. */
#ifndef JESPAN_CONTEXT_PATH_H
#define JESPAN_CONTEXT_PATH_H

#include <stddef.h>
#include <stdint.h>

/* Writes a path as "request{tenant=a,shard=3};parse", with '?' for control characters, at the end of a buffer of more
 * than 3 bytes. A path that does not fit loses its beginning, which is replaced by "...". Returns the beginning of the
 * text. Under LOCK_TREE, or while the context cannot be recycled. */
const char *context_path(uint32_t id, char *buffer, size_t bytes);

#endif
