/* SPDX-License-Identifier: BSD-2-Clause */
/* Figures of this program from jespan, by route. */
#include "figures.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <jespan/mallctl.h>

#include "spans.h"
#include "tenant.h"

#define MAX_NOTED 2048 /* slots of a table, more than twice the number of routes times tenants */
#define MAX_ROUTES 16

struct noted {
    const char *route;
    jespan_context_t context;
};

/* The figures of a route are sums over these contexts: of the request alone, or with all spans below it ("total"). Time passes while
 * they are read, so a figure that is a part of another is read first. */
enum { OPENS, CPU, BUSY, WALL, ALLOCATED, OUTLIVED, LIVE, N_FIGURES };
static const char *const names[N_FIGURES] = {
    "opens", "total.cpu_ns", "total.busy_ns", "total.wall_ns", "total.alloc_bytes", "total.outlived_bytes",
    "total.inuse_bytes"};

struct route_figures {
    const char *route;
    uint64_t values[N_FIGURES];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects all variables below */
static struct noted noted[MAX_NOTED];
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
    unsigned i = context % MAX_NOTED;

    pthread_mutex_lock(&lock);
    while (noted[i].route && noted[i].context != context)
        i = (i + 1) % MAX_NOTED;
    noted[i] = (struct noted){route, context};
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

/* A figure that the configuration turns off is 0. */
static void read_routes(struct route_figures routes[MAX_ROUTES])
{
    for (unsigned i = 0; i < MAX_NOTED; i++) {
        struct route_figures *to = noted[i].route ? find_route(routes, noted[i].route) : NULL;

        for (int figure = 0; to && figure < N_FIGURES; figure++) {
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

/* The figures of each tenant. A limit of 0 means that there is none. */
static json_t *tenants_json(uint64_t *cache_bytes)
{
    json_t *array = json_array();
    const struct tenant *tenant;

    for (unsigned i = 0; (tenant = tenant_nth(i)); i++) {
        uint64_t live = 0, limit = 0, refusals = 0, cached = 0;

        read_context(tenant->requests, "total.inuse_bytes", &live, sizeof live);
        read_context(tenant->requests, "limit_hard", &limit, sizeof limit);
        read_context(tenant->requests, "limit_refusals", &refusals, sizeof refusals);
        read_context(tenant->cache, "inuse_bytes", &cached, sizeof cached);
        *cache_bytes += cached;
        json_array_append_new(array, json_pack("{s:s, s:I, s:I, s:I, s:I}", "tenant", tenant->name, "live_bytes",
                                               (json_int_t)live, "limit_bytes", (json_int_t)limit, "refusals",
                                               (json_int_t)refusals, "cache_bytes", (json_int_t)cached));
    }
    return array;
}

/* Under the lock: two calls at a time would each see half of the bytes allocated since the last call. */
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
    uint64_t cache_bytes = 0;
    json_t *routes, *tenants;

    pthread_mutex_lock(&lock);
    routes = routes_json(&seconds);
    pthread_mutex_unlock(&lock);
    tenants = tenants_json(&cache_bytes);
    return json_pack("{s:o, s:f, s:o, s:I}", "routes", routes, "seconds", seconds, "tenants", tenants, "cache_bytes",
                     (json_int_t)cache_bytes);
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

static void print_tenant(FILE *to, const json_t *tenant)
{
    fprintf(to, "%-24s %10.1f %10.1f %9.0f %10.1f\n", json_string_value(json_object_get(tenant, "tenant")),
            number(tenant, "live_bytes", 1024), number(tenant, "limit_bytes", 1024), number(tenant, "refusals", 1),
            number(tenant, "cache_bytes", 1024));
}

char *figures_text(const json_t *figures)
{
    const json_t *route, *tenant;
    char *text = NULL;
    size_t bytes, i;
    bool is_whole;
    FILE *to = open_memstream(&text, &bytes);

    if (!to)
        return NULL;
    fprintf(to, "%-8s %9s %10s %9s %10s %10s %12s %10s %10s\n", "ROUTE", "REQUESTS", "WALL ms", "MEAN ms", "BUSY ms",
            "CPU ms", "ALLOC KiB/s", "LIVE KiB", "OUTLIVED");
    json_array_foreach(json_object_get(figures, "routes"), i, route)
        print_route(to, route);
    fprintf(to, "\n%-24s %10s %10s %9s %10s\n", "TENANT", "LIVE KiB", "LIMIT KiB", "REFUSED", "CACHED KiB");
    json_array_foreach(json_object_get(figures, "tenants"), i, tenant)
        print_tenant(to, tenant);
    fprintf(to, "\nallocation over the last %.1f s; the cache's spans hold %.0f bytes\n",
            number(figures, "seconds", 1), number(figures, "cache_bytes", 1));
    is_whole = !ferror(to);
    if (fclose(to) == 0 && is_whole)
        return text;
    free(text);
    return NULL;
}
