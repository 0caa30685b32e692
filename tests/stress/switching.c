/* SPDX-License-Identifier: BSD-2-Clause */
/* One thread switches stacks on and off without pause, which sends all other threads to the slow paths at any moment. Every 16th time it
 * sends one of them the signal that does so (stacks_signal). Meanwhile they do all that has a fast path, in short loops. Nothing crashes,
 * and at the end all figures are what they must be.
 *
 * SWITCHES: how many times it switches (20,000). */
#include <jespan/jespan.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

#include "../support/ctl.h"

extern const char *jespan_conf;
const char *jespan_conf = "stacks:off,stacks_sample_bytes:512,stacks_signal:USR2=all@labelled";

enum { WORKERS = 3, KEPT = 50, BYTES = 100 };

struct worker {
    pthread_t thread;
    uint64_t turns; /* at least one */
    uint32_t labelled, plain, span; /* contexts */
    void *kept[KEPT];
};

static jespan_span_t *span;
static atomic_bool is_over;

static void churn(void)
{
    void *aligned = NULL;
    void *p[] = {F(malloc)(BYTES), F(calloc)(2, 24), F(aligned_alloc)(64, 128), F(realloc)(NULL, 10), F(malloc)(6000), F(malloc)(20000)};
    CHECK_EQ(F(posix_memalign)(&aligned, 32, 64), 0);
    p[0] = F(realloc)(p[0], 300);
    F(free)(aligned);
    for (size_t i = 0; i < sizeof p / sizeof p[0]; i++) {
        CHECK(p[i] != NULL);
        F(free)(p[i]);
    }
}

static void enter_in_each_way(struct worker *w)
{
    {
        JESPAN("labelled", "user", "one", "path", "/two");
        w->labelled = jespan_current();
        F(free)(F(malloc)(BYTES));
    }
    {
        JESPAN("plain");
        w->plain = jespan_current();
        F(free)(F(calloc)(1, BYTES));
    }
    {
        JESPAN_CREDIT(w->plain);
        F(free)(F(malloc)(BYTES));
    }
    CHECK_EQ(jespan_enter(span), 0);
    w->span = jespan_current();
    F(free)(F(malloc)(BYTES));
    CHECK_EQ(jespan_exit(span), 0);
}

static void *work(void *worker)
{
    struct worker *w = worker;
    do {
        enter_in_each_way(w);
        if (w->turns % 4 == 0)
            churn();
        w->turns++;
    } while (!atomic_load_explicit(&is_over, memory_order_relaxed));
    JESPAN_CREDIT(w->labelled);
    for (unsigned i = 0; i < KEPT; i++)
        CHECK((w->kept[i] = F(malloc)(BYTES)) != NULL);
    return NULL;
}

/* A build for sanitizers links no more of jespan than a program calls, and has no handler then. */
static bool has_handler(void)
{
    struct sigaction now;
    return sigaction(SIGUSR2, NULL, &now) == 0 && now.sa_handler != SIG_DFL;
}

static void switch_stacks(const struct worker *workers, uint64_t turn)
{
    static const char *const modes[] = {"sampled", "off", "all", "off"};
    const char *mode = modes[turn % 4];
    if (turn % 16 == 0 && has_handler())
        CHECK_EQ(pthread_kill(workers[turn / 16 % WORKERS].thread, SIGUSR2), 0);
    CHECK_EQ(F(mallctl)("spans.stacks", NULL, NULL, &mode, sizeof mode), 0);
}

/* The threads have the same name, so the same contexts. */
static void check_figures(const struct worker *w, uint64_t turns)
{
    CHECK_EQ(ctl_span(w->labelled, "enters"), turns + WORKERS);
    CHECK_EQ(ctl_span(w->labelled, "alloc_objects"), turns + WORKERS * KEPT);
    CHECK_EQ(ctl_span(w->labelled, "inuse_objects"), WORKERS * KEPT);
    CHECK_EQ(ctl_span(w->labelled, "inuse_bytes"), WORKERS * KEPT * F(malloc_usable_size)(w->kept[0]));
    CHECK_EQ(ctl_span(w->plain, "enters"), 2 * turns);
    CHECK_EQ(ctl_span(w->plain, "alloc_objects"), 2 * turns);
    CHECK_EQ(ctl_span(w->plain, "inuse_bytes"), 0);
    CHECK_EQ(ctl_span(w->span, "enters"), turns);
    CHECK_EQ(ctl_span(w->span, "alloc_objects"), turns);
    CHECK_EQ(ctl_span(w->span, "inuse_bytes"), 0);
}

int main(void)
{
    static const struct jespan_site site = {"span", __FILE__, "main", __LINE__};
    static struct worker workers[WORKERS];
    uint64_t turns = 0;
    CHECK((span = jespan_open(&site, JESPAN_ROOT, NULL, 0)) != NULL);
    for (unsigned i = 0; i < WORKERS; i++)
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (uint64_t i = 0, n = check_rounds("SWITCHES", 20000); i < n; i++)
        switch_stacks(workers, i);
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    ctl_refresh();
    for (unsigned i = 0; i < WORKERS; i++)
        turns += workers[i].turns;
    check_figures(&workers[0], turns);
    check_note("%llu turns", (unsigned long long)turns);
    return check_result();
}
