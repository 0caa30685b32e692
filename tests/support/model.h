/* SPDX-License-Identifier: BSD-2-Clause */
/* An independent model of the figures that jespan must report. Contexts are nodes, with figures that the test counts.
 *
 * A node is *alive* while something pins it: an open span, an entered span, a live object, a live child. jespan must
 * then keep its context, with the same number and all its figures. A node without pins is dead: its path is never
 * used again, and jespan may recycle its context at any time. Its figures still belong to the sums. Pins are taken
 * after jespan's and released before jespan's, which is safe if a context is recycled at that moment. Everything lies
 * in memory from mmap, so that the model does not change what it measures.
 */
#ifndef JESPAN_TESTS_MODEL_H
#define JESPAN_TESTS_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <jespan/jespan.h>

#include "check.h"

#define MODEL_NODES (1u << 20)
#define MODEL_NAME_BYTES 32

enum model_figure {
    ALLOC_OBJECTS,
    ALLOC_BYTES,
    ALLOC_REQUESTED_BYTES,
    FREE_OBJECTS,
    FREE_BYTES,
    MOVED_IN_OBJECTS,
    MOVED_IN_BYTES,
    MOVED_OUT_OBJECTS,
    MOVED_OUT_BYTES,
    ENTERS,
    FIGURES,
};

static const char *const model_figure_names[FIGURES] = {
    "alloc_objects",  "alloc_bytes",       "alloc_requested_bytes", "free_objects", "free_bytes", "credited_in_objects",
    "credited_in_bytes", "credited_out_objects", "credited_out_bytes",       "enters",
};

struct model_node {
    struct model_node *parent;
    _Atomic uint64_t figures[FIGURES];
    _Atomic uint32_t pins;
    uint32_t id;
    bool thread;  /* spans opened in it are children of the root */
    bool ignored; /* holds what libc allocates for itself; only jespan's own figures are known */
    char name[MODEL_NAME_BYTES];
};

static struct model_node *model_nodes;
static _Atomic uint32_t model_count;

static inline void *model_map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) {
        check_note("the model has no memory");
        _exit(1);
    }
    return p;
}

/* The context `id` must exist and be pinned already. Starts with one pin. */
static inline struct model_node *model_add(struct model_node *parent, uint32_t id, const char *name)
{
    uint32_t index = atomic_fetch_add(&model_count, 1);
    if (index >= MODEL_NODES) {
        check_note("the model is full: raise MODEL_NODES");
        _exit(1);
    }
    struct model_node *node = &model_nodes[index];
    node->id = id;
    node->parent = parent;
    snprintf(node->name, sizeof node->name, "%s", name);
    if (parent)
        atomic_fetch_add(&parent->pins, 1);
    atomic_store_explicit(&node->pins, 1, memory_order_release);
    return node;
}

static inline void model_pin(struct model_node *node)
{
    atomic_fetch_add(&node->pins, 1);
}

static inline void model_unpin(struct model_node *node)
{
    while (node && atomic_fetch_sub(&node->pins, 1) == 1)
        node = node->parent;
}

static inline void model_count_figure(struct model_node *node, enum model_figure figure, uint64_t n)
{
    atomic_fetch_add_explicit(&node->figures[figure], n, memory_order_relaxed);
}

static inline void model_alloc(struct model_node *node, size_t usable, size_t requested)
{
    model_pin(node);
    model_count_figure(node, ALLOC_OBJECTS, 1);
    model_count_figure(node, ALLOC_BYTES, usable);
    model_count_figure(node, ALLOC_REQUESTED_BYTES, requested);
}

/* Before the object is handed back. */
static inline void model_free(struct model_node *node, size_t usable)
{
    model_count_figure(node, FREE_OBJECTS, 1);
    model_count_figure(node, FREE_BYTES, usable);
    model_unpin(node);
}

static inline uint64_t model_figure(const struct model_node *node, enum model_figure figure)
{
    return atomic_load_explicit(&node->figures[figure], memory_order_relaxed);
}

#endif
