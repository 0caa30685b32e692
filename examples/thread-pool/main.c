/* SPDX-License-Identifier: BSD-2-Clause */
/* thread-pool: spans whose work is spread over threads, as an example in two ways.
 *
 * An import is split into jobs, which the pool runs in the context in which they were submitted; the last of them, on
 * whichever thread, closes the span. A search is a span that each of its jobs enters itself, several at once.
 */
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define JESPAN_TARGET "thread-pool"
#include <jespan/jespan.h>

#include "../figures.h"
#include "pool.h"

#define N_TENANTS 2
#define N_IMPORTS 6
#define N_SEARCHES 6
#define PARTS 8

static const char *const tenants[N_TENANTS] = {"acme", "globex"};
static struct pool *pool;

/* The program's own measurements, for the check, and the context whose figures are printed beside them. */
static struct measured import_measured[N_TENANTS], search_measured[N_TENANTS];
static jespan_context_t import_contexts[N_TENANTS], search_contexts[N_TENANTS];

JESPAN_SITE(import_site, "import");
JESPAN_SITE(search_site, "search");

static jespan_span_t *open_for(const struct jespan_site *site, unsigned tenant)
{
    const struct jespan_label label = JESPAN_LABEL("tenant", tenants[tenant]);
    return jespan_open(site, JESPAN_ROOT, &label, 1);
}

static char *text_of(size_t bytes, char c, unsigned rounds)
{
    char *text = malloc(bytes);
    if (!text)
        abort();
    memset(text, c, bytes);
    digest(text, bytes, rounds);
    return text;
}

/* ---- Measuring a job that the pool attaches to its context ---- */

static _Thread_local struct {
    bool on_worker; /* without workers, import_start() measures the job too */
    struct stopwatch attached;
    struct measured *of;
} job;

/* The pool calls it outside the job's context. */
static void job_watch(bool begins)
{
    job.on_worker = true;
    if (begins)
        job.attached.around = instant_now();
    else if (job.of)
        worked_around(&job.attached, job.of);
    job.of = NULL;
}

static void job_begin(struct measured *of)
{
    job.of = of;
    job.attached.within = instant_now();
}

static void job_end(void)
{
    if (job.on_worker)
        worked_within(&job.attached, job.of);
}

/* ---- An import: the pool carries its context ---- */

struct import {
    jespan_span_t *span;
    unsigned tenant;
    struct stopwatch opened;
    atomic_uint next, unfinished;
    char *parts[PARTS]; /* they stay in memory */
};
static struct import imports[N_IMPORTS];

/* Any thread may close the span, also while it is current on that thread. */
static void import_close(struct import *i)
{
    struct measured *m = &import_measured[i->tenant];
    open_within(&i->opened, m);
    jespan_close(i->span);
    open_around(&i->opened, m);
}

static void import_part(void *import)
{
    struct import *i = import;
    struct measured *m = &import_measured[i->tenant];
    job_begin(m);
    unsigned part = atomic_fetch_add(&i->next, 1);
    i->parts[part] = text_of(3000 + part * 1000, 'i', 800);
    add_ns(&m->kept_bytes, malloc_usable_size(i->parts[part]));
    job_end();
    if (atomic_fetch_sub(&i->unfinished, 1) == 1)
        import_close(i);
}

/* The work of submitting belongs to the import too. */
static void import_start(struct import *i, unsigned tenant)
{
    struct measured *m = &import_measured[tenant];
    struct stopwatch entered;
    *i = (struct import){.tenant = tenant, .unfinished = PARTS};
    i->opened.around = instant_now();
    i->span = open_for(&import_site, tenant);
    i->opened.within = entered.around = instant_now();
    jespan_enter(i->span);
    entered.within = instant_now();
    import_contexts[tenant] = jespan_current();
    for (unsigned part = 0; part < PARTS; part++)
        if (pool_submit(pool, import_part, i))
            abort();
    worked_within(&entered, m);
    jespan_exit(i->span);
    worked_around(&entered, m);
}

/* ---- A search: each job enters its span ---- */

struct search {
    jespan_span_t *span;
    unsigned tenant;
    struct stopwatch opened;
};
static struct search searches[N_SEARCHES];

/* Half of the work is waiting, as for a disk: busy, without CPU time. */
static void search_part(void *search)
{
    static const struct timespec disk = {.tv_nsec = 2000000};
    struct search *s = search;
    struct measured *m = &search_measured[s->tenant];
    struct stopwatch entered;
    entered.around = instant_now();
    jespan_enter(s->span);
    entered.within = instant_now();
    char *text = text_of(10000, 's', 150);
    nanosleep(&disk, NULL);
    free(text);
    worked_within(&entered, m);
    jespan_exit(s->span);
    worked_around(&entered, m);
}

static void search_start(struct search *s, unsigned tenant)
{
    struct measured *m = &search_measured[tenant];
    struct stopwatch entered;
    *s = (struct search){.tenant = tenant};
    s->opened.around = instant_now();
    s->span = open_for(&search_site, tenant);
    s->opened.within = entered.around = instant_now();
    jespan_enter(s->span);
    entered.within = instant_now();
    search_contexts[tenant] = jespan_current();
    worked_within(&entered, m);
    jespan_exit(s->span);
    worked_around(&entered, m);
    for (unsigned part = 0; part < PARTS; part++)
        if (pool_submit(pool, search_part, s))
            abort();
}

static void search_close(struct search *s)
{
    struct measured *m = &search_measured[s->tenant];
    open_within(&s->opened, m);
    jespan_close(s->span);
    open_around(&s->opened, m);
}

/* ---- All of it ---- */

static void run_all(void)
{
    for (unsigned i = 0; i < N_IMPORTS; i++)
        import_start(&imports[i], i % N_TENANTS);
    for (unsigned i = 0; i < N_SEARCHES; i++)
        search_start(&searches[i], i % N_TENANTS);
    pool_wait(pool);
    for (unsigned i = 0; i < N_SEARCHES; i++)
        search_close(&searches[i]);
}

static void print_figures(void)
{
    char name[80];
    print_head();
    for (unsigned tenant = 0; tenant < N_TENANTS; tenant++) {
        snprintf(name, sizeof name, "import{%s}", tenants[tenant]);
        print_figures_of(name, import_contexts[tenant], &import_measured[tenant]);
        snprintf(name, sizeof name, "search{%s}", tenants[tenant]);
        print_figures_of(name, search_contexts[tenant], &search_measured[tenant]);
    }
}

int main(int argc, char **argv)
{
    unsigned n_workers = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 4;
    pool = argc > 2 || n_workers > 64 ? NULL : pool_start(n_workers, n_workers ? job_watch : NULL);
    if (!pool) {
        fputs("usage: thread-pool [WORKERS], at most 64; with 0 all runs on one thread\n", stderr);
        return 2;
    }
    run_all();
    pool_stop(pool);
    print_figures();
    for (unsigned i = 0; i < N_IMPORTS; i++)
        for (unsigned part = 0; part < PARTS; part++)
            free(imports[i].parts[part]);
    return 0;
}
