/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls that allocated, for services: rows of a snapshot below those of their contexts. calls.c makes them, calls_names.c gives
 * them names. One thread at a time. */
#ifndef JESPAN_CALLS_H
#define JESPAN_CALLS_H

#include "hash_index.h"
#include "pprof_parts.h"
#include "report/service.h"

#define CALL_NAME_BYTES 80 /* of a place in a binary */

struct call_key {
    uint32_t row, frame; /* of the snapshot */
};

struct calls_binary;

struct calls {
    struct snapshot shown; /* a copy of the snapshot, which calls_show_names() gives the rows below */
    uint32_t n_contexts;   /* rows of the snapshot; those of calls follow */
    uint32_t n, room;
    struct snapshot_row *rows;
    struct call_key *keys;          /* of each call */
    char (*names)[CALL_NAME_BYTES]; /* of each call */
    struct hash_index index;
    struct code_maps maps;
    const struct service_host *host; /* whose names are in use. NULL: none are */
    struct service_call *asked;      /* what the host is asked: of each call */
    struct calls_binary *binaries;   /* to which `asked` refers */
};

/* Makes rows of the calls of all stacks. What was allocated there is taken from the row of its context, so all sums stay as they are.
 * The snapshot must outlive them. Returns false: there is no memory. In any case, free them. */
bool calls_make(struct calls *c, const struct snapshot *s);
void calls_free(struct calls *c);

/* Asks the host for names of all calls, as often as you like. Returns how many the host still looks for, or a negative errno. A host
 * without names looks for none. Other names are not forgotten before calls_end_names(). */
int calls_ask_names(struct calls *c, const struct service_host *host);
void calls_end_names(struct calls *c);

/* Gives the rows of calls the names that the host has, if it was asked, and adds rows for inlined functions. Leaves out functions of the
 * allocator and of libc's start, as the command does. To be called once. Returns false: there is no memory. */
bool calls_show_names(struct calls *c);

#endif
