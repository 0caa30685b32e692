/* SPDX-License-Identifier: BSD-2-Clause */
/* Contexts by number, with their paths as text. A path is made once, from a snapshot, and kept while its number is that of
 * the same context, or a thread is in it. So events of a context that was recycled meanwhile are still known. */
#ifndef JESPAN_EVENTS_PATHS_H
#define JESPAN_EVENTS_PATHS_H

#include <stdbool.h>
#include <stdint.h>

#include "snapshot/snapshot.h"

/* A context. `depth` is 0 for the root and the contexts of threads, which are outside of spans. */
struct events_node {
    struct events_node *parent;
    uint32_t users, depth;
    uint32_t id, generation;
    uint32_t path_bytes;
    char *path;   /* from the outermost span on, each after a ';' */
    char *json;   /* a trace event's members name, cat and args */
    uint32_t json_name_bytes; /* of the name alone */
};

struct events_paths;

/* Which parts of names the paths have. */
struct events_names {
    bool module_path, file_and_line, labels, json;
};

/* NULL: no memory. */
struct events_paths *events_paths_make(const struct events_names *names);
void events_paths_free(struct events_paths *p);

/* The node outside of spans, and that of contexts that were recycled before they were known. */
struct events_node *events_paths_outside(struct events_paths *p);
struct events_node *events_paths_recycled(struct events_paths *p);

/* NULL: it is not known yet. */
struct events_node *events_paths_find(const struct events_paths *p, uint32_t id, uint32_t generation);

/* Learns all contexts of the snapshot. Returns false without memory. */
bool events_paths_learn(struct events_paths *p, const struct snapshot *s);

/* A holder keeps the node until it releases it. Both functions accept NULL. */
void events_node_hold(struct events_node *node);
void events_node_release(struct events_node *node);

#endif
