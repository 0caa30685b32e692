/* SPDX-License-Identifier: BSD-2-Clause */
/* A digest: figures by path of sites and by selected labels, small enough to be kept and sent.
 *
 * Contexts that differ only in other labels share a node. Beyond a number of nodes the smallest are folded into
 * others, so the size is bounded. The sum of all nodes is always the sum of all contexts. A digest copies all strings,
 * into memory from malloc. One thread at a time.
 */
#ifndef JESPAN_DIGEST_H
#define JESPAN_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "label_names.h"
#include "snapshot/snapshot.h"

/* Which labels are kept, and how. All values become strings. */
struct digest_shape {
    const char *labels; /* keys, separated by |. If several spans of a path have a key, the nearest span counts */
    const struct label_names *names; /* names that replace the keys. NULL: none */
    bool all;           /* keeps all labels */
    bool ids;           /* also keeps span_id and trace_id. Both must be 16 and 32 hexadecimal digits, also if listed */
    bool flat;          /* by the span's own name and not its path: each node is a child of the root */
};

struct digest;

struct digest *digest_make(const struct digest_shape *shape); /* NULL: no memory. The shape must outlive the digest */
void digest_free(struct digest *d);

/* Allocates memory for `n` nodes at once, if there is memory. Growing step by step costs more. */
void digest_reserve(struct digest *d, uint32_t n);

/* Adds the totals of a context. A period_each() (period.h) whose `user` is the digest. Without memory, the totals go
 * to the nearest ancestor that has a node. */
void digest_add(void *digest, const struct snapshot *s, uint32_t row, const struct totals *totals);

/* Merges `older` into `newer`, the period after it with the same shape. Sums are added; in use stays that of the
 * end. */
void digest_merge(struct digest *newer, const struct digest *older);

/* Sets figures of the period to 0, because they are reported already. Figures in use stay. */
enum digest_figures { DIGEST_ALLOCATIONS, DIGEST_CPU, DIGEST_WALL };
void digest_clear(struct digest *d, enum digest_figures figures);

/* Folds the smallest nodes until at most `max` nodes have figures, the root included. A node is folded into the node
 * of the same path without labels, then into the node of the path's caller. The size of a node is the sum of its
 * shares of all bytes in use, allocated bytes, CPU time and wall time, with everything folded into it. Returns the
 * number of folded nodes. */
uint32_t digest_fold(struct digest *d, uint32_t max);

/* About how many bytes of memory it takes. */
size_t digest_bytes(const struct digest *d);
uint32_t digest_nodes(const struct digest *d);

/* The start of the time that it covers. */
uint64_t digest_from_unix_ns(const struct digest *d);

/* The time that it covers, in nanoseconds since 1970. The owner sets it; digest_merge() widens it. */
void digest_set_time(struct digest *d, uint64_t from_unix_ns, uint64_t to_unix_ns);

/* The digest as a snapshot, for encoders. Parents come before children. Nodes without figures are left out if no
 * descendant has any. start_unix_ns and time_unix_ns are the time that it covers. Valid until the digest changes;
 * freed with it. NULL: no memory. */
const struct snapshot *digest_view(struct digest *d);

#endif
