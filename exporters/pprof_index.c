/* SPDX-License-Identifier: BSD-2-Clause */
/* The hash index: open addressing, linear probing, doubled when three quarters full. */
#include "pprof_index.h"

#include <errno.h>

#include "pprof_memory.h"

#define FIRST_SLOTS 256u

struct pprof_index_slot {
    uint32_t hash;
    uint32_t position_plus_1; /* 0 = free */
};

static struct pprof_index_slot *first_free(struct pprof_index_slot *slots, uint32_t n_slots, uint32_t hash)
{
    uint32_t i = hash & (n_slots - 1);
    while (slots[i].position_plus_1 != 0)
        i = (i + 1) & (n_slots - 1);
    return &slots[i];
}

static int grow(struct pprof_index *index)
{
    uint32_t n_slots = index->n_slots == 0 ? FIRST_SLOTS : index->n_slots * 2;
    struct pprof_index_slot *slots = n_slots == 0 ? NULL : pprof_memory_take(index->memory, n_slots, sizeof *slots);
    if (slots == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < index->n_slots; i++)
        if (index->slots[i].position_plus_1 != 0)
            *first_free(slots, n_slots, index->slots[i].hash) = index->slots[i];
    pprof_memory_give(index->memory, index->slots);
    index->slots = slots;
    index->n_slots = n_slots;
    return 0;
}

int pprof_index_intern(struct pprof_index *index, uint32_t hash, pprof_index_same *same, const void *owner,
                       const void *key, uint32_t next, uint32_t *position)
{
    if (index->n_used >= index->n_slots / 4 * 3 && grow(index) != 0)
        return -ENOMEM;
    uint32_t i = hash & (index->n_slots - 1);
    for (; index->slots[i].position_plus_1 != 0; i = (i + 1) & (index->n_slots - 1)) {
        *position = index->slots[i].position_plus_1 - 1;
        if (index->slots[i].hash == hash && same(owner, *position, key))
            return 0;
    }
    index->slots[i] = (struct pprof_index_slot){hash, next + 1};
    index->n_used++;
    *position = next;
    return 1;
}

void pprof_index_free(struct pprof_index *index)
{
    pprof_memory_give(index->memory, index->slots);
}

uint32_t pprof_index_hash(const void *data, size_t bytes)
{
    const unsigned char *byte = data;
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < bytes; i++)
        hash = (hash ^ byte[i]) * 0x100000001b3u;
    return (uint32_t)(hash ^ hash >> 32);
}
