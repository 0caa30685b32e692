/* SPDX-License-Identifier: BSD-2-Clause */
/* Failures of alloc-track 0.2.3, one case each, named after the failure. command.sh checks that the columns of a
 * report are in order. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "../support/cases.h"
#include "../support/maps.h"
#include "../support/spans.h"

/* ---- Threads ---- */

#define THREADS 600

static pthread_barrier_t all_there;
static void *of_thread[THREADS];
static jespan_span_t *work;

static void *one_of_many(void *argument)
{
    size_t i = (size_t)(uintptr_t)argument;
    CHECK_EQ(jespan_enter(work), 0);
    of_thread[i] = F(malloc)(100 + i);
    pthread_barrier_wait(&all_there);
    F(free)(of_thread[THREADS - 1 - i]);
    CHECK_EQ(jespan_exit(work), 0);
    return NULL;
}

/* It has 256 places for threads. Here 600 live at the same time; each frees what another one allocated. */
static void the_257th_thread_aborts(void)
{
    static pthread_t threads[THREADS];
    pthread_attr_t attributes;
    uint64_t requested = 0;
    work = spans_open("work", -1, JESPAN_ROOT);
    jespan_context_t id = spans_context(work);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 65536);
    pthread_barrier_init(&all_there, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], &attributes, one_of_many, (void *)(uintptr_t)i), 0);
        requested += 100 + i;
    }
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(ctl_span(id, "alloc_objects"), THREADS);
    CHECK_EQ(ctl_span(id, "alloc_requested_bytes"), requested);
    CHECK_EQ(ctl_span(id, "free_objects"), THREADS);
    spans_check_inuse(id, 0, 0, "after 600 threads");
    jespan_close(work);
    ctl_check_identity("after 600 threads");
}

struct leak {
    void *p;
    jespan_context_t id;
};

static struct leak *leak_on_this_thread(const char *name)
{
    pthread_setname_np(pthread_self(), name);
    jespan_context_t id = jespan_current();
    struct leak *leak = F(malloc)(sizeof *leak);
    *leak = (struct leak){F(malloc)(12345), id};
    return leak;
}

static void *leaky(void *argument)
{
    return leak_on_this_thread(argument);
}

/* Its figures go with the thread. Ours stay, also when another thread has taken over the dead one's block. */
static void dead_threads_leaks_vanish(void)
{
    struct leak *leak = spans_on_thread(leaky, (void *)"dies");
    for (int i = 0; i < 10; i++) {
        struct leak *other = spans_on_thread(leaky, (void *)"comes later");
        CHECK(other->id != leak->id);
        F(free)(other->p);
        F(free)(other);
    }
    CHECK(strcmp(ctl_span_text(leak->id, "name"), "thread:dies") == 0);
    CHECK_EQ(ctl_span(leak->id, "alloc_objects"), 2);
    spans_check_inuse(leak->id, 2, F(malloc_usable_size)(leak) + F(malloc_usable_size)(leak->p), "a dead thread");
    jespan_context_t id = leak->id;
    F(free)(leak->p);
    F(free)(leak);
    spans_check_inuse(id, 0, 0, "a dead thread's, freed by another");
}

static void *in_span_of_its_own(void *number)
{
    static _Atomic long threads;
    char text[24];
    (void)number;
    snprintf(text, sizeof text, "%ld", atomic_fetch_add(&threads, 1));
    JESPAN("worker", "thread", text);
    struct leak *leak = F(malloc)(sizeof *leak);
    *leak = (struct leak){NULL, jespan_current()};
    return leak;
}

/* As documented, threads of one name share a context: a pool of a thousand is one line in a report. Whoever wants them
 * apart names them differently, or gives each a span with a label. */
static void same_named_threads_merge(void)
{
    struct leak *a = spans_on_thread(leaky, (void *)"pool"), *b = spans_on_thread(leaky, (void *)"pool"),
                *c = spans_on_thread(leaky, (void *)"other");
    CHECK_EQ(a->id, b->id);
    CHECK(a->id != c->id);
    CHECK_EQ(ctl_span(a->id, "inuse_objects"), 4);
    CHECK_EQ(ctl_span(c->id, "inuse_objects"), 2);
    struct leak *d = spans_on_thread(in_span_of_its_own, NULL), *e = spans_on_thread(in_span_of_its_own, NULL);
    CHECK(d->id != e->id);
    spans_check_inuse(d->id, 1, F(malloc_usable_size)(d), "one of two");
    spans_check_inuse(e->id, 1, F(malloc_usable_size)(e), "the other");
}

/* ---- Callbacks ---- */

static int allocates(const struct jespan_site *site, const struct jespan_label *labels, size_t n_labels, void *user)
{
    (void)labels, (void)n_labels;
    void **kept = user;
    *kept = F(realloc)(*kept, strlen(site->name) + 100);
    F(free)(opaque_pointer(F(malloc)(100000)));
    ctl_refresh();
    return 1;
}

/* Filters may allocate: the sampler, a callback of the program, allocates and reads figures. */
static void filters_that_allocate_panic(void)
{
    void *kept = NULL;
    jespan_context_t id;
    jespan_set_sampler(allocates, &kept);
    for (int i = 0; i < 100; i++)
        F(free)(spans_leak("filtered", i, 100, &id));
    jespan_set_sampler(NULL, NULL);
    CHECK_EQ(ctl_span(id, "alloc_objects"), 1);
    CHECK(kept != NULL);
    F(free)(kept);
    ctl_check_identity("after filters");
}

/* ---- Pages ---- */

/* It writes zeros over pages that the kernel gave as zeros. */
static void zeroed_256_MB_costs_RSS(void)
{
    const size_t size = (size_t)256 << 20;
    uint64_t before = rss_bytes();
    char *p = F(calloc)(size / 64, 64), *q = F(mallocx)(size, FLAG_ZERO);
    CHECK(p && q);
    CHECK(p[0] == 0 && p[size / 2] == 0 && p[size - 1] == 0 && q[size - 1] == 0);
    CHECK_EQ(F(malloc_usable_size)(p), size);
    uint64_t grown = rss_bytes() - before;
    if (grown > (uint64_t)4 << 20)
        check_fail("2 x 256 MB of zeros cost %llu bytes of RSS", (unsigned long long)grown);
    F(free)(p);
    F(free)(q);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"the_257th_thread_aborts", the_257th_thread_aborts, NULL, NULL},
        {"dead_threads_leaks_vanish", dead_threads_leaks_vanish, NULL, NULL},
        {"same_named_threads_merge", same_named_threads_merge, NULL, NULL},
        {"filters_that_allocate_panic", filters_that_allocate_panic, NULL, NULL},
        {"zeroed_256_MB_costs_RSS", zeroed_256_MB_costs_RSS, NULL, NULL},
    };
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
