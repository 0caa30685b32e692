/* SPDX-License-Identifier: BSD-2-Clause */
/* Stacks and periods in a snapshot: they are listed by themselves, and their figures are part of their contexts' rows. */
#include "base/compiler.h"

#include "base/meta.h"
#include "snapshot/snapshot_builder.h"

int stacks_begin(struct snapshot_builder *b)
{
    struct snapshot *s = &b->mapping->public;
    struct stacks_stats stats = {0};
    int error = s->n_stacks ? b->view->reader->frames(b->view, &s->frames, &s->n_frames, &stats) : 0;
    if (!error && s->n_stacks)
        error = b->view->reader->codes(b->view, &s->codes, &s->n_codes);
    s->stacks_ended_early = load_relaxed(&stats.ended_early);
    s->stacks_cut = load_relaxed(&stats.cut);
    s->stacks_overflow = load_relaxed(&stats.overflow);
    b->sample_bytes = load_relaxed(&stats.sample_bytes);
    return error;
}

/* The place of the context or period in which the stack allocates. */
static const struct place *parent_place(const struct snapshot_builder *b, const struct context *c)
{
    const struct place *parent = c->parent < b->end ? &b->places[c->parent] : NULL;
    return parent && parent->life & 1 && parent->kind != CONTEXT_STACK ? parent : NULL;
}

/* The ages of a row come before, since ids of parents may be higher only where books are damaged or ids were recycled.
 * So the row of a period is found when all are filled: stacks_fold(). Until then `row` is the place of the parent. */
void stacks_fill(struct snapshot_builder *b, uint32_t id, const struct totals *sum)
{
    const struct context *c = &b->block->contexts[id % BLOCK_IDS];
    const struct place *parent = parent_place(b, c);
    struct snapshot_stack *stack = &b->stacks[b->places[id].row];
    *stack = (struct snapshot_stack){.row = NO_ROW};
    if (b->block->lives[id % BLOCK_IDS] != b->places[id].life || !parent) {
        b->places[id].life = 0;
        b->has_dropped = true;
        return;
    }
    stack->row = parent->row;
    stack->age = parent->kind == CONTEXT_PERIOD ? parent->row + 1 : 0;
    stack->frame = c->stack & ~STACK_SAMPLED;
    stack->sampled = c->stack & STACK_SAMPLED;
    stack->totals = builder_own_figures(b, id, sum);
    stack->peak_bytes = load_relaxed(&b->block->peaks[id % BLOCK_IDS].own_bytes);
    stack->at_peak_bytes = load_relaxed(&b->block->peaks[id % BLOCK_IDS].at_peak_bytes);
    stack->totals.enters = stack->totals.exits = stack->totals.opens = 0; /* a thread is inside while it allocates */
}

static void fold(struct snapshot_builder *b, struct snapshot_stack *stack)
{
    if (b->owes_frees)
        totals_floor_frees(&stack->totals);
    if (stack->age) {
        struct snapshot_age *age = &b->ages[stack->age - 1];
        stack->row = age->row;
        stack->oldest_ns = age->oldest_ns;
        stack->age = 0;
        if (age->row != NO_ROW)
            totals_add(&age->totals, &stack->totals);
        return;
    }
    struct snapshot_row *row = &b->rows[stack->row];
    if (!row->id) {
        stack->row = NO_ROW;
        return;
    }
    totals_add(&row->totals, &stack->totals);
    if (row->kind == CONTEXT_SPAN)
        builder_fill_outlived(b, row);
}

/* Damaged books may have any number. */
static bool has_good_frame(const struct snapshot *s, const struct snapshot_stack *stack)
{
    return stack->frame && stack->frame < s->n_frames;
}

void stacks_fold(struct snapshot_builder *b)
{
    const struct snapshot *s = &b->mapping->public;
    for (uint32_t i = 0; i < s->n_stacks; i++) {
        struct snapshot_stack *stack = &b->stacks[i];
        if (stack->row != NO_ROW)
            fold(b, stack);
        if (!has_good_frame(s, stack))
            stack->row = NO_ROW; /* its figures stay in the context */
        b->has_dropped |= stack->row == NO_ROW;
    }
}

