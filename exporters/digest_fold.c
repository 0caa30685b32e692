/* SPDX-License-Identifier: BSD-2-Clause */
/* Folds a digest: beginning at the leaves, a node that weighs less than a threshold goes to its parent. Its weight
 * includes the nodes folded into it. The threshold is about the smallest that leaves few enough nodes.
 */
#include <stdlib.h>
#include <string.h>

#include "digest_nodes.h"

#define LEAST 1e-15     /* the smallest weight of a node with figures */
#define MOST 8.0        /* more than the weight of all nodes together */
#define PREFERENCE 1e-4 /* of equal nodes the first weigh more, by up to this part, so that some of them stay */
#define MAX_STEPS 100   /* of the search for the threshold. Each step halves the range */

struct weight {
    double own, sum; /* sum: with the nodes folded into it. 0: this node is folded */
    uint32_t parent;
};

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 && (int64_t)part > 0 ? (double)part / (double)whole : 0;
}

static double weigh(const struct totals *t, const struct totals *all)
{
    return share(totals_inuse_bytes(t), totals_inuse_bytes(all)) + share(t->alloc_bytes, all->alloc_bytes)
        + share(t->cpu, all->cpu) + share(t->wall, all->wall);
}

static void weigh_all(const struct digest *d, struct weight *weights)
{
    struct totals all = {0};
    for (uint32_t i = 0; i < d->n_nodes; i++)
        totals_add(&all, &d->nodes[i].totals);
    for (uint32_t i = 0; i < d->n_nodes; i++) {
        const struct digest_node *node = &d->nodes[i];
        double preference = 1 + PREFERENCE * (double)(d->n_nodes - i) / (double)d->n_nodes;
        weights[i].parent = node->parent;
        weights[i].own = digest_has_figures(node) ? (LEAST + weigh(&node->totals, &all)) * preference : 0;
    }
}

/* Returns how many nodes stay. The root always stays. */
static uint32_t try_threshold(struct weight *weights, uint32_t n, double threshold)
{
    uint32_t stay = 1;
    for (uint32_t i = 0; i < n; i++)
        weights[i].sum = weights[i].own;
    for (uint32_t i = n; i-- > DIGEST_ROOT + 1;)
        if (weights[i].sum >= threshold) {
            stay++;
        } else {
            weights[weights[i].parent].sum += weights[i].sum;
            weights[i].sum = 0;
        }
    return stay;
}

/* The middle of the two in orders of magnitude. The bits of positive doubles, read as integers, are ordered like the
 * numbers (IEEE 754). */
static double between(double low, double high)
{
    uint64_t a, b, half;
    double middle;
    memcpy(&a, &low, sizeof a);
    memcpy(&b, &high, sizeof b);
    half = a + (b - a) / 2;
    memcpy(&middle, &half, sizeof middle);
    return middle;
}

/* Searches the threshold. The weights are then those of the threshold found. */
static void find_threshold(struct weight *weights, uint32_t n, uint32_t max)
{
    double low = LEAST / 2, high = MOST;
    for (int i = 0; i < MAX_STEPS; i++) {
        double middle = between(low, high);
        uint32_t stay = try_threshold(weights, n, middle);
        if (stay <= max && stay >= max - max / 64)
            return;
        *(stay > max ? &low : &high) = middle;
    }
    try_threshold(weights, n, high);
}

/* Without weights, all nodes are folded into the root. */
static uint32_t move_figures(struct digest *d, const struct weight *weights)
{
    uint32_t folded = 0;
    for (uint32_t i = d->n_nodes; i-- > DIGEST_ROOT + 1;) {
        struct digest_node *node = &d->nodes[i];
        if ((weights && weights[i].sum > 0) || !digest_has_figures(node))
            continue;
        totals_add(&d->nodes[node->parent].totals, &node->totals);
        node->totals = (struct totals){0};
        folded += !weights || weights[i].own > 0;
    }
    return folded;
}

static uint32_t count_figures(const struct digest *d)
{
    uint32_t n = 1; /* the root's */
    for (uint32_t i = DIGEST_ROOT + 1; i < d->n_nodes; i++)
        n += digest_has_figures(&d->nodes[i]);
    return n;
}

uint32_t digest_fold(struct digest *d, uint32_t max)
{
    if (count_figures(d) <= max)
        return 0;
    struct weight *weights = malloc(d->n_nodes * sizeof *weights);
    if (weights) {
        weigh_all(d, weights);
        find_threshold(weights, d->n_nodes, max);
    }
    uint32_t folded = move_figures(d, weights);
    free(weights);
    digest_compact(d);
    return folded;
}
