/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots that are built by hand. */
#include "made_snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MADE_NAME_BYTES 32

struct made {
    struct snapshot snapshot;
    char (*names)[MADE_NAME_BYTES]; /* of generated rows */
    struct snapshot_label *labels;
};

static struct totals live(uint64_t objects, uint64_t bytes, uint64_t freed_objects, uint64_t freed_bytes)
{
    return (struct totals){.alloc_objects = objects + freed_objects, .alloc_bytes = bytes + freed_bytes,
                           .alloc_requested_bytes = bytes + freed_bytes, .free_objects = freed_objects,
                           .free_bytes = freed_bytes, .enters = 1, .exits = 1};
}

/* The same with times: number of opens, wall time and busy time. */
static struct totals timed(struct totals t, uint64_t opens, uint64_t wall_ns, uint64_t busy_ns, uint64_t cpu_ns)
{
    t.opens = opens;
    t.wall = wall_ns;
    t.busy = busy_ns;
    t.cpu = cpu_ns;
    return t;
}

/* Copies rows and fills in their sums. */
static struct snapshot *finish(const struct snapshot_row *rows, uint32_t n_rows)
{
    struct made *made = calloc(1, sizeof *made);
    struct snapshot_row *copy = calloc(n_rows + (size_t)1, sizeof *copy);
    if (n_rows > 0)
        memcpy(copy, rows, n_rows * sizeof *copy);
    made->snapshot = (struct snapshot){.epoch = 7, .pid = 4242, .start_unix_ns = 1795000000000000000u,
                                       .time_unix_ns = 1795000012345000000u, .n_rows = n_rows, .rows = copy};
    return &made->snapshot;
}

static struct snapshot *made_small(void)
{
    static const struct snapshot_label get[] = {{"route", "/doc"}, {"tenant", "blue"}};
    static const struct snapshot_label parse[] = {{"route", "/doc"}, {"tenant", "green"}, {"format", ""}};
    static const struct snapshot_label put[] = {{"route", "/put"}, {"shard", "7", 7, true}, {"request", "4096", 4096, true},
                                                {"zero", "0", 0, true}, {"below", "-12", -12, true}};
    const struct snapshot_row rows[] = {
        {.id = 1, .parent_row = 0, .kind = CONTEXT_ROOT, .name = "(root)", .target = "", .file = "",
         .totals = timed(live(10, 1000, 5, 500), 0, 0, 12000000000, 1500000)},
        {.id = 2, .parent_row = 0, .kind = CONTEXT_SELF, .name = "(jespan)", .target = "", .file = "",
         .totals = timed(live(2, 4096, 0, 0), 0, 0, 0, 0)},
        {.id = 3, .parent_row = 0, .kind = CONTEXT_THREAD, .name = "thread:main", .target = "", .file = "",
         .totals = timed((struct totals){0}, 0, 0, 7200000000000, 999)},
        {.id = 4, .parent_row = 0, .kind = CONTEXT_SPAN, .name = "request", .target = "server", .file = "server.c",
         .line = 100, .labels = get, .n_labels = 2,
         .totals = timed(live(3, 300, 97, 9700), 100, 3000000000, 250000000, 200000000)},
        {.id = 5, .parent_row = 3, .kind = CONTEXT_SPAN, .name = "parse", .target = "json", .file = "json.c", .line = 7,
         .labels = parse, .n_labels = 3,
         .totals = timed(live(50, 1048576, 10, 2097152), 60, 90000000, 90000000, 80000000),
         .peaks = {2097152, 2097152, 1500000}},
        {.id = 6, .parent_row = 7, .kind = CONTEXT_SPAN, .name = "parse", .target = "json", .file = "json.c", .line = 7,
         .totals = timed(live(0, 0, 20, 64000), 20, 15500, 15500, 15500)},
        {.id = 7, .parent_row = 0, .kind = CONTEXT_SPAN, .name = "idle", .target = "server", .file = "server.c",
         .line = 5, .totals = timed((struct totals){0}, 1, 0, 0, 0), .peaks = {0, 5000, 0}},
        {.id = 9, .parent_row = 0, .kind = CONTEXT_SPAN, .name = "request", .target = "server", .file = "server.c",
         .line = 100, .labels = put, .n_labels = 5, .totals = live(1, 64, 0, 0)},
    };
    struct snapshot *s = finish(rows, sizeof rows / sizeof rows[0]);
    s->retired = timed(live(0, 0, 1000, 123456), 1000, 65000000000, 64000000000, 5000000);
    return s;
}

/* Names that several places in the code have: below the same parent, and below different ones. */
static struct snapshot *made_twins(void)
{
    const struct snapshot_row rows[] = {
        {.id = 1, .parent_row = 0, .kind = CONTEXT_ROOT, .name = "(root)", .target = "", .file = ""},
        {.id = 2, .parent_row = 0, .kind = CONTEXT_SPAN, .name = "sessions", .target = "", .file = "src/table.c", .line = 40,
         .totals = live(4, 400, 0, 0)},
        {.id = 3, .parent_row = 0, .kind = CONTEXT_SPAN, .name = "sessions", .target = "", .file = "src/table.c", .line = 97,
         .totals = live(3, 300, 0, 0)},
        {.id = 4, .parent_row = 1, .kind = CONTEXT_SPAN, .name = "parse", .target = "", .file = "src/parse.c", .line = 7,
         .totals = live(2, 200, 0, 0)},
        {.id = 5, .parent_row = 2, .kind = CONTEXT_SPAN, .name = "parse", .target = "", .file = "src/parse.c", .line = 8,
         .totals = live(1, 100, 0, 0)},
    };
    return finish(rows, sizeof rows / sizeof *rows);
}

