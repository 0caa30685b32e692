/* SPDX-License-Identifier: BSD-2-Clause */
/* Live objects of closed spans, by site. Sites are kept for good, so the address of its name identifies a site. */
#include "snapshot/outlived.h"

#include <errno.h>

#include "base/meta.h"

#define MINUTE_NS 60000000000u
#define SHORTEST_NS 1000000000u /* growth over less time is not reported */

/* A hash table of sites with open addressing, by the address of their names. */
struct table {
    struct jespan_outlived *sites;
    size_t capacity, n; /* capacity: a power of two, more than n */
    uint64_t time_ns;
};

/* Two earlier tables, at least a minute apart. Growth is since the older one, so over one to two minutes. */
static struct table newer, older;

static size_t table_bytes(const struct table *t)
{
    return t->capacity * sizeof *t->sites;
}

static void drop(struct table *t)
{
    meta_unmap(t->sites, table_bytes(t));
    *t = (struct table){0};
}

static struct jespan_outlived *find(const struct table *t, const char *name)
{
    size_t i = ((uintptr_t)name >> 3) * 2654435761u;
    while (t->sites[i & (t->capacity - 1)].name && t->sites[i & (t->capacity - 1)].name != name)
        i++;
    return &t->sites[i & (t->capacity - 1)];
}

static int make_table(struct table *t, const struct snapshot *s)
{
    *t = (struct table){.capacity = 16, .time_ns = s->time_unix_ns};
    while (t->capacity < 2 * (size_t)s->n_rows)
        t->capacity *= 2;
    t->sites = meta_map(table_bytes(t));
    return t->sites ? 0 : -ENOMEM;
}

static void add_aged(struct jespan_outlived *site, uint64_t age_ns, uint64_t bytes)
{
    static const uint64_t limits_ns[JESPAN_OUTLIVED_AGES - 1] = {MINUTE_NS, 10ull * MINUTE_NS, 60ull * MINUTE_NS};
    int i = 0;
    while (i < JESPAN_OUTLIVED_AGES - 1 && age_ns >= limits_ns[i])
        i++;
    site->bytes_by_age[i] += bytes;
}

static void add_row(struct table *t, const struct snapshot *s, const struct snapshot_row *row)
{
    struct jespan_outlived *site = find(t, row->name);
    if (!site->name) {
        *site = (struct jespan_outlived){.name = row->name, .target = row->target, .file = row->file, .line = row->line};
        t->n++;
    }
    site->objects += row->totals.outlived_objects;
    site->bytes += row->totals.outlived_bytes;
    add_aged(site, snapshot_closed_ns(s, row), row->totals.outlived_bytes);
}

static void fill(struct table *t, const struct snapshot *s)
{
    for (const struct snapshot_row *row = s->rows; row < s->rows + s->n_rows; row++)
        if (row->totals.outlived_objects)
            add_row(t, s, row);
}

/* Moves the sites to the front of the table, in any order. */
static void pack(struct table *t)
{
    size_t n = 0;
    for (size_t i = 0; i < t->capacity; i++) {
        struct jespan_outlived site = t->sites[i];
        if (!site.name)
            continue;
        t->sites[i] = t->sites[n];
        t->sites[n++] = site;
    }
}

static int64_t growth(const struct table *then, const struct table *now, const struct jespan_outlived *site)
{
    uint64_t before = then->sites ? find(then, site->name)->bytes : 0, passed_ns = now->time_ns - then->time_ns;
    if (!then->sites || (int64_t)passed_ns < (int64_t)SHORTEST_NS)
        return 0;
    return (int64_t)((__int128)(int64_t)(site->bytes - before) * MINUTE_NS / (int64_t)passed_ns);
}

/* Heap sort with the smallest at the root. qsort(3) may allocate. */
static void sift(struct jespan_outlived *sites, size_t n, size_t i)
{
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && sites[child + 1].bytes < sites[child].bytes)
            child++;
        if (sites[i].bytes <= sites[child].bytes)
            return;
        struct jespan_outlived larger = sites[i];
        sites[i] = sites[child];
        sites[child] = larger;
    }
}

static void sort(struct jespan_outlived *sites, size_t n)
{
    for (size_t i = n / 2; i--;)
        sift(sites, n, i);
    while (n > 1) {
        struct jespan_outlived smallest = sites[0];
        sites[0] = sites[--n];
        sites[n] = smallest;
        sift(sites, n, 0);
    }
}

/* Keeps the table as the newer of the two, unless the one there is less than a minute old. */
static void keep(struct table *t)
{
    if (newer.sites && t->time_ns - newer.time_ns < MINUTE_NS) {
        drop(t);
        return;
    }
    drop(&older);
    older = newer;
    newer = *t;
}

static void write_list(const struct table *t, struct jespan_outlived *list, size_t room)
{
    const struct table *then = older.sites ? &older : &newer;
    for (size_t i = 0; i < t->n && i < room; i++) {
        list[i] = t->sites[i];
        list[i].growth_bytes_per_min = growth(then, t, &list[i]);
    }
}

int outlived_list(const struct snapshot *s, struct jespan_outlived *list, size_t room, size_t *n)
{
    struct table now, sorted;
    if (make_table(&now, s))
        return -ENOMEM;
    if (make_table(&sorted, s)) {
        drop(&now);
        return -ENOMEM;
    }
    fill(&now, s);
    fill(&sorted, s);
    pack(&sorted);
    sort(sorted.sites, sorted.n);
    write_list(&sorted, list, room);
    *n = sorted.n;
    drop(&sorted);
    keep(&now);
    return 0;
}
