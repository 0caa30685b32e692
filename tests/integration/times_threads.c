/* SPDX-License-Identifier: BSD-2-Clause */
/* Times of contexts on several threads: one span on many threads, spans that are open now, threads that end,
 * contexts that are recycled, forks. One thread is in times.c. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include <jespan/jespan.h>

#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/spans.h"
#include "../support/times.h"

#define MS 1000000u
#define CPU_PER_MILLE 10
#define TRIES 20

JESPAN_SITE(site_a, "a");
JESPAN_SITE(site_b, "b");

static jespan_span_t *open_at(const struct jespan_site *site, jespan_context_t parent)
{
    jespan_span_t *span = jespan_open(site, parent, NULL, 0);
    CHECK(span != NULL);
    return span;
}

/* This thread enters the span to learn its context, and may have to wait for a processor there. *most becomes the most time that
 * this can have taken. */
static jespan_context_t visit(jespan_span_t *span, uint64_t *most)
{
    uint64_t begin = times_ns(CLOCK_MONOTONIC);
    jespan_context_t id = spans_context(span);
    *most = times_ns(CLOCK_MONOTONIC) - begin;
    return id;
}

/* ---- One span on several threads at once ---- */

enum { THREADS = 5 };

struct worker {
    pthread_t thread;
    jespan_span_t *span;
    struct bracket b;
};

static void *work(void *worker)
{
    struct worker *w = worker;
    w->b.outer_begin = times_now();
    for (int i = 0; i < 3; i++)
        CHECK_EQ(jespan_enter(w->span), 0);
    w->b.inner_begin = times_now();
    times_spin(10 * MS);
    times_sleep(10 * MS);
    w->b.inner_end = times_now();
    for (int i = 0; i < 3; i++)
        CHECK_EQ(jespan_exit(w->span), 0);
    w->b.outer_end = times_now();
    return NULL;
}

static void *work_and_end_inside(void *worker)
{
    struct worker *w = worker;
    w->b.outer_begin = times_now();
    CHECK_EQ(jespan_enter(w->span), 0);
    w->b.inner_begin = times_now();
    times_spin(5 * MS);
    times_sleep(5 * MS);
    w->b.inner_end = times_now();
    return NULL;
}

struct sums {
    uint64_t least[CLOCKS], most[CLOCKS];
};

