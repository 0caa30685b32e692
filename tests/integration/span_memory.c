/* SPDX-License-Identifier: BSD-2-Clause */
/* Failures of tracing-prof 0.3.0 in the figures of memory, one case each, named after the failure. Its failures in
 * nesting, order and time are in span_nesting.c. Other tests have the rest: dump.sh and the tests of reporters have
 * data lost at shutdown, write errors and queues without bound. tests/stress/retention.c has memory without bound at
 * 2,000,000 spans, and the tests of labels have labels that are set later. */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "../support/cases.h"
#include "../support/spans.h"

/* ---- The heap ---- */

/* Its realloc ignores that the alignment has moved its own header. */
static void aligned_realloc_corrupts_the_heap(void)
{
    static const size_t sizes[] = {1, 24, 100, 4096, 5000, 70000, 300000, 40, 3000000, 8};
    for (size_t align = 16; align <= 1 << 20; align *= 2) {
        unsigned char *before = F(malloc)(align), *p = F(aligned_alloc)(align, align), *after = F(malloc)(align);
        memset(before, 1, align);
        memset(p, 2, align);
        memset(after, 3, align);
        CHECK_EQ((uintptr_t)p % align, 0);
        for (size_t i = 0, known = align; i < MEMBERS(sizes); i++) {
            p = i % 2 ? F(realloc)(p, sizes[i]) : F(rallocx)(p, sizes[i], FLAG_ALIGN(align));
            CHECK(i % 2 || (uintptr_t)p % align == 0);
            known = known < sizes[i] ? known : sizes[i];
            for (size_t k = 0; k < known; k += known / 50 + 1)
                CHECK_EQ(p[k], 2);
            memset(p, 2, sizes[i]);
            known = sizes[i];
        }
        for (size_t k = 0; k < align; k++)
            if (before[k] != 1 || after[k] != 3)
                check_fail("alignment %zu: a neighbour is overwritten at %zu", align, k);
        F(free)(before);
        F(free)(p);
        F(free)(after);
    }
    ctl_check_identity("after aligned reallocs");
}

/* With it, the bytes in use never come back to 0. */
static void phantom_bytes_per_realloc(void)
{
    jespan_span_t *span = spans_open("grows", -1, JESPAN_ROOT);
    jespan_context_t id = spans_context(span);
    CHECK_EQ(jespan_enter(span), 0);
    char *p = NULL;
    for (size_t i = 1; i <= 10000; i++) {
        p = F(realloc)(p, i * 7 % 9000 + 1);
        if (i % 1000 == 0)
            spans_check_inuse(id, 1, F(malloc_usable_size)(p), "after a realloc");
    }
    CHECK_EQ(ctl_span(id, "alloc_objects"), 10000); /* each counts as a free and an allocation, also in place */
    F(free)(p);
    CHECK_EQ(jespan_exit(span), 0);
    spans_check_inuse(id, 0, 0, "after all is freed");
    CHECK_EQ(ctl_span(id, "alloc_bytes"), ctl_span(id, "free_bytes"));
    jespan_close(span);
}

/* ---- Spans that are gone ---- */

/* The figures that `jespan report` reads of all contexts that begin with `name`. */
struct reported {
    unsigned long long rows, objects, inuse, allocated;
};

static struct reported report(const char *path, const char *name)
{
    const char *command = getenv("JESPAN_CMD");
    char line[4096], shell[4096], context[4096];
    struct reported sum = {0};
    snprintf(shell, sizeof shell, "COLUMNS=200 '%s' report --top 0 --bytes '%s'", command ? command : "./jespan", path);
    FILE *from = popen(shell, "r");
    while (from && fgets(line, sizeof line, from)) {
        unsigned long long inuse, objects, allocated;
        if (sscanf(line, "%llu %*s %llu %llu %4095[^\n]", &inuse, &objects, &allocated, context) != 4 ||
            strncmp(context, name, strlen(name)) != 0)
            continue;
        sum = (struct reported){sum.rows + 1, sum.objects + objects, sum.inuse + inuse, sum.allocated + allocated};
    }
    CHECK(from && pclose(from) == 0);
    return sum;
}

/* It keeps max_samples samples and drops the rest without a word. It showed 7,083 allocations of 50,000 spans. */
static void pprof_drops_beyond_max_samples(void)
{
    enum { SPANS = 50000, KEPT = 1000 };
    static void *kept[KEPT];
    char path[] = "/tmp/jespan-test.XXXXXX";
    const char *name = path;
    jespan_context_t id;
    if (!case_has_exporter())
        return;
    for (int i = 0; i < SPANS; i++) {
        void *p = spans_leak("many", i, 1024, &id);
        if (i % (SPANS / KEPT) == 0)
            kept[i / (SPANS / KEPT)] = p;
        else
            F(free)(p);
    }
    CHECK_EQ(ctl_u64("spans.stats.overflow") + ctl_u64("spans.stats.recycled"), 0);
    close(mkstemp(path));
    CHECK_EQ(mallctl("spans.dump", NULL, NULL, &name, sizeof name), 0);
    struct reported all = report(path, "many");
    CHECK_EQ(all.rows, SPANS);
    CHECK_EQ(all.allocated, (uint64_t)SPANS * 1024);
    CHECK_EQ(all.objects, KEPT);
    CHECK_EQ(all.inuse, (uint64_t)KEPT * 1024);
    unlink(path);
    for (int i = 0; i < KEPT; i++)
        F(free)(kept[i]);
}

