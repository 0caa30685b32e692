/* SPDX-License-Identifier: BSD-2-Clause */
/* Compares the model with jespan's figures, one by one. Only at quiet points, on one thread.
 *
 * All figures are read from a snapshot. mallctl is asked for one figure of each context and of all, another one at each check:
 * each question adds up the stacks of a context, or of all, over all threads. */
#ifndef JESPAN_TESTS_MODEL_CHECK_H
#define JESPAN_TESTS_MODEL_CHECK_H

#include <jespan/snapshot.h>

#include <string.h>

#include "ctl.h"
#include "model.h"

#define MODEL_TABLE (1u << 21)
static uint32_t *model_table; /* node index + 1 by context number, open addressing */
static uint32_t *model_ids;
static unsigned model_checks; /* so far */

static const enum jespan_figure model_snapshot_figures[FIGURES] = {
    JESPAN_ALLOC_OBJECTS,      JESPAN_ALLOC_BYTES,           JESPAN_ALLOC_REQUESTED_BYTES, JESPAN_FREE_OBJECTS, JESPAN_FREE_BYTES,
    JESPAN_CREDITED_IN_OBJECTS, JESPAN_CREDITED_IN_BYTES, JESPAN_CREDITED_OUT_OBJECTS, JESPAN_CREDITED_OUT_BYTES, JESPAN_ENTERS,
};

static inline uint32_t *model_slot(uint32_t id)
{
    uint32_t i = (id * 2654435761u) % MODEL_TABLE;
    while (model_table[i] && model_nodes[model_table[i] - 1].id != id)
        i = (i + 1) % MODEL_TABLE;
    return &model_table[i];
}

static inline void model_index(void)
{
    memset(model_table, 0, MODEL_TABLE * sizeof *model_table);
    for (uint32_t i = 0; i < model_count; i++)
        if (model_nodes[i].pins) {
            uint32_t *slot = model_slot(model_nodes[i].id);
            if (*slot)
                check_fail("contexts %s and %s are both number %u", model_nodes[i].name,
                           model_nodes[*slot - 1].name, model_nodes[i].id);
            *slot = i + 1;
        }
}

/* spans.<id>.<leaf> through a MIB: the names of ten thousand contexts would be slow. */
static inline uint64_t model_read(uint32_t id, const char *leaf)
{
    static struct {
        const char *leaf;
        size_t mib[3];
    } known[16];
    size_t k = 0, length = 3;
    while (known[k].leaf && strcmp(known[k].leaf, leaf) != 0)
        k++;
    if (!known[k].leaf) {
        char name[64];
        int error = F(mallctlnametomib)(ctl_span_name(name, sizeof name, JESPAN_ROOT, leaf), known[k].mib, &length);
        if (error || length != 3)
            check_fail("mallctlnametomib(%s): %s, length %zu", name, strerror(error), length);
        known[k].leaf = leaf;
    }
    uint64_t value = 0;
    size_t mib[3] = {known[k].mib[0], id, known[k].mib[2]}, bytes = sizeof value;
    int error = F(mallctlbymib)(mib, 3, &value, &bytes, NULL, 0);
    if (error)
        check_fail("mallctlbymib(spans.%u.%s): %s", id, leaf, strerror(error));
    return value;
}

static inline void model_expect(const struct model_node *node, int f, uint64_t actual, const char *source)
{
    uint64_t expected = model_figure(node, f);
    if (actual != expected)
        check_fail("context %u %s: %s is %llu by %s, the model says %llu", node->id, node->name, model_figure_names[f],
                   (unsigned long long)actual, source, (unsigned long long)expected);
}

static inline void model_compare(const struct model_node *node, const jespan_row_t *row)
{
    for (int f = 0; f < FIGURES; f++)
        model_expect(node, f, jespan_row_figure(row, model_snapshot_figures[f]), "the snapshot");
    int live = (int)((node->id + model_checks) % FIGURES);
    model_expect(node, live, model_read(node->id, model_figure_names[live]), "mallctl");
    const char *name = ctl_span_text(node->id, "name");
    if (strcmp(name, node->name) != 0)
        check_fail("context %u is called %s, not %s", node->id, name, node->name);
    if (node->parent && ctl_span(node->id, "parent") != node->parent->id)
        check_fail("context %u %s has the wrong parent", node->id, node->name);
}

/* A context that is not alive in the model: that of a dead node, not recycled yet, or one from outside. */
static inline void model_compare_unknown(uint32_t id, const jespan_row_t *row)
{
    if (strcmp(ctl_span_text(id, "kind"), "jespan") == 0)
        return;
    uint64_t objects = jespan_row_figure(row, JESPAN_INUSE_OBJECTS), bytes = jespan_row_figure(row, JESPAN_INUSE_BYTES);
    if (objects || bytes)
        check_fail("context %u (%s) holds %llu objects, %llu bytes, and the model none", id, ctl_span_text(id, "name"),
                   (unsigned long long)objects, (unsigned long long)bytes);
}

static inline bool model_is_outside(uint32_t id, const struct model_node *node)
{
    return node ? node->ignored : strcmp(ctl_span_text(id, "kind"), "jespan") == 0;
}

/* Compares every context that jespan lists, and checks that it lists each one that is alive. Fills `sums` and
 * `outside`. */
