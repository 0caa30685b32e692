/* SPDX-License-Identifier: BSD-2-Clause */
/* The section is collected first, under LOCK_CTL, and then written. Figures of jespan itself are read by their names. To add
 * one, add a row to a table. */
#include "ctl/stats_section.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "base/lock.h"
#include "base/utf8.h"
#include "ctl/ctl.h"
#include "malloc/family.h"
#include "policy/limits.h"
#include "snapshot/alert_figures.h"
#include "snapshot/row_path.h"
#include "snapshot/snapshot.h"

#define MOST_CONTEXTS 20
#define MOST_LIMITS 10
#define MOST_ARENAS 10
#define PATH_BYTES 160

/* ---- What is shown ---- */

/* Of mallctl. `text` is for people; %llu is the value. */
static const struct figure {
    const char *group, *name, *text;
} figures[] = {
    {"all", "inuse_bytes", "In use: %llu bytes"},
    {"all", "inuse_objects", " in %llu objects\n"},
    {"all", "alloc_bytes", "Allocated: %llu bytes"},
    {"all", "alloc_objects", " in %llu objects\n"},
    {"all", "free_bytes", "Freed: %llu bytes"},
    {"all", "free_objects", " in %llu objects\n"},
    {"stats", "pending_bytes", "Freed and kept by threads for their next allocations: %llu bytes"},
    {"stats", "depot_bytes", ", %llu of them to exchange\n"},
    {"stats", "mapped_bytes", "Mapped by jemalloc's arenas: %llu bytes"},
    {"stats", "committed_bytes", ", committed: %llu"},
    {"stats", "peak_mapped_bytes", ", most mapped: %llu\n"},
    {"stats", "meta_bytes", "jespan's own memory: %llu bytes in small pieces"},
    {"stats", "map_bytes", ", %llu of address space"},
    {"stats", "header_bytes", ", header tables: %llu in use"},
    {"stats", "header_held_bytes", " of %llu\n"},
    {"stats", "threads", "Threads: %llu"},
    {"stats", "contexts", ", contexts: %llu"},
    {"stats", "recycled", ", recycled: %llu"},
    {"stats", "overflow", ", credited to an ancestor for lack of numbers: %llu\n"},
    {"stats", "limits", "Limits: %llu"},
    {"stats", "limit_refusals", ", refused allocations: %llu\n"},
    {"stats", "arenas", "Span arenas: %llu\n"},
    {"stats", "dumps", "Dumps: %llu"},
    {"stats", "lost_dumps", ", failed: %llu"},
    {"stats", "lost_messages", ", lost messages: %llu\n"},
};
#define FIGURES (sizeof figures / sizeof *figures)

static bool ask(const char *name, void *value, size_t bytes)
{
    return FAMILY(mallctl)(name, value, &bytes, NULL, 0) == 0;
}

static uint64_t number(const char *group, uint32_t id, const char *leaf)
{
    char name[64];
    uint64_t value = 0;
    if (id)
        snprintf(name, sizeof name, "spans.%s.%u.%s", group, (unsigned)id, leaf);
    else
        snprintf(name, sizeof name, "spans.%s.%s", group, leaf);
    return ask(name, &value, sizeof value) ? value : 0;
}

/* ---- Collecting ---- */

struct shown_context {
    char path[PATH_BYTES];
    uint64_t inuse_bytes, inuse_objects, alloc_bytes;
};

struct shown_limit {
    char path[PATH_BYTES];
    struct limit_figures figures;
};

struct section {
    unsigned n_contexts, n_limits;
    struct shown_context contexts[MOST_CONTEXTS];
    struct shown_limit limits[MOST_LIMITS];
};

/* Keeps the items with the highest values, the highest first. */
struct best {
    uint32_t item;
    uint64_t value;
};

static unsigned keep_best(struct best *all, unsigned n, unsigned most, struct best one)
{
    unsigned i = n;
    for (; i && all[i - 1].value < one.value; i--)
        if (i < most)
            all[i] = all[i - 1];
    if (i < most)
        all[i] = one;
    return i < most && n < most ? n + 1 : n;
}

static void collect_contexts(struct section *to, const struct snapshot *s)
{
    struct best best[MOST_CONTEXTS];
    for (uint32_t i = 0; i < s->n_rows; i++) {
        uint64_t bytes = totals_inuse_bytes(&s->rows[i].totals);
        if (bytes)
            to->n_contexts = keep_best(best, to->n_contexts, MOST_CONTEXTS, (struct best){i, bytes});
    }
    for (unsigned i = 0; i < to->n_contexts; i++) {
        const struct totals *t = &s->rows[best[i].item].totals;
        to->contexts[i].inuse_bytes = best[i].value;
        to->contexts[i].inuse_objects = totals_inuse_objects(t);
        to->contexts[i].alloc_bytes = t->alloc_bytes;
        row_path(to->contexts[i].path, PATH_BYTES, s, best[i].item);
    }
}

