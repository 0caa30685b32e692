/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of a digest: an array of nodes, parents before children, and an index of their keys.
 *
 * A node is either a site below the path of its parent, without labels, or a set of labels below its site. So figures
 * that lose their labels or their site go to the parent in both cases.
 */
#ifndef JESPAN_DIGEST_NODES_H
#define JESPAN_DIGEST_NODES_H

#include "digest.h"
#include "hash_index.h"

#define DIGEST_ROOT 0u
#define DIGEST_NONE UINT32_MAX
#define DIGEST_MAX_LABELS 64u /* of a node */

struct digest_node {
    uint32_t parent, line;
    uint32_t n_labels;                    /* 0: a site */
    const char *name, *target, *file;     /* copies. "" in nodes of labels */
    const struct snapshot_label *labels;  /* of the whole path; for each key that of the nearest span */
    struct totals totals;
};

struct digest {
    const struct digest_shape *shape;
    struct digest_node *nodes;
    uint32_t n_nodes;
    size_t nodes_capacity;
    struct hash_index index; /* of nodes, by their keys */
    struct digest_chunk *chunks;
    size_t chunks_bytes;
    uint64_t from_unix_ns, to_unix_ns;
    struct snapshot view;
    struct snapshot_row *rows;
    /* For the rows of the snapshot with that epoch: the row's node + 1, 0: not known yet; and the child row that waits
     * for the node. */
    uint64_t epoch;
    const struct program *program; /* of the last snapshot */
    uint32_t *node_of, *waiting;
};

/* Finds or adds the node with that key. The strings of the key are copied. DIGEST_NONE: no memory. */
uint32_t digest_find(struct digest *d, struct digest_node key);

/* Finds or adds the node in another digest. `map` has the nodes before it. Without memory it returns the parent. */
uint32_t digest_find_in(struct digest *to, const struct digest *from, uint32_t index, const uint32_t *map);

/* Frees the memory of unused nodes. If there is no memory to do that, they stay. */
void digest_compact(struct digest *d);

void digest_free_nodes(struct digest *d);
bool digest_has_figures(const struct digest_node *n);

/* The node of the site of this node, without labels. */
uint32_t digest_site_of(const struct digest *d, uint32_t index);

#endif