static struct snapshot *made_hostile(void)
{
    static char long_name[100001];
    memset(long_name, 'x', sizeof long_name - 1);
    static const struct snapshot_label labels[] = {
        {"", ""}, {"\xff", "\xc0\x80"}, {"key\n", "a\tb\x1b[31mred\x1b[0m"}, {"quote\"", "{\"a\": 'b', c=d}"},
        {"", "x"}};
    const struct snapshot_row rows[] = {
        {.id = 1, .parent_row = 0, .kind = CONTEXT_ROOT, .name = "(root)", .target = "", .file = ""},
        {.id = 2, .parent_row = 0, .kind = CONTEXT_SPAN, .name = "", .target = "", .file = "",
         .totals = live(1, 1, 0, 0)},
        {.id = 3, .parent_row = 0, .kind = CONTEXT_SPAN, .name = "bad \xe2\x82 utf8 \xed\xa0\x80", .target = "\xf5",
         .file = "\x80.c", .line = UINT32_MAX, .labels = labels, .n_labels = 5, .totals = live(1, 2, 0, 0)},
        {.id = 4, .parent_row = 0, .kind = CONTEXT_SPAN, .name = "new\nline\ttab\x1b]0;title\x07", .target = "%s%n",
         .file = "../../etc/passwd", .totals = live(1, 4, 0, 0)},
        {.id = 5, .parent_row = 0, .kind = CONTEXT_SPAN, .name = "std::vector<int>::push_back(int const&)",
         .target = "", .file = "", .totals = live(1, 8, 0, 0)},
        {.id = 6, .parent_row = 0, .kind = CONTEXT_SPAN, .name = "_ZN3foo3barEv", .target = "", .file = "",
         .totals = live(1, 16, 0, 0)},
        {.id = 7, .parent_row = 0, .kind = CONTEXT_SPAN, .name = long_name, .target = "", .file = "",
         .totals = live(1, 32, 0, 0)},
        {.id = 8, .parent_row = 0, .kind = CONTEXT_SPAN, .name = "日本語 Ünïcödé 🦀", .target = "", .file = "",
         .totals = live(1, 64, 0, 0)},
        {.id = 9, .parent_row = 99, .kind = CONTEXT_SPAN, .name = "no such parent", .target = "", .file = "",
         .totals = live(1, 128, 0, 0)},
        {.id = 10, .parent_row = 10, .kind = CONTEXT_SPAN, .name = "a loop", .target = "", .file = "",
         .totals = live(1, 256, 0, 0)},
        {.id = 11, .parent_row = 9, .kind = CONTEXT_SPAN, .name = "a loop", .target = "", .file = "",
         .totals = live(1, 512, 0, 0)},
        {.id = 12, .parent_row = 0, .kind = CONTEXT_SPAN, .name = "huge", .target = "", .file = "",
         .totals = live(INT64_MAX / 4, INT64_MAX / 4, INT64_MAX / 4, INT64_MAX / 4)},
    };
    return finish(rows, sizeof rows / sizeof rows[0]);
}

/* Rows whose names, parents and figures are computed. A chain has one label value for each ten rows. */
static struct snapshot *made_generated(uint32_t n, int chain)
{
    struct snapshot_row *rows = calloc(n + (size_t)1, sizeof *rows);
    char (*names)[MADE_NAME_BYTES] = calloc(n + (size_t)1, sizeof *names);
    struct snapshot_label *labels = calloc(n + (size_t)1, sizeof *labels);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t parent = i == 0 ? 0 : chain ? i - 1 : (i - 1) / 8;
        snprintf(names[i], sizeof names[i], "%s%u", chain ? "level" : "span", chain ? i : i % 1000);
        labels[i] = (struct snapshot_label){"id", names[chain ? i / 10 * 10 : i]};
        rows[i] = (struct snapshot_row){.id = i + 1, .parent_row = parent, .kind = i == 0 ? CONTEXT_ROOT : CONTEXT_SPAN,
                                        .name = i == 0 ? "(root)" : names[i], .target = "made", .file = "made.c",
                                        .line = chain ? i : i % 1000, .labels = &labels[i], .n_labels = i > 0,
                                        .totals = timed(live(i, i * (uint64_t)16, i % 7, i % 7 * (uint64_t)16),
                                                        i % 5, i, i / 2, i / 3)};
    }
    struct snapshot *s = finish(rows, n);
    ((struct made *)s)->names = names;
    ((struct made *)s)->labels = labels;
    free(rows);
    return s;
}

struct snapshot *made_snapshot_of(const struct snapshot_row *rows, uint32_t n)
{
    return finish(rows, n);
}

struct snapshot *made_snapshot(const char *kind, uint32_t n)
{
    if (strcmp(kind, "empty") == 0)
        return finish(NULL, 0);
    if (strcmp(kind, "small") == 0)
        return made_small();
    if (strcmp(kind, "twins") == 0)
        return made_twins();
    if (strcmp(kind, "hostile") == 0)
        return made_hostile();
    if (strcmp(kind, "chain") == 0 || strcmp(kind, "rows") == 0)
        return made_generated(n, kind[0] == 'c');
    return NULL;
}

void made_snapshot_free(struct snapshot *s)
{
    struct made *made = (struct made *)s;
    free((void *)made->snapshot.rows);
    free(made->names);
    free(made->labels);
    free(made);
}
