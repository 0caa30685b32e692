/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of /stacks: http_stacks.c makes rows of them, http_stack_names.c gives them names. */
#ifndef JESPAN_HTTP_STACKS_H
#define JESPAN_HTTP_STACKS_H

#include "hash_index.h"
#include "http_answer.h"
#include "pprof_parts.h"

#define CALL_NAME_BYTES 80 /* of a place in a binary */

struct call_key {
    uint32_t row, frame; /* of the snapshot */
};

struct calls {
    struct snapshot shown; /* a copy with more rows */
    uint32_t n_contexts;   /* rows of the snapshot; those of calls follow */
    uint32_t n, room;
    struct snapshot_row *rows;
    struct call_key *keys;          /* of each call */
    char (*names)[CALL_NAME_BYTES]; /* of each call */
    struct hash_index index;
    struct code_maps maps;
};

/* Gives the rows of calls the names that the host has, and adds rows for inlined functions. Leaves out functions of the allocator and
 * of libc's start, as the command does. Returns what the answer says of names: "all", "some": the host looks for more; "none": the
 * host has no names. NULL: no memory. */
const char *http_stacks_name(struct calls *c, const struct service_host *host);

#endif