/* A worker that gives no end of its work ends with its thread. */
static struct sums run_workers(jespan_span_t *span, void *(*function)(void *))
{
    struct worker workers[THREADS] = {{0}};
    struct sums s = {{0}, {0}};
    for (int i = 0; i < THREADS; i++) {
        workers[i].span = span;
        CHECK_EQ(pthread_create(&workers[i].thread, NULL, function, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        const struct bracket *b = &workers[i].b;
        pthread_join(workers[i].thread, NULL);
        uint64_t now = times_ns(CLOCK_MONOTONIC);
        for (int k = WALL; k <= CPU; k++) {
            s.least[k] += times_inner(b, k);
            s.most[k] += b->outer_end.ns[k] ? times_outer(b, k)
                         : k == WALL        ? now - b->outer_begin.ns[k]
                                            : times_inner(b, k) + 5 * MS; /* the thread's end is short work */
        }
    }
    return s;
}

static void on_several_threads(void *(*function)(void *))
{
    bool cpu_was_right = false;
    for (int i = 0; i < TRIES && !cpu_was_right; i++) {
        const struct jespan_site site = {"shared", "", "", (uint32_t)i};
        uint64_t begin = times_ns(CLOCK_MONOTONIC), visited;
        jespan_span_t *span = open_at(&site, JESPAN_CURRENT);
        jespan_context_t id = visit(span, &visited);
        struct sums s = run_workers(span, function);
        jespan_close(span);
        uint64_t all = times_ns(CLOCK_MONOTONIC) - begin, cpu = ctl_span(id, "cpu_ns");
        CHECK_BETWEEN(ctl_span(id, "busy_ns"), s.least[WALL], s.most[WALL] + visited);
        CHECK_BETWEEN(ctl_span(id, "wall_ns"), s.least[WALL] / THREADS, all);
        CHECK_EQ(ctl_span(id, "idle_ns"), 0);
        cpu_was_right = times_between(cpu, s.least[CPU], s.most[CPU], CPU_PER_MILLE); /* times.c says why there are several tries */
    }
    CHECK(cpu_was_right);
}

static void one_span_on_several(void)
{
    on_several_threads(work);
}

static void threads_end_inside(void)
{
    on_several_threads(work_and_end_inside);
}

/* ---- What passes on another thread now ---- */

struct inside {
    pthread_t thread;
    jespan_span_t *span;
    clockid_t cpu;
    struct instant outer, inner;
    sem_t entered, leave;
    _Atomic bool spinning;
};

static void *stay_inside(void *inside)
{
    struct inside *in = inside;
    pthread_getcpuclockid(pthread_self(), &in->cpu);
    in->outer = times_now();
    CHECK_EQ(jespan_enter(in->span), 0);
    in->inner = times_now();
    sem_post(&in->entered);
    while (in->spinning)
        ;
    while (sem_wait(&in->leave))
        ;
    CHECK_EQ(jespan_exit(in->span), 0);
    return NULL;
}

static bool passes(const struct inside *in, jespan_context_t id, uint64_t visited)
{
    uint64_t before = times_ns(CLOCK_MONOTONIC), busy = ctl_span(id, "busy_ns"), after = times_ns(CLOCK_MONOTONIC);
    CHECK_BETWEEN(busy, before - in->inner.ns[WALL], after - in->outer.ns[WALL] + visited);
    before = times_ns(in->cpu);
    uint64_t cpu = ctl_span(id, "cpu_ns");
    after = times_ns(in->cpu);
    return times_between(cpu, before - in->inner.ns[CPU], after - in->outer.ns[CPU], CPU_PER_MILLE);
}

static void entered_elsewhere_now(void)
{
    int right = 0;
    for (int i = 0; i < TRIES && right < 2; i++) {
        const struct jespan_site site = {"inside", "", "", (uint32_t)i};
        struct inside in = {.span = open_at(&site, JESPAN_CURRENT), .spinning = true};
        sem_init(&in.entered, 0, 0);
        sem_init(&in.leave, 0, 0);
        uint64_t visited;
        jespan_context_t id = visit(in.span, &visited);
        CHECK_EQ(pthread_create(&in.thread, NULL, stay_inside, &in), 0);
        while (sem_wait(&in.entered))
            ;
        times_sleep(20 * MS);
        right = passes(&in, id, visited);
        in.spinning = false;
        times_sleep(20 * MS);
        right += passes(&in, id, visited);
        sem_post(&in.leave);
        pthread_join(in.thread, NULL);
        jespan_close(in.span);
    }
    CHECK_EQ(right, 2);
}

/* ---- All threads' lives ---- */

static void *live(void *bracket)
{
    struct bracket *b = bracket;
    jespan_current();
    b->inner_begin = times_now();
    for (int i = 0; i < 2000; i++) {
        JESPAN("life");
        if (i % 500 == 0)
            times_sleep(MS);
    }
    b->inner_end = times_now();
    return NULL;
}

static void sum_of_self_is_all_lives(void)
{
    struct bracket b[THREADS + 1] = {{.outer_begin = {{0}}}};
    pthread_t threads[THREADS];
    uint64_t least = 0, most = 0;
    b[THREADS].outer_begin = times_now();
    uint64_t busy = ctl_u64("spans.all.busy_ns");
    b[THREADS].inner_begin = times_now();
    for (int i = 0; i < THREADS; i++) {
        b[i].outer_begin = times_now();
        CHECK_EQ(pthread_create(&threads[i], NULL, live, &b[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        b[i].outer_end = times_now();
    }
    b[THREADS].inner_end = times_now();
    busy = ctl_u64("spans.all.busy_ns") - busy;
    b[THREADS].outer_end = times_now();
    for (int i = 0; i <= THREADS; i++) {
        least += times_inner(&b[i], WALL);
        most += times_outer(&b[i], WALL);
    }
    CHECK_BETWEEN(busy, least, most);
}

/* ---- Recycled contexts ---- */

/* With max_contexts:64. The time of recycled children is not given back to their parent. It is in spans.retired. */
static void recycled_children(void)
{
    enum { CHILDREN = 300 };
    uint64_t least = 0, begin = times_ns(CLOCK_MONOTONIC);
    jespan_span_t *top = open_at(&site_a, JESPAN_ROOT);
    jespan_context_t parent = spans_context(top);
    for (int i = 0; i < CHILDREN; i++) {
        char text[16];
        struct jespan_label label = {"n", text};
        snprintf(text, sizeof text, "%d", i);
        jespan_span_t *span = jespan_open(&site_b, parent, &label, 1);
        CHECK_EQ(jespan_enter(span), 0);
        uint64_t start = times_ns(CLOCK_MONOTONIC);
        times_sleep(MS / 10);
        least += times_ns(CLOCK_MONOTONIC) - start;
        CHECK_EQ(jespan_exit(span), 0);
        CHECK_EQ(jespan_close(span), 0);
    }
    CHECK_EQ(jespan_close(top), 0);
    uint64_t all = times_ns(CLOCK_MONOTONIC) - begin;
    CHECK(ctl_u64("spans.stats.recycled") >= CHILDREN - 64);
    CHECK_BETWEEN(ctl_span(parent, "wall_ns"), 0, all - least);
    CHECK_BETWEEN(ctl_span(parent, "total.wall_ns"), least, all);
    CHECK_BETWEEN(ctl_span(parent, "total.busy_ns") + ctl_u64("spans.retired.busy_ns"), least, all);
    CHECK_BETWEEN(ctl_u64("spans.retired.wall_ns"), (uint64_t)(CHILDREN - 64) * MS / 10, all);
    CHECK(ctl_u64("spans.retired.opens") >= CHILDREN - 64);
}

/* ---- Fork ---- */

static _Atomic bool stop;
enum { SWITCHERS = 3, CHILDREN = 100 };

static void switch_once(jespan_span_t *span)
{
    jespan_enter(span);
    {
        JESPAN("scope one");
        JESPAN("scope two");
    }
    jespan_exit(span);
}

static void *switch_contexts(void *span)
{
    while (!stop)
        switch_once(span);
    return NULL;
}

static const char *const figures[] = {"busy_ns", "wall_ns", "cpu_ns", "idle_ns", "opens", "enters", "total.wall_ns"};
enum { FIGURES = sizeof figures / sizeof *figures, CONTEXTS = 12 };

struct looked {
    uint64_t f[CONTEXTS][FIGURES];
};

/* Returns 0 if there is no such context. */
static uint64_t figure_of(jespan_context_t id, const char *leaf)
{
    char name[96];
    uint64_t value = 0;
    size_t length = sizeof value;
    F(mallctl)(ctl_span_name(name, sizeof name, id, leaf), &value, &length, NULL, 0);
    return value;
}

static void look(struct looked *l)
{
    for (uint32_t id = 0; id < CONTEXTS; id++)
        for (int i = 0; i < FIGURES; i++)
            l->f[id][i] = figure_of(id, figures[i]);
}

/* In a child there is one thread. Its time passes for `current`, and for no other context. No figure is more than all
 * threads can have had since the start. */
static void check_child(jespan_context_t current, uint64_t start)
{
    struct looked before, after;
    look(&before);
    times_sleep(3 * MS);
    look(&after);
    uint64_t most = (times_ns(CLOCK_MONOTONIC) - start) * (SWITCHERS + 1) + 1000 * (uint64_t)MS;
    for (uint32_t id = 0; id < CONTEXTS; id++)
        for (int i = 0; i < FIGURES; i++) {
            uint64_t one = before.f[id][i], two = after.f[id][i];
            if (two > most || one > most || two + 5000 < one || (i == 0 && id != current && two > one + 5000))
                check_fail("in a child: context %u: %s is %llu, then %llu; at most %llu", id, figures[i],
                           (unsigned long long)one, (unsigned long long)two, (unsigned long long)most);
        }
}

/* Returns how many more contexts can be made with max_contexts:64, when all that nobody is in are recycled. */
static int room(void)
{
    int n = 0;
    for (uint64_t overflow = ctl_u64("spans.stats.overflow"); ctl_u64("spans.stats.overflow") == overflow; n++) {
        char text[16];
        struct jespan_label label = {"n", text};
        snprintf(text, sizeof text, "%d", n);
        CHECK(jespan_open(&site_b, JESPAN_ROOT, &label, 1) != NULL);
    }
    return n;
}

static int room_without_threads(jespan_span_t *span)
{
    int status = -1;
    pid_t pid = fork();
    switch_once(span);
    if (pid == 0) {
        jespan_close(span);
        _exit(room());
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return WEXITSTATUS(status);
}

static void forks_while_others_switch(void)
{
    pthread_t threads[SWITCHERS];
    jespan_span_t *span = open_at(&site_a, JESPAN_ROOT);
    int room_alone = room_without_threads(span);
    uint64_t start = times_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < SWITCHERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, switch_contexts, span), 0);
    times_sleep(20 * MS);
    for (int i = 0; i < CHILDREN && !check_failures; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            check_child(jespan_current(), start);
            jespan_close(span);
            CHECK_EQ(room(), room_alone);
            _exit(check_failures ? 1 : 0);
        }
        CHECK_CHILD(pid);
    }
    stop = true;
    for (int i = 0; i < SWITCHERS; i++)
        pthread_join(threads[i], NULL);
    jespan_close(span);
}

/* The child's CPU clock begins at 0. Its time is counted from there, in the span that was current. */
static void child_goes_on(void)
{
    jespan_span_t *span = open_at(&site_a, JESPAN_ROOT);
    CHECK_EQ(jespan_enter(span), 0);
    jespan_context_t id = jespan_current();
    times_spin(30 * MS);
    uint64_t cpu = ctl_span(id, "cpu_ns");
    pid_t pid = fork();
    if (pid == 0) {
        CHECK(ctl_span(id, "cpu_ns") + MS / 2 >= cpu); /* the CPU time since the last reading is not lost */
        uint64_t busy = ctl_span(id, "busy_ns"), begin = times_ns(CLOCK_MONOTONIC);
        times_spin(10 * MS);
        times_sleep(10 * MS);
        uint64_t passed = times_ns(CLOCK_MONOTONIC) - begin, own = times_ns(CLOCK_THREAD_CPUTIME_ID);
        uint64_t more = ctl_span(id, "cpu_ns");
        CHECK(more < cpu + 10 * own && more + 5 * MS > 10 * MS);
        CHECK(ctl_span(id, "busy_ns") + 5000 >= busy + passed / 1000 * 999);
        CHECK_EQ(jespan_exit(span), 0);
        CHECK_EQ(jespan_close(span), 0);
        _exit(check_failures ? 1 : 0);
    }
    CHECK_CHILD(pid);
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(jespan_close(span), 0);
}

/* Contexts get recycled numbers, and are entered and left while another thread reads their figures. A correction by
 * some nanoseconds must not turn a figure into hundreds of years. */
static atomic_bool enough;

static void *open_many(void *which)
{
    enum { AT_ONCE = 200 };
    JESPAN_SITE(many, "many");
    jespan_span_t *spans[AT_ONCE];
    for (unsigned n = 0; !atomic_load(&enough);) {
        for (int i = 0; i < AT_ONCE; i++, n++) {
            const struct jespan_label labels[] = {JESPAN_LABEL_INT("thread", (uintptr_t)which), JESPAN_LABEL_INT("n", n)};
            spans[i] = jespan_open(&many, JESPAN_ROOT, labels, 2);
        }
        for (int i = 0; i < AT_ONCE; i++) {
            jespan_enter(spans[i]);
            times_spin(20000);
            jespan_exit(spans[i]);
            jespan_close(spans[i]);
        }
    }
    return NULL;
}

static void recycled_under_way(void)
{
    static const char *const names[] = {"spans.all.busy_ns", "spans.all.cpu_ns", "spans.all.wall_ns", "spans.retired.cpu_ns"};
    pthread_t threads[2];
    for (uintptr_t i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, open_many, (void *)i), 0);
    for (uint64_t end = times_ns(CLOCK_MONOTONIC) + 2000 * MS; times_ns(CLOCK_MONOTONIC) < end;)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            CHECK(ctl_u64(names[i]) < (uint64_t)100000000 * MS);
    atomic_store(&enough, true);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    CHECK(ctl_u64("spans.stats.recycled") > 0);
}

static const struct test_case cases[] = {
    {"recycled under way", recycled_under_way, NULL, "max_contexts:512"},
    {"one span on several", one_span_on_several, NULL, NULL},
    {"threads end inside", threads_end_inside, NULL, NULL},
    {"threads end inside, thread", threads_end_inside, NULL, "cpu_clock:thread"},
    {"entered elsewhere now", entered_elsewhere_now, NULL, NULL},
    {"entered elsewhere now, thread", entered_elsewhere_now, NULL, "cpu_clock:thread"},
    {"sum of self is all lives", sum_of_self_is_all_lives, NULL, NULL},
    {"sum of self is all lives, by name", sum_of_self_is_all_lives, NULL, "thread_contexts:true"},
    {"recycled children", recycled_children, NULL, "max_contexts:64"},
    {"forks while others switch", forks_while_others_switch, NULL, "max_contexts:64", CASE_SAYS_OVERFLOW(64)},
    {"forks while others switch, thread", forks_while_others_switch, NULL,
     "max_contexts:64,cpu_clock:thread", CASE_SAYS_OVERFLOW(64)},
    {"child goes on", child_goes_on, NULL, NULL},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
