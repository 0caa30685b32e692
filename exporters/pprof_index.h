/* SPDX-License-Identifier: BSD-2-Clause */
/* A hash index: finds a thing's position in its owner's list by content. The things stay with the owner. */
#ifndef JESPAN_PPROF_INDEX_H
#define JESPAN_PPROF_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pprof_index {
    const struct exporter_memory *memory; /* NULL: malloc */
    struct pprof_index_slot *slots; /* a power of two of them, at most three quarters in use */
    uint32_t n_slots, n_used;
};

/* Whether the owner's thing at `position` is `key`. */
typedef bool pprof_index_same(const void *owner, uint32_t position, const void *key);

/* Sets *position to the one of `key`; a key not there yet gets `next`. Returns 1 when it was added, 0 when it was
 * there, or -ENOMEM. A zeroed index is an empty one. */
int pprof_index_intern(struct pprof_index *index, uint32_t hash, pprof_index_same *same, const void *owner,
                       const void *key, uint32_t next, uint32_t *position);
void pprof_index_free(struct pprof_index *index);

/* For use as a hash: FNV-1a over the bytes. */
uint32_t pprof_index_hash(const void *data, size_t bytes);

#endif