/* It keeps max_closed_heap_spans. In jespan the figures of each span stay until its last byte is freed. */
static void leaks_beyond_1000_closed_spans_vanish(void)
{
    enum { SPANS = 20000 };
    static void *leaks[SPANS];
    static jespan_context_t ids[SPANS];
    for (int i = 0; i < SPANS; i++)
        leaks[i] = spans_leak("leaky", i, 10 + (size_t)i % 3000, &ids[i]);
    for (int i = 0; i < SPANS; i++)
        spans_check_inuse(ids[i], 1, F(malloc_usable_size)(leaks[i]), "a closed span");
    for (int i = 0; i < SPANS; i++)
        F(free)(leaks[i]);
    for (int i = 0; i < SPANS; i++)
        spans_check_inuse(ids[i], 0, 0, "a closed span, all freed");
}

/* It then credits one span's leak to another. This runs with max_contexts:256, so ids are used again and again.
 * tests/stress/retention.c tries ten million spans. */
static void span_ids_repeat_while_tags_live(void)
{
    enum { LEAKS = 50, PASSING = 100000 };
    void *leaks[LEAKS];
    jespan_context_t ids[LEAKS], id;
    for (int i = 0; i < LEAKS; i++)
        leaks[i] = spans_leak("leaky", i, 100 + (size_t)i, &ids[i]);
    for (int n = 0; n < PASSING; n++) {
        F(free)(spans_leak("passing", n, 100, &id));
        CHECK(id != ids[n % LEAKS]);
    }
    CHECK(ctl_u64("spans.stats.recycled") > PASSING / 2);
    for (int i = 0; i < LEAKS; i++) {
        CHECK(strcmp(ctl_span_text(ids[i], "name"), "leaky") == 0);
        CHECK_EQ(ctl_span(ids[i], "alloc_requested_bytes"), 100 + i);
        spans_check_inuse(ids[i], 1, F(malloc_usable_size)(leaks[i]), "an old leak");
        F(free)(leaks[i]);
    }
    ctl_check_identity("with ids used again");
}

/* ---- What is not seen ---- */

static void *free_it(void *p)
{
    F(free)(p);
    return NULL;
}

static void *grow_it(void *p)
{
    return F(realloc)(p, 50000);
}

static void frees_on_a_thread_without_spans_stay_invisible(void)
{
    jespan_context_t id;
    void *p = spans_leak("owner", -1, 1000, &id), *q = spans_leak("owner", -1, 2000, &id);
    uint64_t freed = ctl_span(id, "free_objects");
    spans_on_thread(free_it, p);
    spans_check_inuse(id, 1, F(malloc_usable_size)(q), "one freed elsewhere");
    q = spans_on_thread(grow_it, q);
    spans_check_inuse(id, 0, 0, "the other resized elsewhere");
    CHECK_EQ(ctl_span(id, "free_objects"), freed + 2);
    F(free)(q);
}

static void *look(void *id)
{
    spans_check_inuse(*(jespan_context_t *)id, 2, 4096 + 64, "from another thread");
    return NULL;
}

static void memory_in_a_span_not_yet_exited(void)
{
    jespan_span_t *span = spans_open("under way", -1, JESPAN_ROOT);
    CHECK_EQ(jespan_enter(span), 0);
    void *p = F(malloc)(4096), *q = F(malloc)(64);
    jespan_context_t id = jespan_current();
    spans_check_inuse(id, 2, 4096 + 64, "while it is entered");
    CHECK_EQ(jespan_exit(span), 0);
    spans_on_thread(look, &id);
    CHECK_EQ(jespan_enter(span), 0);
    CHECK_EQ(jespan_attach(JESPAN_BASE), id);
    spans_on_thread(look, &id);
    F(free)(p);
    F(free)(q);
    jespan_attach(id);
    CHECK_EQ(jespan_exit(span), 0);
    jespan_close(span);
}

/* ---- Its own ---- */

