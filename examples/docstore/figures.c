/* SPDX-License-Identifier: BSD-2-Clause */
/* What jespan says of this program, by route. */
#include "figures.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "spans.h"

#define MAX_NOTED 256 /* routes by tenants, see tenant.h */
#define MAX_ROUTES 16

/* jespan's, by the rules of jemalloc's. */
int mallctl(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes);

struct noted {
    const char *route;
    jespan_context_t context;
};

/* The figures of a route are sums over these: of the request alone, or with all spans below it ("total"). Time goes on
 * while they are read, so what is a part of another is read before it. */
enum { OPENS, CPU, BUSY, WALL, ALLOCATED, OUTLIVED, LIVE, N_FIGURES };
static const char *const names[N_FIGURES] = {
    "opens", "total.cpu_ns", "total.busy_ns", "total.wall_ns", "total.alloc_bytes", "total.outlived_bytes",
    "total.inuse_bytes"};

struct route_figures {
    const char *route;
    uint64_t values[N_FIGURES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* for all below */
static struct noted noted[MAX_NOTED];
static unsigned n_noted;
static struct route_figures last[MAX_ROUTES];
static double last_s;

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

void figures_start(void)
{
    last_s = now_s();
}

void figures_note(const char *route)
{
    jespan_context_t context = jespan_current();
    unsigned i = 0;

    pthread_mutex_lock(&lock);
    while (i < n_noted && noted[i].context != context)
        i++;
    if (i == n_noted && n_noted < MAX_NOTED)
        noted[n_noted++] = (struct noted){route, context};
    pthread_mutex_unlock(&lock);
}

/* Reads spans.<context>.<name> of `bytes` bytes. */
static bool read_context(jespan_context_t context, const char *name, void *value, size_t bytes)
{
    char path[80];

    snprintf(path, sizeof path, "spans.%u.%s", (unsigned)context, name);
    return mallctl(path, value, &bytes, NULL, 0) == 0;
}

static struct route_figures *find_route(struct route_figures *routes, const char *route)
{
    while (routes->route && strcmp(routes->route, route))
        routes++;
    routes->route = route;
    return routes;
}

/* A figure that jespan does not keep, as configured, is 0. */
static void read_routes(struct route_figures routes[MAX_ROUTES])
{
    for (unsigned i = 0; i < n_noted; i++) {
        struct route_figures *to = find_route(routes, noted[i].route);

        for (int figure = 0; figure < N_FIGURES; figure++) {
            uint64_t value;

            if (read_context(noted[i].context, names[figure], &value, sizeof value))
                to->values[figure] += value;
        }
    }
}

static json_t *route_json(const struct route_figures *now, const struct route_figures *before, double seconds)
{
    const uint64_t *v = now->values;
    double rate = (double)(v[ALLOCATED] - before->values[ALLOCATED]) / seconds;

    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "route", now->route, "requests",
                     (json_int_t)v[OPENS], "wall_ns", (json_int_t)v[WALL], "mean_wall_ns",
                     (json_int_t)(v[OPENS] ? v[WALL] / v[OPENS] : 0), "busy_ns", (json_int_t)v[BUSY], "cpu_ns",
                     (json_int_t)v[CPU], "alloc_bytes_per_s", (json_int_t)rate, "live_bytes", (json_int_t)v[LIVE],
                     "outlived_bytes", (json_int_t)v[OUTLIVED]);
}

/* Documents stay in the cache that were parsed for it, by a request that writes or for one that reads; searches parse
 * for themselves. See docs.c. */
static bool fills_cache(jespan_context_t context)
{
    const char *name, *above;
    uint64_t parent;

    if (!read_context(context, "name", &name, sizeof name) ||
        !read_context(context, "parent", &parent, sizeof parent) ||
        !read_context((jespan_context_t)parent, "name", &above, sizeof above))
        return false;
    if (strcmp(name, "parse") == 0)
        return strcmp(above, "request") == 0 || strcmp(above, "cache.fill") == 0;
    return strcmp(name, "cache") == 0 || strcmp(name, "cache.fill") == 0;
}

/* Contexts that come between the two calls for them are left out. */
static uint64_t read_cache_bytes(void)
{
    uint64_t any = 1, value, sum = 0;
    size_t bytes = 0;
    jespan_context_t *ids = NULL;

    mallctl("spans.epoch", NULL, NULL, &any, sizeof any);
    if (mallctl("spans.ids", NULL, &bytes, NULL, 0) == 0)
        ids = malloc(bytes);
    if (!ids || mallctl("spans.ids", ids, &bytes, NULL, 0))
        bytes = 0;
    for (size_t i = 0; i < bytes / sizeof *ids; i++)
        if (fills_cache(ids[i]) && read_context(ids[i], "inuse_bytes", &value, sizeof value))
            sum += value;
    free(ids);
    return sum;
}

/* Under the lock: two calls at a time would each see half of what was allocated since the last one. */
static json_t *routes_json(double *seconds)
{
    struct route_figures routes[MAX_ROUTES] = {{0}};
    double now = now_s();
    json_t *array = json_array();

    read_routes(routes);
    *seconds = now - last_s;
    for (struct route_figures *route = routes; route->route; route++)
        json_array_append_new(array, route_json(route, find_route(last, route->route), *seconds));
    memcpy(last, routes, sizeof last);
    last_s = now;
    return array;
}

json_t *figures_json(void)
{
    double seconds = 0;
    json_t *routes;

    pthread_mutex_lock(&lock);
    routes = routes_json(&seconds);
    pthread_mutex_unlock(&lock);
    return json_pack("{s:o, s:f, s:I}", "routes", routes, "seconds", seconds, "cache_bytes",
                     (json_int_t)read_cache_bytes());
}

static double number(const json_t *object, const char *key, double unit)
{
    return json_number_value(json_object_get(object, key)) / unit;
}

static void print_route(FILE *to, const json_t *route)
{
    fprintf(to, "%-8s %9.0f %10.1f %9.3f %10.1f %10.1f %12.1f %10.1f %10.1f\n",
            json_string_value(json_object_get(route, "route")), number(route, "requests", 1),
            number(route, "wall_ns", 1e6), number(route, "mean_wall_ns", 1e6), number(route, "busy_ns", 1e6),
            number(route, "cpu_ns", 1e6), number(route, "alloc_bytes_per_s", 1024), number(route, "live_bytes", 1024),
            number(route, "outlived_bytes", 1024));
}

char *figures_text(const json_t *figures)
{
    const json_t *route;
    char *text = NULL;
    size_t bytes, i;
    FILE *to = open_memstream(&text, &bytes);

    if (!to)
        return NULL;
    fprintf(to, "%-8s %9s %10s %9s %10s %10s %12s %10s %10s\n", "ROUTE", "REQUESTS", "WALL ms", "MEAN ms", "BUSY ms",
            "CPU ms", "ALLOC KiB/s", "LIVE KiB", "OUTLIVED");
    json_array_foreach(json_object_get(figures, "routes"), i, route)
        print_route(to, route);
    fprintf(to, "allocation over the last %.1f s; spans that filled the cache hold %.0f bytes\n",
            number(figures, "seconds", 1), number(figures, "cache_bytes", 1));
    return fclose(to) == 0 ? text : NULL;
}