/* A limit may go or come meanwhile. It is shown if its context is in the snapshot. */
static void collect_limits(struct section *to, const struct snapshot *s)
{
    struct best best[MOST_LIMITS];
    unsigned n = 0;
    for (uint32_t i = 1; i < limits_end_index(); i++) {
        uint32_t context = load_relaxed(&limit_at(i)->context);
        if (context)
            n = keep_best(best, n, MOST_LIMITS, (struct best){context, load_relaxed(&limit_at(i)->charged)});
    }
    for (unsigned i = 0; i < n; i++) {
        struct shown_limit *l = &to->limits[to->n_limits];
        const struct snapshot_row *row = snapshot_find(s, best[i].item);
        if (!row || limits_get(best[i].item, &l->figures) || !l->figures.exists)
            continue;
        row_path(l->path, PATH_BYTES, s, (uint32_t)(row - s->rows));
        to->n_limits++;
    }
}

/* Returns whether there was memory for a snapshot. */
static bool collect(struct section *to)
{
    to->n_contexts = to->n_limits = 0;
    ctl_flush_own();
    lock(LOCK_CTL);
    const struct snapshot *s = ctl_look();
    if (s) {
        collect_contexts(to, s);
        collect_limits(to, s);
    }
    unlock(LOCK_CTL);
    return s;
}

/* The arenas that map most. */
static unsigned collect_arenas(struct best best[MOST_ARENAS])
{
    unsigned n = 0;
    uint32_t end = (uint32_t)number("arenas", 0, "count");
    for (uint32_t i = 1; i <= end; i++)
        n = keep_best(best, n, MOST_ARENAS, (struct best){i, number("arenas", i, "mapped_bytes")});
    return n;
}

struct shown_arena {
    const char *name;
    char value[256];
};

static void name_arena(struct shown_arena *to, uint32_t arena)
{
    char name[64];
    *to = (struct shown_arena){.name = ""};
    snprintf(name, sizeof name, "spans.arenas.%u.name", (unsigned)arena);
    ask(name, &to->name, sizeof to->name);
    snprintf(name, sizeof name, "spans.arenas.%u.value", (unsigned)arena);
    ask(name, to->value, sizeof to->value);
}

/* ---- Writing ---- */

/* Pieces go out together. */
struct out {
    stats_writer *write;
    void *opaque;
    size_t n;
    char buffer[512];
};

static void flush(struct out *o)
{
    o->buffer[o->n] = '\0';
    o->n = 0;
    if (o->buffer[0])
        o->write(o->opaque, o->buffer);
}

static void put(struct out *o, const char *text)
{
    for (; *text; text++) {
        if (o->n == sizeof o->buffer - 1)
            flush(o);
        o->buffer[o->n++] = *text;
    }
}

static __attribute__((format(printf, 2, 3))) void put_line(struct out *o, const char *format, ...)
{
    char line[640]; /* holds two strings of the longest */
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    put(o, line);
}

#define ULL(n) ((unsigned long long)(n))

static void write_figures(struct out *o)
{
    for (const struct figure *f = figures; f < figures + FIGURES; f++) {
        const char *value = strstr(f->text, "%llu");
        put_line(o, "%.*s%llu%s", (int)(value - f->text), f->text, ULL(number(f->group, 0, f->name)), value + 4);
    }
}

static NOINLINE void write_snapshot(struct out *o)
{
    struct section s;
    if (!collect(&s))
        put(o, "There is no memory for the figures of contexts.\n");
    if (s.n_contexts)
        put_line(o, "Contexts with most in use:\n%20s %12s %20s  %s\n", "bytes", "objects", "allocated", "context");
    for (const struct shown_context *c = s.contexts; c < s.contexts + s.n_contexts; c++)
        put_line(o, "%20llu %12llu %20llu  %s\n", ULL(c->inuse_bytes), ULL(c->inuse_objects), ULL(c->alloc_bytes), c->path);
    if (s.n_limits)
        put_line(o, "Limits with most in use:\n%20s %20s %20s %12s  %s\n", "bytes", "soft", "hard", "refused", "context");
    for (const struct shown_limit *l = s.limits; l < s.limits + s.n_limits; l++)
        put_line(o, "%20llu %20llu %20llu %12llu  %s\n", ULL(l->figures.inuse_bytes), ULL(l->figures.bounds.soft),
                 ULL(l->figures.bounds.hard), ULL(l->figures.refusals), l->path);
}

static void write_arenas(struct out *o)
{
    struct best best[MOST_ARENAS];
    unsigned n = collect_arenas(best);
    if (n)
        put_line(o, "Span arenas that map most:\n%20s %20s  %s\n", "bytes in use", "mapped", "arena");
    for (unsigned i = 0; i < n; i++) {
        struct shown_arena a;
        name_arena(&a, best[i].item);
        put_line(o, "%20llu %20llu  %s%s%s\n", ULL(number("arenas", best[i].item, "inuse_bytes")), ULL(best[i].value), a.name,
                 a.value[0] ? " " : "", a.value);
    }
}

static void write_alerts(struct out *o)
{
    unsigned n = load_acquire(&alerts_shown.n);
    for (unsigned i = 0; i < n; i++) {
        put(o, "Alert ");
        put(o, alerts_shown.rules[i]);
        put_line(o, ": %llu bytes, %s, fired %llu times\n", ULL(number("alerts", i + 1, "bytes")),
                 number("alerts", i + 1, "holding") ? "holds" : "does not hold", ULL(number("alerts", i + 1, "fired")));
    }
}

