/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots: one mapping that holds rows, labels and strings. */
#include "snapshot.h"

#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "lock.h"
#include "meta.h"
#include "sums.h"
#include "tree.h"

/* What follows the public part in the same mapping. Sites are kept for good, so rows point to their strings; labels are
 * copied behind the rows. */
struct made {
    struct snapshot public;
    size_t bytes;
    struct totals *sums; /* by id; only while being made */
    size_t sums_bytes;
    uint32_t *row_of; /* by id; only while being made */
};

static uint64_t epoch, start_unix_ns; /* LOCK_TREE */

/* Under LOCK_TREE. Bytes of label records and their text. */
static size_t labels_bytes(uint32_t end)
{
    size_t bytes = 0;
    for (uint32_t id = CONTEXT_ID_ROOT; id < end; id++)
        if (tree_is_live(id) && contexts[id].labels)
            bytes += contexts[id].labels->count * sizeof(struct snapshot_label) + contexts[id].labels->bytes;
    return bytes;
}

/* Copies the labels to `records` and their text to `text`, and advances both. */
static void copy_labels(struct snapshot_row *row, const struct label_set *set, struct snapshot_label **records,
                        char **text)
{
    row->labels = *records;
    row->n_labels = set->count;
    const char *at = memcpy(*text, set->text, set->bytes);
    *text += set->bytes;
    for (uint32_t i = 0; i < set->count; i++) {
        (*records)->key = at;
        at += strlen(at) + 1;
        (*records)->value = at;
        at += strlen(at) + 1;
        (*records)++;
    }
}

/* Under LOCK_TREE, with made->sums read. */
static void fill_rows(struct made *made, uint32_t end, struct snapshot_row *rows, uint32_t n_labels)
{
    struct snapshot_label *records = (struct snapshot_label *)(rows + made->public.n_rows);
    char *text = (char *)(records + n_labels);
    struct snapshot_row *row = rows;
    for (uint32_t id = CONTEXT_ID_ROOT; id < end; id++) {
        const struct context *c = &contexts[id];
        if (!tree_is_live(id))
            continue;
        made->row_of[id] = (uint32_t)(row - rows);
        *row = (struct snapshot_row){.id = id, .kind = c->kind, .line = c->site->line, .name = c->site->name,
                                     .target = c->site->target, .file = c->site->file, .totals = made->sums[id]};
        totals_subtract(&row->totals, &context_bases[id]);
        totals_add(&made->public.all, &row->totals);
        if (c->labels)
            copy_labels(row, c->labels, &records, &text);
        row++;
    }
    for (row = rows; row < rows + made->public.n_rows; row++)
        row->parent_row = made->row_of[contexts[row->id].parent];
}

/* Under LOCK_TREE. */
static void count_rows(uint32_t end, uint32_t *n_rows, uint32_t *n_labels)
{
    *n_rows = *n_labels = 0;
    for (uint32_t id = CONTEXT_ID_ROOT; id < end; id++) {
        *n_rows += tree_is_live(id);
        *n_labels += tree_is_live(id) && contexts[id].labels ? contexts[id].labels->count : 0;
    }
}

/* Under LOCK_TREE. */
static struct made *make(uint32_t end)
{
    uint32_t n_rows, n_labels;
    count_rows(end, &n_rows, &n_labels);
    size_t bytes = sizeof(struct made) + n_rows * sizeof(struct snapshot_row) + labels_bytes(end);
    size_t sums_bytes = (size_t)end * (sizeof(struct totals) + sizeof(uint32_t));
    struct made *made = meta_map(bytes);
    struct totals *sums = meta_map(sums_bytes);
    if (!made || !sums) {
        meta_unmap(made, bytes);
        meta_unmap(sums, sums_bytes);
        return NULL;
    }
    *made = (struct made){.bytes = bytes, .sums = sums, .sums_bytes = sums_bytes, .row_of = (uint32_t *)(sums + end)};
    made->public.n_rows = n_rows;
    made->public.rows = (const struct snapshot_row *)(made + 1);
    made->public.pending_bytes = sums_read(sums, end);
    fill_rows(made, end, (struct snapshot_row *)(made + 1), n_labels);
    return made;
}

struct snapshot *snapshot_take(void)
{
    lock(LOCK_TREE);
    struct made *made = make(tree_end());
    if (made) {
        made->public.epoch = ++epoch;
        made->public.retired = tree_retired();
        made->public.start_unix_ns = start_unix_ns;
    }
    unlock(LOCK_TREE);
    if (!made)
        return NULL;
    totals_add(&made->public.all, &made->public.retired);
    made->public.time_unix_ns = clock_unix_ns();
    made->public.pid = (uint32_t)getpid();
    meta_unmap(made->sums, made->sums_bytes);
    return &made->public;
}

void snapshot_free(struct snapshot *s)
{
    struct made *made = (struct made *)s;
    if (made)
        meta_unmap(made, made->bytes);
}

void snapshot_start_clock(void)
{
    start_unix_ns = clock_unix_ns();
}

const struct snapshot_row *snapshot_find(const struct snapshot *s, uint32_t id)
{
    uint32_t low = 0, high = s->n_rows;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->rows[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->n_rows && s->rows[low].id == id ? &s->rows[low] : NULL;
}
