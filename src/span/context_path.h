/* SPDX-License-Identifier: BSD-2-Clause */
/* A context's path, to be read by people. */
#ifndef JESPAN_CONTEXT_PATH_H
#define JESPAN_CONTEXT_PATH_H

#include <stddef.h>
#include <stdint.h>

/* As "request{tenant=a,shard=3};parse", control characters as '?'; of one that does not fit the inner end, after "...". It ends
 * where room ends, which is of more than 3 bytes; returns where it begins. Under LOCK_TREE, or where the context cannot go. */
const char *context_path(uint32_t id, char *room, size_t bytes);

#endif
