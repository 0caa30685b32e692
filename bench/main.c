/* SPDX-License-Identifier: BSD-2-Clause */
/* Runs one workload on the allocator of this process and prints the cost as one line of JSON.
 *
 * usage: workloads --list | NAME [--span] [--ms N] [--operations N]
 * Times are per operation: the best inner round, and the mean of all rounds, which includes rare events.
 *   --span            everything inside an open span (jespan)
 *   --ms N            measure for about N milliseconds (200)
 *   --operations N    only do N operations, without warming up or measuring: for instruction counts
 */
#define _GNU_SOURCE
#include "spans.h"
#include "workload.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEFAULT_MS 200
#define DEFAULT_ROUND_MS 5
#define NS_PER_MS 1000000u

static const char *const kind_names[] = {"time", "span", "memory", "peer", "heap", "idle", "contexts", "snapshot", "pause",
                                         "timed", "stacks"};

void bench_fail(const char *what)
{
    fprintf(stderr, "workloads: %s\n", what);
    exit(1);
}

/* CPU time of all threads. Elapsed time would depend more on other processes and on the scheduler than on the
 * allocator. */
static uint64_t round_ns(const struct workload *w, void *state, size_t operations)
{
    uint64_t start = bench_now_ns(CLOCK_PROCESS_CPUTIME_ID);
    w->round(state, operations);
    return bench_now_ns(CLOCK_PROCESS_CPUTIME_ID) - start;
}

/* Finds the number of operations of one inner round. Doubling the number up to it also warms up. */
static size_t calibrate(const struct workload *w, void *state)
{
    uint64_t wanted_ns = (uint64_t)(w->round_ms ? w->round_ms : DEFAULT_ROUND_MS) * NS_PER_MS;
    w->round(state, w->warmup_operations);
    size_t operations = 1024;
    while (round_ns(w, state, operations) < wanted_ns) {
        operations *= 2;
    }
    return operations;
}

/* Takes the best of many short inner rounds. Cold caches, other processes and interrupts only make a round longer. */
static struct bench_result measure(const struct workload *w, void *state, uint64_t total_ns)
{
    size_t operations = calibrate(w, state);
    uint64_t best = UINT64_MAX, sum = 0, rounds = 0;
    uint64_t end = bench_now_ns(CLOCK_MONOTONIC) + total_ns;
    for (; !rounds || bench_now_ns(CLOCK_MONOTONIC) < end; rounds++) {
        uint64_t ns = round_ns(w, state, operations);
        best = ns < best ? ns : best;
        sum += ns;
    }
    return (struct bench_result){{{"value", (double)best / (double)operations},
                                  {"mean", (double)sum / ((double)rounds * (double)operations)}}};
}

struct options {
    bool span;
    unsigned long ms, operations;
};

static struct bench_result run(const struct workload *w, const struct options *options)
{
    spans_find(w->kind == WORKLOAD_SPAN || w->kind >= WORKLOAD_CONTEXTS, options->span);
    spans_enter_if_wanted();
    if (w->figure) {
        return w->figure(w->shape);
    }
    struct bench_result result = {0};
    void *state = w->start(w->shape);
    if (options->operations) {
        w->round(state, options->operations);
    } else {
        result = measure(w, state, options->ms * NS_PER_MS);
    }
    w->stop(state);
    return result;
}

/* Reads a value of jemalloc. Without jemalloc, or without that name, `value` is unchanged. */
static void ask(const char *name, void *value, size_t bytes)
{
    int (*ctl)(const char *, void *, size_t *, void *, size_t);
    *(void **)&ctl = dlsym(RTLD_DEFAULT, "mallctl");
    if (ctl) {
        (void)ctl(name, value, &bytes, NULL, 0);
    }
}

/* Prints the file that has malloc, and the jemalloc in it, so that a failed preload is noticed. */
static void print_result(const struct workload *w, const struct bench_result *result)
{
    Dl_info info = {.dli_fname = "?"};
    dladdr(dlsym(RTLD_DEFAULT, "malloc"), &info);
    const char *version = "";
    bool profiling = false;
    ask("version", &version, sizeof version);
    ask("opt.prof", &profiling, sizeof profiling);
    printf("{\"workload\": \"%s\", ", w->name);
    for (const struct bench_figure *f = result->figures; f->name; f++) {
        printf("\"%s\": %.3f, ", f->name, f->value);
    }
    printf("\"malloc\": \"%s\", \"jemalloc\": \"%s\", \"prof\": %s}\n", info.dli_fname, version,
           profiling ? "true" : "false");
}

static int list(void)
{
    for (const struct workload *w = workloads; w->name; w++) {
        printf("%s\t%s\t%s\n", w->name, kind_names[w->kind], w->help);
    }
    return 0;
}

static const struct workload *find(const char *name)
{
    const struct workload *w = workloads;
    while (w->name && strcmp(w->name, name)) {
        w++;
    }
    return w->name ? w : NULL;
}

static bool parse(int argc, char **argv, struct options *options)
{
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "--span")) {
            options->span = true;
        } else if (!strcmp(argv[i], "--ms") && i + 1 < argc) {
            options->ms = strtoul(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--operations") && i + 1 < argc) {
            options->operations = strtoul(argv[++i], NULL, 10);
        } else {
            return false;
        }
    }
    return true;
}

int main(int argc, char **argv)
{
    struct options options = {.ms = DEFAULT_MS};
    if (argc == 2 && !strcmp(argv[1], "--list")) {
        return list();
    }
    const struct workload *w = argc > 1 ? find(argv[1]) : NULL;
    if (!w || !parse(argc, argv, &options)) {
        fprintf(stderr, "usage: %s --list | NAME [--span] [--ms N] [--operations N]\n", argv[0]);
        return 2;
    }
    struct bench_result result = run(w, &options);
    print_result(w, &result);
    return fflush(stdout) ? 1 : 0;
}