/* Opening spans, reading figures and writing a dump do not show as the program's memory. */
static void own_allocations_pollute_the_figures(void)
{
    char path[] = "/tmp/jespan-test.XXXXXX";
    const char *name = path;
    jespan_span_t *spans[1000];
    close(mkstemp(path));
    if (case_has_exporter()) /* the first dump loads the module, and the dynamic linker allocates for that */
        CHECK_EQ(mallctl("spans.dump", NULL, NULL, &name, sizeof name), 0);
    ctl_refresh();
    uint64_t own = ctl_span(2, "alloc_objects"), all = ctl_u64("spans.all.alloc_objects") - own;
    CHECK(strcmp(ctl_span_text(2, "kind"), "jespan") == 0);
    for (size_t i = 0; i < MEMBERS(spans); i++) {
        spans[i] = spans_open("new", (long)i, JESPAN_ROOT);
        CHECK_EQ(jespan_enter(spans[i]), 0);
    }
    ctl_refresh();
    if (case_has_exporter()) {
        CHECK_EQ(mallctl("spans.dump", NULL, NULL, &name, sizeof name), 0);
        CHECK(ctl_span(2, "alloc_objects") > own);
    }
    for (size_t i = 0; i < MEMBERS(spans); i++) {
        CHECK_EQ(jespan_exit(spans[i]), 0);
        jespan_close(spans[i]);
    }
    CHECK_EQ(ctl_u64("spans.all.alloc_objects") - ctl_span(2, "alloc_objects"), all);
    unlink(path);
}

/* ---- Files ---- */

/* Its thread ends at an error, and messages to it fill the memory. */
static void a_write_error_kills_the_profiler_and_memory_grows(void)
{
    char path[] = "/tmp/jespan-test.XXXXXX";
    const char *nowhere = "/nonexistent/directory/heap.pb.gz", *name = path;
    uint64_t lost = ctl_u64("spans.stats.lost_dumps"), meta = 0, map = 0;
    jespan_context_t id;
    for (int i = 0; i < 300; i++) {
        CHECK_EQ(mallctl("spans.dump", NULL, NULL, &nowhere, sizeof nowhere), ENOENT);
        F(free)(spans_leak("goes on", -1, 1000, &id));
        meta = i ? meta : ctl_u64("spans.stats.meta_bytes");
        map = i ? map : ctl_u64("spans.stats.map_bytes");
    }
    CHECK_EQ(ctl_u64("spans.stats.lost_dumps") - lost, 300);
    CHECK_EQ(ctl_u64("spans.stats.meta_bytes"), meta);
    CHECK_EQ(ctl_u64("spans.stats.map_bytes"), map);
    close(mkstemp(path));
    CHECK_EQ(mallctl("spans.dump", NULL, NULL, &name, sizeof name), case_has_exporter() ? 0 : ENOENT);
    unlink(path);
}

/* ---- fork ---- */

/* Its thread is gone in the child, and its locks stay locked, so the child hangs. fork.c and dump.sh test more. */
static void no_fork_handling(void)
{
    jespan_context_t id;
    void *p = spans_leak("inherited", -1, 1000, &id), *q;
    jespan_span_t *span = spans_open("both", -1, JESPAN_ROOT);
    CHECK_EQ(jespan_enter(span), 0);
    pid_t pid = fork();
    if (pid == 0) {
        CHECK_EQ(jespan_current(), spans_context(span));
        F(free)(p);
        spans_check_inuse(id, 0, 0, "in the child");
        F(free)(spans_leak("of the child", -1, 100, &id));
        spans_on_thread(free_it, F(malloc)(100));
        CHECK_EQ(jespan_exit(span), 0);
        ctl_check_identity("in the child");
        _exit(check_result());
    }
    CHECK_CHILD(pid);
    spans_check_inuse(id, 1, F(malloc_usable_size)(p), "in the parent");
    q = F(malloc)(100);
    CHECK_EQ(ctl_span(jespan_current(), "inuse_objects"), 1);
    F(free)(q);
    F(free)(p);
    CHECK_EQ(jespan_exit(span), 0);
    jespan_close(span);
    ctl_check_identity("in the parent");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"aligned_realloc_corrupts_the_heap", aligned_realloc_corrupts_the_heap, NULL, NULL},
        {"phantom_bytes_per_realloc", phantom_bytes_per_realloc, NULL, NULL},
        {"pprof_drops_beyond_max_samples", pprof_drops_beyond_max_samples, NULL, "contexts_kept:131072"},
        {"leaks_beyond_1000_closed_spans_vanish", leaks_beyond_1000_closed_spans_vanish, NULL, NULL},
        {"span_ids_repeat_while_tags_live", span_ids_repeat_while_tags_live, NULL, "max_contexts:256"},
        {"frees_on_a_thread_without_spans_stay_invisible", frees_on_a_thread_without_spans_stay_invisible, NULL, NULL},
        {"memory_in_a_span_not_yet_exited", memory_in_a_span_not_yet_exited, NULL, NULL},
        {"own_allocations_pollute_the_figures", own_allocations_pollute_the_figures, NULL, NULL},
        {"a_write_error_kills_the_profiler_and_memory_grows", a_write_error_kills_the_profiler_and_memory_grows, NULL,
         NULL},
        {"no_fork_handling", no_fork_handling, NULL, NULL},
    };
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