/* ---- Samples ----
 *
 * An object of s requested bytes is a sample with the probability 1 - exp(-s / mean), so it stands for the reciprocal number of
 * objects. A stack's objects are taken to have their mean size, as other sampling profilers do. The figures of a row are
 * exact. So the estimates of its stacks are lowered where their sum is more than the row has. */

/* e to the power -x, without libm: (e^(-x / 1024))^1024. */
static double exponential(double x)
{
    double y = x > 64 ? 64.0 / 1024 : x / 1024, result = 1 - y * (1 - y / 2 * (1 - y / 3 * (1 - y / 4)));
    for (int i = 0; i < 10; i++)
        result *= result;
    return result;
}

static double weight_of(const struct snapshot_builder *b, const struct totals *t)
{
    double mean = t->alloc_objects ? (double)t->alloc_requested_bytes / (double)t->alloc_objects : 0;
    double probability = b->sample_bytes ? 1 - exponential(mean / (double)b->sample_bytes) : 1;
    return probability > 1e-9 ? 1 / probability : 1;
}

enum { ALLOC_OBJECTS, ALLOC_BYTES, REQUESTED_BYTES, INUSE_OBJECTS, INUSE_BYTES, LIFETIMES, AT_PEAK_BYTES, N_FIGURES };

static void take_figures(double figures[N_FIGURES], const struct totals *t, uint64_t at_peak_bytes, double weight)
{
    const uint64_t values[N_FIGURES] = {t->alloc_objects, t->alloc_bytes, t->alloc_requested_bytes, totals_inuse_objects(t),
                                        totals_inuse_bytes(t), t->lifetimes, at_peak_bytes};
    for (int i = 0; i < N_FIGURES; i++)
        figures[i] += (double)values[i] * weight;
}

/* The figures of a sample's stack that are estimated; it has no others. */
static void set_figures(struct snapshot_stack *stack, const double figures[N_FIGURES], const double factors[N_FIGURES])
{
    struct totals *t = &stack->totals;
    uint64_t v[N_FIGURES];
    for (int i = 0; i < N_FIGURES; i++)
        v[i] = (uint64_t)(figures[i] * factors[i]);
    *t = (struct totals){.alloc_objects = v[ALLOC_OBJECTS], .alloc_bytes = v[ALLOC_BYTES], .alloc_requested_bytes = v[REQUESTED_BYTES],
                         .lifetimes = v[LIFETIMES]};
    t->free_objects = v[ALLOC_OBJECTS] - lesser(v[INUSE_OBJECTS], v[ALLOC_OBJECTS]);
    t->free_bytes = v[ALLOC_BYTES] - lesser(v[INUSE_BYTES], v[ALLOC_BYTES]);
    stack->at_peak_bytes = v[AT_PEAK_BYTES];
}

static void estimate_row(struct snapshot_builder *b, const struct snapshot_row *row)
{
    double left[N_FIGURES] = {0}, sum[N_FIGURES] = {0}, factors[N_FIGURES];
    take_figures(left, &row->totals, row->peaks.at_peak_bytes, 1);
    for (uint32_t i = row->first_stack; i; i = b->stacks[i - 1].next) {
        const struct snapshot_stack *stack = &b->stacks[i - 1];
        take_figures(stack->sampled ? sum : left, &stack->totals, stack->at_peak_bytes,
                     stack->sampled ? weight_of(b, &stack->totals) : -1);
    }
    for (int i = 0; i < N_FIGURES; i++)
        factors[i] = sum[i] > left[i] && sum[i] > 0 && left[i] >= 0 ? left[i] / sum[i] : 1;
    for (uint32_t i = row->first_stack; i; i = b->stacks[i - 1].next) {
        struct snapshot_stack *stack = &b->stacks[i - 1];
        double figures[N_FIGURES] = {0}, weight = weight_of(b, &stack->totals);
        if (!stack->sampled)
            continue;
        take_figures(figures, &stack->totals, stack->at_peak_bytes, weight);
        set_figures(stack, figures, factors);
        stack->peak_bytes = lesser((uint64_t)((double)stack->peak_bytes * weight), row->peaks.own_bytes);
    }
}

void stacks_estimate(struct snapshot_builder *b)
{
    bool any = false;
    for (uint32_t i = 0; i < b->mapping->public.n_stacks; i++)
        any |= b->stacks[i].sampled;
    for (uint32_t i = 0; any && i < b->mapping->public.n_rows; i++)
        if (b->rows[i].first_stack)
            estimate_row(b, &b->rows[i]);
}

