/* SPDX-License-Identifier: BSD-2-Clause */
/* Span arenas, as text, JSON and metrics. Adding a figure is a row in the table. */
#include "http_arenas.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct figure {
    const char *ctl, *column; /* NULL: not in the table */
    const char *metric, *type, *help;
} figures[] = {
    {"inuse_bytes", "in use", "inuse_bytes", "gauge", "Bytes that live objects take."},
    {"inuse_objects", "objects", "inuse_objects", "gauge", "Live objects."},
    {"alloc_bytes", NULL, "alloc_bytes_total", "counter", "Bytes allocated from it."},
    {"free_bytes", NULL, "free_bytes_total", "counter", "Bytes freed into it."},
    {"cached_bytes", "cached", "cached_bytes", "gauge", "Bytes that threads keep for their next allocations."},
    {"active_bytes", "active", "active_bytes", "gauge", "Pages that objects lie in, or their threads keep."},
    {"fragmentation_ppm", "holes ppm", "fragmentation_ppm", "gauge", "Millionths of them that nothing live fills."},
    {"dirty_bytes", "dirty", "dirty_bytes", "gauge", "Pages that are free and not given back yet."},
    {"muzzy_bytes", NULL, "muzzy_bytes", "gauge", "Pages that the system may take when it wants memory."},
    {"retained_bytes", NULL, "retained_bytes", "gauge", "Addresses kept without memory."},
    {"resident_bytes", "resident", "resident_bytes", "gauge", "Memory that it may take at most, jemalloc's for it included."},
    {"mapped_bytes", "mapped", "mapped_bytes", "gauge", "Address space."},
    {"limit_bytes", "limit", "limit_bytes", "gauge", "What it may map at most, 0: any number."},
    {"extents", NULL, "extents", "gauge", "Pieces that its address space is in."},
    {"refusals", "refused", "refusals_total", "counter", "Pages refused at the limit."},
    {"policy_errors", NULL, "policy_errors_total", "counter", "Ranges that the system did not treat as asked for."},
    {"contexts", "contexts", "contexts", "gauge", "Contexts whose memory comes from it."},
};
#define FIGURES (sizeof figures / sizeof figures[0])

struct arena {
    uint32_t number; /* <i> of spans.arenas.<i>: several arenas can have the same name and value */
    const char *name;
    char value[256]; /* of the label that there is one for each of; or "" */
    uint64_t figures[FIGURES];
    bool known[FIGURES]; /* jemalloc may be built without statistics */
};

struct arenas {
    uint32_t n;
    struct arena *list;
};

static bool ask(const struct service_host *host, uint32_t arena, const char *leaf, void *value, size_t bytes)
{
    char name[64];
    snprintf(name, sizeof name, "spans.arenas.%" PRIu32 ".%s", arena, leaf);
    return host->mallctl(name, value, &bytes, NULL, 0) == 0;
}

static void read_arena(const struct service_host *host, uint32_t number, struct arena *a)
{
    a->number = number;
    a->name = "";
    ask(host, number, "name", &a->name, sizeof a->name);
    ask(host, number, "value", a->value, sizeof a->value);
    for (size_t i = 0; i < FIGURES; i++)
        a->known[i] = ask(host, number, figures[i].ctl, &a->figures[i], sizeof a->figures[i]);
}

/* False: there is no memory. The list is to be freed. */
static bool read_all(const struct service_host *host, struct arenas *all)
{
    uint64_t n = 0, any = 1;
    size_t bytes = sizeof n;
    *all = (struct arenas){0, NULL};
    if (host->mallctl("spans.arenas.count", &n, &bytes, NULL, 0) != 0 || n == 0)
        return true;
    host->mallctl("epoch", NULL, NULL, &any, sizeof any);
    all->list = calloc(n, sizeof *all->list);
    for (; all->list != NULL && all->n < n; all->n++)
        read_arena(host, all->n + 1, &all->list[all->n]);
    return all->list != NULL;
}

/* ---- The forms ---- */