void stats_section_write(stats_writer *write, void *opaque)
{
    struct out o = {.write = write, .opaque = opaque};
    const char *version = "";
    ask("spans.version", &version, sizeof version);
    put_line(&o, "___ Begin jespan statistics ___\nVersion: \"%s\"\n", version);
    write_figures(&o);
    write_snapshot(&o);
    write_arenas(&o);
    write_alerts(&o);
    put(&o, "--- End jespan statistics ---\n");
    flush(&o);
}

/* ---- JSON ---- */

static void put_string(struct out *o, const char *text)
{
    put(o, "\"");
    for (size_t bytes; *text; text += bytes ? bytes : 1) {
        char piece[8] = UTF8_REPLACEMENT;
        bytes = utf8_character(text);
        if (bytes == 1 && ((unsigned char)*text < ' ' || *text == '"' || *text == '\\'))
            snprintf(piece, sizeof piece, "\\u%04x", (unsigned char)*text);
        else if (bytes)
            memcpy(piece, text, bytes), piece[bytes] = '\0';
        put(o, piece);
    }
    put(o, "\"");
}

static void put_member(struct out *o, const char *before, const char *name, uint64_t value)
{
    put_line(o, "%s\"%s\": %llu", before, name, ULL(value));
}

static void write_json_figures(struct out *o)
{
    const char *group = "";
    for (const struct figure *f = figures; f < figures + FIGURES; f++) {
        bool is_first = strcmp(group, f->group) != 0;
        if (is_first)
            put_line(o, "%s,\n\t\t\"%s\": {", group[0] ? "\n\t\t}" : "", f->group);
        group = f->group;
        put_member(o, is_first ? "\n\t\t\t" : ",\n\t\t\t", f->name, number(f->group, 0, f->name));
    }
    put(o, "\n\t\t}");
}

/* An element of an array begins. Lines are separated by commas. */
static void begin_element(struct out *o, bool is_first, const char *name, const char *text)
{
    put_line(o, "%s\n\t\t\t{\"%s\": ", is_first ? "" : ",", name);
    put_string(o, text);
}

static NOINLINE void write_json_snapshot(struct out *o)
{
    struct section s;
    collect(&s);
    put(o, ",\n\t\t\"contexts\": [");
    for (unsigned i = 0; i < s.n_contexts; i++) {
        const struct shown_context *c = &s.contexts[i];
        begin_element(o, i == 0, "path", c->path);
        put_member(o, ", ", "inuse_bytes", c->inuse_bytes);
        put_member(o, ", ", "inuse_objects", c->inuse_objects);
        put_member(o, ", ", "alloc_bytes", c->alloc_bytes);
        put(o, "}");
    }
    put(o, "],\n\t\t\"limits\": [");
    for (unsigned i = 0; i < s.n_limits; i++) {
        const struct limit_figures *l = &s.limits[i].figures;
        begin_element(o, i == 0, "path", s.limits[i].path);
        put_member(o, ", ", "limit_inuse_bytes", l->inuse_bytes);
        put_member(o, ", ", "limit_soft", l->bounds.soft);
        put_member(o, ", ", "limit_hard", l->bounds.hard);
        put_member(o, ", ", "limit_refusals", l->refusals);
        put(o, "}");
    }
    put(o, "]");
}

static void write_json_arenas(struct out *o)
{
    struct best best[MOST_ARENAS];
    unsigned n = collect_arenas(best);
    put(o, ",\n\t\t\"arenas\": [");
    for (unsigned i = 0; i < n; i++) {
        struct shown_arena a;
        name_arena(&a, best[i].item);
        begin_element(o, i == 0, "name", a.name);
        put(o, ", \"value\": ");
        put_string(o, a.value);
        put_member(o, ", ", "inuse_bytes", number("arenas", best[i].item, "inuse_bytes"));
        put_member(o, ", ", "mapped_bytes", best[i].value);
        put(o, "}");
    }
    put(o, "]");
}

static void write_json_alerts(struct out *o)
{
    unsigned n = load_acquire(&alerts_shown.n);
    put(o, ",\n\t\t\"alerts\": [");
    for (unsigned i = 0; i < n; i++) {
        begin_element(o, i == 0, "rule", alerts_shown.rules[i]);
        for (size_t figure = 0; figure < ALERT_N_FIGURES; figure++)
            put_member(o, ", ", alert_figure_name(figure), number("alerts", i + 1, alert_figure_name(figure)));
        put(o, "}");
    }
    put(o, "]");
}

void stats_section_write_json(stats_writer *write, void *opaque)
{
    struct out o = {.write = write, .opaque = opaque};
    const char *version = "";
    ask("spans.version", &version, sizeof version);
    put(&o, "{\n\t\t\"version\": ");
    put_string(&o, version);
    write_json_figures(&o);
    write_json_snapshot(&o);
    write_json_arenas(&o);
    write_json_alerts(&o);
    put(&o, "\n\t}");
    flush(&o);
}
