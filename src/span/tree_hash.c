/* SPDX-License-Identifier: BSD-2-Clause */
/* The context tree: the hash table. */
#include "span/tree_hash.h"

#include <errno.h>

#include "base/compiler.h"
#include "base/die.h"
#include "base/lock.h"
#include "base/meta.h"
#include "span/tree.h"

#define BUCKETS_PER_CONTEXT 4u

static uint32_t *heads_end; /* ids; 0: none. Bucket 0 is the last, so that what is touched first is near other such memory */
static uint32_t buckets = 1, buckets_most;
static uint32_t mask; /* the next power of two that is not below `buckets`, less one */

size_t tree_hash_bytes(uint32_t max)
{
    return (size_t)max * BUCKETS_PER_CONTEXT * sizeof *heads_end;
}

COLD void tree_hash_begin(uint32_t max, char *end)
{
    heads_end = (uint32_t *)end;
    buckets_most = max * BUCKETS_PER_CONTEXT;
}

static uint32_t *head(uint32_t bucket)
{
    return heads_end - 1 - bucket;
}

/* A hash whose bucket is not there yet is in the bucket from which that one will be split off. */
static uint32_t *head_of(uint32_t hash)
{
    uint32_t bucket = hash & mask;
    return head(bucket < buckets ? bucket : bucket & mask >> 1);
}

/* Makes one more bucket, and moves the contexts there that belong to it. */
static void split(void)
{
    if (buckets > mask)
        mask = 2 * mask + 1;
    uint32_t more = buckets++, *from = head(more & mask >> 1), *to = head(more);
    while (*from) {
        struct context *c = &contexts[*from];
        if ((c->hash & mask) == more) {
            *to = *from;
            *from = c->hash_next;
            to = &c->hash_next;
        } else {
            from = &c->hash_next;
        }
    }
    *to = 0;
}

void tree_hash_grow(uint32_t id)
{
    while (buckets < buckets_most && buckets / BUCKETS_PER_CONTEXT <= id)
        split();
}

uint32_t tree_hash_first(uint32_t hash)
{
    return *head_of(hash);
}

void tree_hash_add(uint32_t id, uint32_t hash)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    uint32_t *head = head_of(hash);
    contexts[id].hash = hash;
    contexts[id].hash_next = *head;
    *head = id;
}

void tree_hash_remove(uint32_t id)
{
    uint32_t *link = head_of(contexts[id].hash);
    while (*link != id) {
        jespan_assert(*link); /* the list has the context */
        link = &contexts[*link].hash_next;
    }
    *link = contexts[id].hash_next;
}
