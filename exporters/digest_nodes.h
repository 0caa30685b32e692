/* SPDX-License-Identifier: BSD-2-Clause */
/* A digest from inside: nodes in an array, parents before children, found by a hash table of their keys.
 *
 * A node is a site below the path of its parent, without labels; or labels, below the site that they belong to. So
 * figures that lose their labels or their site go to the parent either way.
 */
#ifndef JESPAN_DIGEST_NODES_H
#define JESPAN_DIGEST_NODES_H

#include "digest.h"

#define DIGEST_ROOT 0u
#define DIGEST_NONE UINT32_MAX
#define DIGEST_MAX_LABELS 64u /* of a node */

struct digest_node {
    uint32_t parent, line;
    uint32_t n_labels;                    /* 0: of a site */
    const char *name, *target, *file;     /* the digest's own copies; "" in nodes of labels */
    const struct snapshot_label *labels;  /* all of the path, the nearest span's of each key */
    struct totals totals;
};

/* With the hash beside it, a node is looked at only where it is likely the one. */
struct digest_slot {
    uint32_t node_plus_1; /* 0: empty */
    uint32_t hash;
};

struct digest {
    const struct digest_shape *shape;
    struct digest_node *nodes;
    uint32_t n_nodes, nodes_room;
    struct digest_slot *slots;
    uint32_t n_slots;
    struct digest_block *blocks;
    size_t blocks_bytes;
    uint64_t from_unix_ns, to_unix_ns;
    struct snapshot view;
    struct snapshot_row *rows;
    /* Of the snapshot with that epoch, the node that a row belongs to, + 1; 0: not known yet. And the row that waits for
     * it to become known. */
    uint64_t epoch;
    uint32_t *node_of, *waiting;
};

/* The node with that key, made where there is none. Its strings may be anybody's. DIGEST_NONE: no memory. */
uint32_t digest_find(struct digest *d, struct digest_node key);

/* The same node in another digest, where `map` has those of the nodes before it; without memory the one above. */
uint32_t digest_find_in(struct digest *to, const struct digest *from, uint32_t index, const uint32_t *map);

/* Gives back the memory of nodes that are not used any more. Without memory for that they stay. */
void digest_compact(struct digest *d);

void digest_free_nodes(struct digest *d);
bool digest_has_figures(const struct digest_node *n);

/* The node whose site is this one's, and which has its path. */
uint32_t digest_site_of(const struct digest *d, uint32_t index);

/* The labels that a row's node has: those of its own that are wanted, and of the path above it (one node's) those whose
 * keys it has not itself. Returns how many. */
uint32_t digest_keep_labels(const struct digest_shape *shape, const struct snapshot_row *row,
                            const struct digest_node *above, struct snapshot_label kept[DIGEST_MAX_LABELS]);

#endif
