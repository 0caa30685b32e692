/* SPDX-License-Identifier: BSD-2-Clause */
/* Span arenas, as text, JSON and metrics. To add a figure, add a row to the table. */
#include "http_answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http_text.h"

static const struct figure {
    const char *ctl;    /* spans.arenas.<i>.NAME */
    const char *column; /* of the text for people. NULL: left out there */
    const char *metric, *type, *help;
} figures[] = {
    {"inuse_bytes", "in use", "inuse_bytes", "gauge", "Bytes of live objects."},
    {"inuse_objects", "objects", "inuse_objects", "gauge", "Live objects."},
    {"alloc_bytes", NULL, "alloc_bytes_total", "counter", "Bytes allocated from the arena."},
    {"free_bytes", NULL, "free_bytes_total", "counter", "Bytes freed into the arena."},
    {"cached_bytes", "cached", "cached_bytes", "gauge", "Bytes that threads keep for their next allocations."},
    {"active_bytes", "active", "active_bytes", "gauge", "Bytes of pages that hold live or cached objects."},
    {"fragmentation_ppm", "holes ppm", "fragmentation_ppm", "gauge", "Part of the active pages that holds no live object, in millionths."},
    {"dirty_bytes", "dirty", "dirty_bytes", "gauge", "Bytes of free pages that are not returned to the system yet."},
    {"muzzy_bytes", NULL, "muzzy_bytes", "gauge", "Bytes of free pages that the system may take when it needs memory."},
    {"retained_bytes", NULL, "retained_bytes", "gauge", "Bytes of address space kept without memory."},
    {"resident_bytes", "resident", "resident_bytes", "gauge", "Upper bound of the memory of the arena, with jemalloc's own for it."},
    {"mapped_bytes", "mapped", "mapped_bytes", "gauge", "Bytes of mapped address space."},
    {"limit_bytes", "limit", "limit_bytes", "gauge", "The most bytes that the arena may map, 0: no limit."},
    {"extents", NULL, "extents", "gauge", "Pieces of its address space."},
    {"refusals", "refused", "refusals_total", "counter", "Requests for pages that the limit refused."},
    {"policy_errors", NULL, "policy_errors_total", "counter", "Ranges of pages for which the system refused a requested policy."},
    {"contexts", "contexts", "contexts", "gauge", "Contexts that allocate from the arena."},
};
#define FIGURES (sizeof figures / sizeof figures[0])

struct arena {
    uint32_t number; /* <i> of spans.arenas.<i>. Several arenas can have the same name and value */
    const char *name;
    char value[256]; /* of the label, if each value has its own arena; else "" */
    uint64_t figures[FIGURES];
    bool known[FIGURES]; /* false: this jemalloc was built without statistics */
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

/* False: no memory. The caller frees the list. */
static bool read_all(const struct service_host *host, struct arenas *all)
{
    uint64_t n = 0, any = 1;
    size_t bytes = sizeof n;
    *all = (struct arenas){0, NULL};
    if (host->mallctl("spans.arenas.count", &n, &bytes, NULL, 0) != 0 || n == 0)
        return true;
    host->mallctl("epoch", NULL, NULL, &any, sizeof any);
    all->list = calloc(n, sizeof *all->list);
    for (; all->list && all->n < n; all->n++)
        read_arena(host, all->n + 1, &all->list[all->n]);
    return all->list;
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
        if (figures[i].column) {
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
        if (figures[i].column)
            write_cell(to, figures[i].column);
    http_text_put(to, "  arena\n");
    for (uint32_t k = 0; k < all->n; k++)
        write_line(to, &all->list[k]);
}

static void write_json(struct http_text *text, const struct arenas *all)
{
    struct http_json to = {.to = text};
    http_json_open(&to, NULL, '{');
    http_json_open(&to, "arenas", '[');
    for (const struct arena *a = all->list; a < all->list + all->n; a++) {
        http_json_line(&to);
        http_json_open(&to, NULL, '{');
        http_json_number(&to, "number", a->number);
        http_json_string(&to, "name", a->name);
        http_json_string(&to, "value", a->value);
        for (size_t i = 0; i < FIGURES; i++)
            if (a->known[i])
                http_json_number(&to, figures[i].ctl, a->figures[i]);
        http_json_close(&to, '}');
    }
    http_json_close(&to, ']');
    http_json_close(&to, '}');
    http_text_put(text, "\n");
}

/* Prometheus keeps the first of several samples with the same labels and drops the others without a message. The number
 * gives each arena its own series. Limits and fragmentation of several arenas have no meaningful sum. */
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
    bool json = request->format && strcmp(request->format, "json") == 0;
    if (request->format && !json) {
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
