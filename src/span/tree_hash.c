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

static _Atomic uint32_t *heads_end; /* ids; 0: none. Bucket 0 is the last, so that what is touched first is near other such memory */
static _Atomic uint32_t buckets = 1;
static uint32_t buckets_most;
static _Atomic uint32_t mask; /* the next power of two that is not below `buckets`, less one */

size_t tree_hash_bytes(uint32_t max)
{
    return (size_t)max * BUCKETS_PER_CONTEXT * sizeof *heads_end;
}

COLD void tree_hash_begin(uint32_t max, char *end)
{
    heads_end = (_Atomic uint32_t *)end;
    buckets_most = max * BUCKETS_PER_CONTEXT;
}

static _Atomic uint32_t *head(uint32_t bucket)
{
    return heads_end - 1 - bucket;
}

/* A hash whose bucket is not there yet is in the bucket from which that one will be split off. Without the lock, the bucket may be another
 * one. */
static _Atomic uint32_t *head_of(uint32_t hash)
{
    uint32_t all = load_relaxed(&mask), bucket = hash & all;
    return head(bucket < load_relaxed(&buckets) ? bucket : bucket & all >> 1);
}

/* Makes one more bucket, and moves the contexts there that belong to it. */
static void split(void)
{
    uint32_t more = load_relaxed(&buckets), all = load_relaxed(&mask);
    if (more > all)
        all = 2 * all + 1;
    store_relaxed(&mask, all);
    store_relaxed(&buckets, more + 1);
    _Atomic uint32_t *from = head(more & all >> 1), *to = head(more);
    for (uint32_t id; (id = load_relaxed(from));) {
        struct context *c = &contexts[id];
        if ((load_relaxed(&c->hash) & all) == more) {
            store_release(to, id);
            store_release(from, load_relaxed(&c->hash_next));
            to = &c->hash_next;
        } else {
            from = &c->hash_next;
        }
    }
    store_release(to, 0u);
}

void tree_hash_grow(uint32_t id)
{
    while (load_relaxed(&buckets) < buckets_most && load_relaxed(&buckets) / BUCKETS_PER_CONTEXT <= id)
        split();
}

uint32_t tree_hash_first(uint32_t hash)
{
    return load_acquire(head_of(hash));
}

void tree_hash_add(uint32_t id, uint32_t hash)
{
    jespan_assert(lock_is_held(LOCK_TREE));
    _Atomic uint32_t *head = head_of(hash);
    store_relaxed(&contexts[id].hash, hash);
    store_release(&contexts[id].hash_next, load_relaxed(head));
    store_release(head, id);
}

void tree_hash_remove(uint32_t id)
{
    _Atomic uint32_t *link = head_of(load_relaxed(&contexts[id].hash));
    while (load_relaxed(link) != id) {
        jespan_assert(load_relaxed(link)); /* the list has the context */
        link = &contexts[load_relaxed(link)].hash_next;
    }
    store_release(link, load_relaxed(&contexts[id].hash_next));
}