void stacks_link(struct snapshot_builder *b)
{
    for (uint32_t i = b->mapping->public.n_stacks; i--;) {
        struct snapshot_row *row = &b->rows[b->stacks[i].row];
        b->stacks[i].next = row->first_stack;
        row->first_stack = i + 1;
    }
}

/* ---- Periods ---- */

/* A period whose context is gone, or was not there yet when ids were looked at, has no row. */
void ages_fill(struct snapshot_builder *b, uint32_t id, const struct totals *sum)
{
    const struct context *c = &b->block->contexts[id % BLOCK_IDS];
    const struct place *parent = c->parent < b->end ? &b->places[c->parent] : NULL;
    struct snapshot_age *age = &b->ages[b->places[id].row];
    *age = (struct snapshot_age){.row = NO_ROW};
    if (b->block->lives[id % BLOCK_IDS] != b->places[id].life || !parent || !place_has_row(parent)) {
        b->places[id].life = 0;
        b->has_dropped = true;
        return;
    }
    age->row = parent->row;
    age->oldest_ns = clock_age_ns(b->now, c->born, b->scale);
    age->totals = builder_own_figures(b, id, sum);
    age->open = c->open_spans || age->totals.enters != age->totals.exits;
}

static void fold_totals(struct snapshot_builder *b, uint32_t i, const struct totals *t)
{
    struct snapshot_row *row = &b->rows[i];
    totals_add(&row->totals, t);
    row->totals.idle = totals_idle(&row->totals);
    row->wall_ns += t->wall;
    row->open_spans += (uint32_t)(t->enters - t->exits);
    if (row->kind == CONTEXT_SPAN)
        b->walls[row->parent_row].children += t->wall;
}

static void fold_past(struct snapshot_builder *b, uint32_t row, struct totals *past)
{
    totals_floor_times(past);
    builder_times_to_ns(b, past);
    fold_totals(b, row, past);
}

static void fold_pasts(struct snapshot_builder *b)
{
    if (!b->past)
        return;
    struct totals *unsampled = &b->past[b->end - 1];
    unsampled->wall = 0; /* as in their own figures */
    for (uint32_t i = 0; i < b->mapping->public.n_rows; i++)
        fold_past(b, i, &b->past[i]);
    fold_past(b, 0, unsampled);
}

/* An object of a period has outlived its span for certain if each open span of the context was opened in a later
 * period. */
static void add_outlived(struct snapshot_builder *b, const struct snapshot_age *age, const uint64_t *oldest_open_ns)
{
    struct snapshot_row *row = &b->rows[age->row];
    if (row->kind != CONTEXT_SPAN || age->oldest_ns <= oldest_open_ns[age->row])
        return;
    row->totals.outlived_objects += totals_inuse_objects(&age->totals);
    row->totals.outlived_bytes += totals_inuse_bytes(&age->totals);
}

/* Returns by row how long ago the period began in which the oldest open span was opened; 0: no span is open. */
static uint64_t *find_oldest_open(const struct snapshot_builder *b, size_t bytes)
{
    uint64_t *oldest_ns = meta_map(bytes);
    const struct snapshot *s = &b->mapping->public;
    for (uint32_t i = 0; oldest_ns && i < s->n_ages; i++) {
        const struct snapshot_age *age = &s->ages[i];
        if (age->open && age->oldest_ns > oldest_ns[age->row])
            oldest_ns[age->row] = age->oldest_ns;
    }
    return oldest_ns;
}

void ages_fold(struct snapshot_builder *b)
{
    const struct snapshot *s = &b->mapping->public;
    size_t bytes = s->n_rows * sizeof(uint64_t);
    uint64_t *oldest_open_ns = s->n_ages ? find_oldest_open(b, bytes) : NULL;
    for (uint32_t i = 0; i < s->n_ages; i++) {
        if (oldest_open_ns)
            add_outlived(b, &s->ages[i], oldest_open_ns);
        fold_totals(b, s->ages[i].row, &s->ages[i].totals);
    }
    fold_pasts(b);
    for (struct snapshot_row *row = b->rows; b->pasts && row < b->rows + s->n_rows; row++)
        if (row->kind == CONTEXT_SPAN)
            builder_note_exits(b, row);
    meta_unmap(oldest_open_ns, bytes);
}
