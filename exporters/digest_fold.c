/* SPDX-License-Identifier: BSD-2-Clause */
/* Folding a digest: from the leaves on, what weighs less than a threshold, together with all that was folded into it,
 * goes to its parent. The threshold is the least one, nearly, that leaves few enough.
 */
#include <stdlib.h>
#include <string.h>

#include "digest_nodes.h"

#define LEAST 1e-15     /* what figures weigh at least */
#define MOST 8.0        /* more than all together */
#define PREFERENCE 1e-4 /* of equal ones those that came first, by up to this part of their weight, so that some stay */
#define MAX_STEPS 100   /* to the threshold, each of which halves where it may be */

struct weight {
    double own, sum; /* sum: with what was folded into it, 0 where it is folded itself */
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

/* Returns how many stay. The root does. */
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

/* Halfway between the two in orders of magnitude, as which the bits of positive numbers are ordered (IEEE 754). */
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

/* Leaves the weights as with the threshold. */
static void settle(struct weight *weights, uint32_t n, uint32_t max)
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

/* Without weights all goes to the root. */
static uint32_t move_figures(struct digest *d, const struct weight *weights)
{
    uint32_t folded = 0;
    for (uint32_t i = d->n_nodes; i-- > DIGEST_ROOT + 1;) {
        struct digest_node *node = &d->nodes[i];
        if ((weights != NULL && weights[i].sum > 0) || !digest_has_figures(node))
            continue;
        totals_add(&d->nodes[node->parent].totals, &node->totals);
        node->totals = (struct totals){0};
        folded += weights == NULL || weights[i].own > 0;
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
    if (weights != NULL) {
        weigh_all(d, weights);
        settle(weights, d->n_nodes, max);
    }
    uint32_t folded = move_figures(d, weights);
    free(weights);
    digest_compact(d);
    return folded;
}
