/* SPDX-License-Identifier: BSD-2-Clause */
/* Bursts of short requests beside a cache that stays: what is resident after each.
 *
 * A request takes REQUEST_BYTES in small objects, and leaves one of the same sizes in the cache. BURST_REQUESTS of
 * them are there at a time, then all are answered; until the next burst there are PAUSE_REQUESTS at a time. With the
 * mix "same" all bursts have the same sizes, with "shifting" each has its own. Prints, tab-separated: seconds, bursts
 * so far, MiB resident, MiB in use by the program's own count.
 */
#define JESPAN_TARGET "isolation"
#include <jespan/jespan.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../workload.h"

#define REQUEST_BYTES 16384u
#define BURST_REQUESTS 4096u
#define PAUSE_REQUESTS 64u
#define LEAST_BYTES 16u
#define MOST_BYTES 1024u
#define SAMPLES_PER_S 5

/* The first bytes of each object. */
struct object {
    struct object *next;
    size_t bytes;
};

static struct object *requests[BURST_REQUESTS], *cached;
static jespan_context_t cache = JESPAN_ROOT;
static size_t live_bytes;
static uint64_t random_state = BENCH_SEED;

static uint64_t random_below(uint64_t n)
{
    return bench_random(&random_state) % n;
}

/* Evenly over the classes from `least` to `most`: a power of two first, then a place above it. */
static size_t random_size(size_t least, size_t most)
{
    size_t power = least;

    while (power * 2 < most && random_below(2))
        power *= 2;
    size_t bytes = power + random_below(power);
    return bytes < most ? bytes : most;
}

static void add(struct object **list, size_t bytes)
{
    struct object *object = malloc(bytes);

    if (!object)
        abort();
    memset(object, 1, bytes);
    *object = (struct object){*list, bytes};
    *list = object;
    live_bytes += bytes;
}

static void free_all(struct object **list)
{
    while (*list) {
        struct object *object = *list;

        *list = object->next;
        live_bytes -= object->bytes;
        free(object);
    }
}

static void keep(size_t bytes)
{
    JESPAN_CREDIT(cache);
    add(&cached, bytes);
}

static void request(struct object **list, size_t least, size_t most, bool is_kept)
{
    JESPAN("request");
    size_t had = live_bytes;

    while (live_bytes - had < REQUEST_BYTES)
        add(list, random_size(least, most));
    if (is_kept)
        keep(random_size(least, most));
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Exact, unlike statm. */
static double resident_mib(void)
{
    static char text[4096];
    FILE *from = fopen("/proc/self/smaps_rollup", "r");
    const char *rss;

    if (!from)
        abort();
    text[fread(text, 1, sizeof text - 1, from)] = '\0';
    fclose(from);
    rss = strstr(text, "\nRss:");
    return rss ? (double)strtoul(rss + 5, NULL, 10) / 1024 : 0;
}

static void report(double start, unsigned bursts)
{
    printf("%.2f\t%u\t%.2f\t%.2f\n", now_s() - start, bursts, resident_mib(), (double)live_bytes / (1 << 20));
}

/* Few requests, which leave nothing. There have to be some: jemalloc gives memory back by the by, as it is called. */
static void pause_after(double seconds, double start, unsigned bursts)
{
    for (unsigned sample = 0; sample < (unsigned)(seconds * SAMPLES_PER_S); sample++) {
        for (unsigned i = 0; i < PAUSE_REQUESTS; i++)
            request(&requests[i], LEAST_BYTES, MOST_BYTES, false);
        for (unsigned i = 0; i < PAUSE_REQUESTS; i++)
            free_all(&requests[i]);
        report(start, bursts);
        usleep(1000000 / SAMPLES_PER_S);
    }
}

static void burst(unsigned number, unsigned of, bool is_shifting)
{
    size_t least = LEAST_BYTES, most = MOST_BYTES;

    if (is_shifting) {
        least += (MOST_BYTES - 4 * LEAST_BYTES) * (number - 1) / of;
        most = least + least / 4 + LEAST_BYTES;
    }
    for (unsigned i = 0; i < BURST_REQUESTS; i++)
        request(&requests[i], least, most, true);
}

static void open_cache(void)
{
    JESPAN_SITE(site, "cache", .arena = {.flags = JESPAN_ARENA});
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, NULL, 0);

    if (jespan_enter(span) == 0) {
        cache = jespan_current();
        jespan_exit(span);
    }
}

int main(int argc, char **argv)
{
    bool is_shifting = argc > 1 && strcmp(argv[1], "shifting") == 0;
    unsigned n_bursts = argc > 2 ? (unsigned)atoi(argv[2]) : 8;
    double pause_s = argc > 3 ? atof(argv[3]) : 12, start = now_s();

    open_cache();
    pause_after(1, start, 0);
    for (unsigned number = 1; number <= n_bursts; number++) {
        burst(number, n_bursts, is_shifting);
        report(start, number);
        for (unsigned i = 0; i < BURST_REQUESTS; i++)
            free_all(&requests[i]);
        pause_after(pause_s, start, number);
    }
    return 0;
}
