/* SPDX-License-Identifier: BSD-2-Clause */
/* The start of a difference. */
#include "http_start.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct http_start_figures read_figures(const struct totals *t)
{
    return (struct http_start_figures){t->alloc_objects, t->alloc_bytes, totals_inuse_objects(t), totals_inuse_bytes(t),
                                       t->cpu};
}

static bool is_anything(const struct http_start_figures *f)
{
    return (f->alloc_objects | f->alloc_bytes | f->inuse_objects | f->inuse_bytes | f->cpu) != 0;
}

/* The kernel may correct CPU time downwards. Then the difference is 0. */
static void subtract(struct totals *t, const struct http_start_figures *was)
{
    t->alloc_objects -= was->alloc_objects;
    t->alloc_bytes -= was->alloc_bytes;
    t->free_objects -= was->alloc_objects - was->inuse_objects;
    t->free_bytes -= was->alloc_bytes - was->inuse_bytes;
    t->cpu = t->cpu > was->cpu ? t->cpu - was->cpu : 0;
}

/* ---- Creating ---- */

static uint32_t count_rows(const struct snapshot *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        struct http_start_figures figures = read_figures(&s->rows[i].totals);
        n += is_anything(&figures);
    }
    return n;
}

size_t http_start_bytes(const struct snapshot *s)
{
    return sizeof(struct http_start) + count_rows(s) * sizeof(struct http_start_row);
}

struct http_start *http_start_make(const struct snapshot *s)
{
    struct http_start *start = malloc(http_start_bytes(s));
    if (!start)
        return NULL;
    *start = (struct http_start){
        .age_ns = s->time_unix_ns - s->start_unix_ns, .retired = read_figures(&s->retired), .all = read_figures(&s->all)};
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const struct snapshot_row *row = &s->rows[i];
        struct http_start_figures figures = read_figures(&row->totals);
        if (is_anything(&figures))
            start->rows[start->n_rows++] = (struct http_start_row){row->id, row->generation, figures};
    }
    return start;
}

/* ---- Subtracting ---- */

/* An id may belong to another context meanwhile, which the generation shows. */
static void subtract_rows(const struct http_start *start, struct snapshot *end)
{
    for (uint32_t i = 0; i < start->n_rows; i++) {
        const struct http_start_row *was = &start->rows[i];
        struct snapshot_row *now = (struct snapshot_row *)snapshot_find(end, was->id);
        subtract(now && now->generation == was->generation ? &now->totals : &end->retired, &was->figures);
    }
}

void http_start_subtract(const struct http_start *start, struct snapshot *end)
{
    struct http_start_figures retired = start->retired;
    subtract_rows(start, end);
    subtract(&end->retired, &retired);
    subtract(&end->all, &start->all);
    end->start_unix_ns += start->age_ns; /* not the wall clock of the start: it may have been set meanwhile */
}