static inline void model_compare_contexts(const jespan_snapshot_t *snapshot, uint64_t sums[FIGURES], uint64_t outside[FIGURES])
{
    size_t bytes = (MODEL_NODES + 1024) * sizeof *model_ids;
    int error = F(mallctl)("spans.ids", model_ids, &bytes, NULL, 0);
    if (error)
        check_fail("mallctl(spans.ids): %s", strerror(error));
    uint32_t n = (uint32_t)(bytes / sizeof *model_ids), alive = 0, seen = 0;
    CHECK_EQ(n, ctl_u64("spans.count"));
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = model_ids[i], slot = *model_slot(id);
        const struct model_node *node = slot ? &model_nodes[slot - 1] : NULL;
        bool is_outside = model_is_outside(id, node);
        const jespan_row_t *row = jespan_snapshot_find(snapshot, id);
        seen += node != NULL;
        if (!row) {
            check_fail("context %u is in spans.ids and not in a snapshot", id);
            continue;
        }
        for (int f = 0; f < FIGURES; f++) {
            uint64_t value = jespan_row_figure(row, model_snapshot_figures[f]);
            sums[f] += value;
            outside[f] += is_outside ? value : 0;
        }
        if (!node)
            model_compare_unknown(id, row);
        else if (!node->ignored)
            model_compare(node, row);
    }
    for (uint32_t i = 0; i < model_count; i++)
        alive += model_nodes[i].pins != 0;
    if (seen != alive)
        check_fail("%u contexts are alive, spans.ids has %u of them", alive, seen);
}

static inline void model_compare_sums(const jespan_snapshot_t *snapshot, const uint64_t sums[FIGURES], const uint64_t outside[FIGURES])
{
    uint64_t expected[FIGURES] = {0};
    for (uint32_t i = 0; i < model_count; i++)
        for (int f = 0; f < FIGURES; f++)
            expected[f] += model_nodes[i].ignored ? 0 : model_figure(&model_nodes[i], f);
    for (int f = 0; f < FIGURES; f++) {
        char all[64], retired[64];
        snprintf(all, sizeof all, "spans.all.%s", model_figure_names[f]);
        snprintf(retired, sizeof retired, "spans.retired.%s", model_figure_names[f]);
        uint64_t total = jespan_snapshot_figure(snapshot, model_snapshot_figures[f]), inside = total - outside[f];
        if (f == (int)(model_checks % FIGURES) && ctl_u64(all) != total)
            check_fail("%s is %llu, a snapshot has %llu", all, (unsigned long long)ctl_u64(all), (unsigned long long)total);
        if (sums[f] + ctl_u64(retired) != total)
            check_fail("%s is %llu, contexts and retired have %llu", all, (unsigned long long)total,
                       (unsigned long long)(sums[f] + ctl_u64(retired)));
        if (inside != expected[f])
            check_fail("%s: %llu are the model's, and it says %llu", all, (unsigned long long)inside,
                       (unsigned long long)expected[f]);
    }
    CHECK_EQ(ctl_u64("spans.retired.inuse_objects"), 0);
    CHECK_EQ(ctl_u64("spans.retired.inuse_bytes"), 0);
}

/* Compares everything. All other threads must be waiting, with nothing but their caches and buffers unsettled. */
static inline void model_check(const char *where)
{
    uint64_t sums[FIGURES] = {0}, outside[FIGURES] = {0};
    ctl_refresh();
    ctl_check_identity(where);
    model_index();
    jespan_snapshot_t *snapshot = jespan_snapshot_take();
    CHECK(snapshot != NULL);
    model_compare_contexts(snapshot, sums, outside);
    model_compare_sums(snapshot, sums, outside);
    jespan_snapshot_free(snapshot);
    model_checks++;
    CHECK_EQ(ctl_u64("spans.stats.overflow"), 0);
    if (check_failures) {
        check_note("the figures are wrong at %s", where);
        _exit(1);
    }
}

/* Adds the existing contexts to the model: their objects were allocated before main() began and stay as they are. */
static inline void model_begin(void)
{
    model_nodes = model_map(MODEL_NODES * sizeof *model_nodes);
    model_table = model_map(MODEL_TABLE * sizeof *model_table);
    model_ids = model_map((MODEL_NODES + 1024) * sizeof *model_ids);
    ctl_refresh();
    size_t bytes = 1024 * sizeof *model_ids;
    CHECK_EQ(F(mallctl)("spans.ids", model_ids, &bytes, NULL, 0), 0);
    for (uint32_t i = 0; i < bytes / sizeof *model_ids; i++) {
        if (strcmp(ctl_span_text(model_ids[i], "kind"), "jespan") == 0)
            continue;
        struct model_node *node = model_add(NULL, model_ids[i], ctl_span_text(model_ids[i], "name"));
        node->thread = strcmp(ctl_span_text(node->id, "kind"), "thread") == 0;
        for (int f = 0; f < FIGURES; f++)
            node->figures[f] = model_read(node->id, model_figure_names[f]);
    }
}

static inline struct model_node *model_find(uint32_t id)
{
    for (uint32_t i = 0; i < model_count; i++)
        if (model_nodes[i].id == id && model_nodes[i].pins)
            return &model_nodes[i];
    return NULL;
}

#endif
