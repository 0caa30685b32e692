/* SPDX-License-Identifier: BSD-2-Clause */
/* A digest: figures by path of sites and those labels that are wanted, small enough to be kept and sent.
 *
 * Contexts that differ in other labels only are one node, and beyond a number of nodes the smallest are folded into
 * others, so its size is bounded whatever the program does; the sum of all nodes stays that of all contexts. It holds
 * copies of all strings, in memory from malloc: it is a module's own. One thread at a time.
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
    const char *labels; /* keys, separated by |; of one that several spans have, the nearest span's counts */
    const struct label_names *names; /* what the keys are called instead; NULL: nothing */
    bool ids;           /* span_id and trace_id, too; listed or not, only where they are 16 and 32 hexadecimal digits */
    bool flat;          /* by a span's own name, and not its path: each node's parent is the root */
};

struct digest;

struct digest *digest_make(const struct digest_shape *shape); /* NULL: no memory. The shape's text must stay */
void digest_free(struct digest *d);

/* Makes room for so many nodes at once, where there is memory: growing by and by costs more. */
void digest_reserve(struct digest *d, uint32_t n);

/* Adds a context's totals; a period_each() (period.h), where `user` is the digest. Without memory they go to the nearest
 * ancestor that there is. */
void digest_add(void *digest, const struct snapshot *s, uint32_t row, const struct totals *totals);

/* Has `newer`, the period that followed, cover the time of `older` too: sums add up, in use stays that of the end. Of
 * the same shape. */
void digest_merge(struct digest *newer, const struct digest *older);

/* Sets figures of the period to 0, as they were told elsewhere; what is in use stays. */
enum digest_figures { DIGEST_ALLOCATIONS, DIGEST_CPU, DIGEST_WALL };
void digest_forget(struct digest *d, enum digest_figures figures);

/* Folds the smallest nodes until there are at most `max` with figures, of which the root is always one: into the node of
 * the same path without labels, then into that of the path's caller. Nodes are measured by bytes in use and allocated and by CPU
 * and wall time, as shares of the whole, each with what was folded into it. Returns how many were folded. */
uint32_t digest_fold(struct digest *d, uint32_t max);

/* Bytes that it takes, nearly. */
size_t digest_bytes(const struct digest *d);
uint32_t digest_nodes(const struct digest *d);

/* Where the time that it covers begins. */
uint64_t digest_from_unix_ns(const struct digest *d);

/* The time that it covers, in nanoseconds since 1970; set by its owner, widened by digest_merge(). */
void digest_set_time(struct digest *d, uint64_t from_unix_ns, uint64_t to_unix_ns);

/* The digest as a snapshot, for encoders: parents before children, nodes without figures only where they have
 * children. start_unix_ns and time_unix_ns are the time that it covers. Valid until the digest changes; freed with
 * it. NULL: no memory. */
const struct snapshot *digest_view(struct digest *d);

#endif