static void write_cell(struct http_text *to, const char *text)
{
    char cell[32];
    snprintf(cell, sizeof cell, "%13s", text);
    http_text_put(to, cell);
}

static void write_line(struct http_text *to, const struct arena *a)
{
    char number[24];
    for (size_t i = 0; i < FIGURES; i++)
        if (figures[i].column != NULL) {
            snprintf(number, sizeof number, "%" PRIu64, a->figures[i]);
            write_cell(to, a->known[i] ? number : "-");
        }
    http_text_put(to, "  ");
    http_text_json(to, a->name);
    if (a->value[0] != '\0') {
        http_text_put(to, " ");
        http_text_json(to, a->value);
    }
    http_text_put(to, "\n");
}

static void write_table(struct http_text *to, const struct arenas *all)
{
    for (size_t i = 0; i < FIGURES; i++)
        if (figures[i].column != NULL)
            write_cell(to, figures[i].column);
    http_text_put(to, "  arena\n");
    for (uint32_t k = 0; k < all->n; k++)
        write_line(to, &all->list[k]);
}

static void write_json(struct http_text *to, const struct arenas *all)
{
    http_text_put(to, "{\"arenas\":[");
    for (uint32_t k = 0; k < all->n; k++) {
        const struct arena *a = &all->list[k];
        http_text_put(to, k > 0 ? ",\n{\"number\":" : "\n{\"number\":");
        http_text_number(to, a->number);
        http_text_put(to, ",\"name\":");
        http_text_json(to, a->name);
        http_text_put(to, ",\"value\":");
        http_text_json(to, a->value);
        for (size_t i = 0; i < FIGURES; i++)
            if (a->known[i]) {
                http_text_put(to, ",\"");
                http_text_put(to, figures[i].ctl);
                http_text_put(to, "\":");
                http_text_number(to, a->figures[i]);
            }
        http_text_put(to, "}");
    }
    http_text_put(to, "]}\n");
}

/* Prometheus keeps the first of several samples with the same labels and drops the others without a message. The number
 * makes each arena a series of its own: a limit and a fragmentation cannot be added up. */
static void write_metric(struct http_text *to, const struct figure *f, const struct arenas *all)
{
    const char *const head[] = {"# HELP jespan_arena_", f->metric, " ", f->help, "\n# TYPE jespan_arena_", f->metric, " ",
                                f->type, "\n"};
    for (size_t i = 0; i < sizeof head / sizeof head[0]; i++)
        http_text_put(to, head[i]);
    for (uint32_t k = 0; k < all->n; k++) {
        const struct arena *a = &all->list[k];
        if (!a->known[f - figures])
            continue;
        http_text_put(to, "jespan_arena_");
        http_text_put(to, f->metric);
        http_text_put(to, "{arena=");
        http_text_label(to, a->name);
        http_text_put(to, ",value=");
        http_text_label(to, a->value);
        http_text_put(to, ",number=\"");
        http_text_number(to, a->number);
        http_text_put(to, "\"} ");
        http_text_number(to, a->figures[f - figures]);
        http_text_put(to, "\n");
    }
}

void http_arenas_write_metrics(struct http_text *to, const struct service_host *host)
{
    struct arenas all;
    if (!read_all(host, &all))
        to->failed = true;
    for (size_t i = 0; all.n > 0 && i < FIGURES; i++)
        write_metric(to, &figures[i], &all);
    free(all.list);
}

void http_arenas_answer(struct http_source *source, const struct http_request *request, struct http_answer *answer)
{
    struct arenas all;
    bool json = request->format != NULL && strcmp(request->format, "json") == 0;
    if (request->format != NULL && !json) {
        http_answer_line(answer, 400, "the only format is json");
    } else if (!read_all(source->host, &all)) {
        http_answer_line(answer, 503, "there is no memory for the answer");
    } else {
        answer->status = 200;
        answer->type = json ? "application/json; charset=utf-8" : HTTP_TYPE_TEXT;
        (json ? write_json : write_table)(&answer->body, &all);
        free(all.list);
    }
}
