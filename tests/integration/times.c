/* SPDX-License-Identifier: BSD-2-Clause */
/* Times of contexts against independent clocks, on one thread: every kind of work with every clock, any order of enters
 * and exits, and what is said where a clock is not there. Several threads: times_threads.c. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include <jespan/jespan.h>

#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/own_rseq.h"
#include "../support/times.h"

#define MS 1000000u
#define TRIES 20
#define CPU_PER_MILLE 10

static bool cpu_is_known(void)
{
    return !strstr(getenv("JESPAN_CONF"), "track_time:wall");
}

static bool split_is_known(void)
{
    return strstr(getenv("JESPAN_CONF"), "cpu_clock:rusage");
}

static jespan_span_t *open_span(const struct jespan_site *site)
{
    jespan_span_t *span = jespan_open(site, JESPAN_CURRENT, NULL, 0);
    CHECK(span != NULL);
    return span;
}

static jespan_context_t context_of(jespan_span_t *span)
{
    CHECK_EQ(jespan_enter(span), 0);
    jespan_context_t id = jespan_current();
    CHECK_EQ(jespan_exit(span), 0);
    return id;
}

/* ---- Kinds of work ---- */

static void be_busy(void)
{
    times_spin(20 * MS);
}

static void be_asleep(void)
{
    times_sleep(20 * MS);
}

static void sleep_often(void)
{
    for (int i = 0; i < 50; i++)
        times_sleep(100000);
}

static void call_the_system(void)
{
    for (int i = 0; i < 40000; i++)
        syscall(SYS_getppid);
}

static void do_some_of_each(void)
{
    times_spin(5 * MS);
    times_sleep(5 * MS);
    for (int i = 0; i < 10000; i++)
        syscall(SYS_getppid);
}

/* More threads than processors, of which this one is to have the least. */
static _Atomic bool competing;

static void *compete(void *unused)
{
    while (competing)
        ;
    return unused;
}

enum { COMPETITORS = 6 };

static void start_competition(pthread_t *threads)
{
    competing = true;
    for (int i = 0; i < COMPETITORS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, compete, NULL), 0);
}

static void end_competition(const pthread_t *threads)
{
    competing = false;
    for (int i = 0; i < COMPETITORS; i++)
        pthread_join(threads[i], NULL);
}

static void be_preempted(void)
{
    pthread_t threads[COMPETITORS];
    start_competition(threads);
    times_spin(20 * MS);
    end_competition(threads);
}

static void be_preempted_while_idle_class(void)
{
    const struct sched_param none = {0};
    pthread_t threads[COMPETITORS];
    start_competition(threads);
    pthread_setschedparam(pthread_self(), SCHED_IDLE, &none);
    times_spin(MS);
    pthread_setschedparam(pthread_self(), SCHED_OTHER, &none); /* may fail for want of the right: all the same */
    end_competition(threads);
}

/* Then jespan's pointer is gone, though the thread never left its processor; and it does leave it, without that showing
 * in the pointer. */
static void use_rseq(void)
{
    for (int i = 0; i < 20; i++) {
        if (i % 2)
            own_rseq_set();
        else
            own_rseq_clear();
        times_spin(MS / 2);
        times_sleep(MS / 2);
    }
}

static const struct work {
    const char *name;
    void (*run)(void);
} works[] = {{"busy", be_busy},
             {"asleep", be_asleep},
             {"asleep often", sleep_often},
             {"system calls", call_the_system},
             {"some of each", do_some_of_each},
             {"preempted", be_preempted},
             {"preempted, SCHED_IDLE", be_preempted_while_idle_class},
             {"own rseq", use_rseq}};

/* ---- One kind of work, in one span ---- */

struct figures {
    uint64_t wall, busy, idle, cpu, user, system;
};

static struct figures figures_of(jespan_context_t id)
{
    struct figures f = {ctl_span(id, "wall_ns"), ctl_span(id, "busy_ns"), ctl_span(id, "idle_ns"), 0, 0, 0};
    if (cpu_is_known())
        f.cpu = ctl_span(id, "cpu_ns");
    if (split_is_known()) {
        f.user = ctl_span(id, "cpu_user_ns");
        f.system = ctl_span(id, "cpu_system_ns");
    }
    return f;
}

static jespan_context_t measure(const struct jespan_site *site, const struct work *work, struct bracket *b)
{
    b->outer_begin = times_now();
    jespan_span_t *span = open_span(site);
    CHECK_EQ(jespan_enter(span), 0);
    jespan_context_t id = jespan_current();
    b->inner_begin = times_now();
    work->run();
    b->inner_end = times_now();
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(jespan_close(span), 0);
    b->outer_end = times_now();
    return id;
}

/* What the kernel takes for an interrupt, and a hypervisor for another machine, may be nobody's CPU time, but passes by
 * the clock while the pointer stands: a second or third try finds a quieter moment. */
static bool cpu_is_right(const struct figures *f, const struct bracket *b)
{
    bool all = !cpu_is_known() ||
               times_between(f->cpu, times_inner(b, CPU), times_outer(b, CPU), CPU_PER_MILLE);
    /* getrusage(2) counts a thread's time as of the last tick or switch, 10 ms at worst. */
    if (split_is_known())
        all = times_between(f->cpu, times_inner(b, USER) + times_inner(b, SYSTEM),
                            times_outer(b, USER) + times_outer(b, SYSTEM), 1) &&
              times_between(f->user, times_inner(b, USER), times_outer(b, USER), 1) &&
              times_between(f->system, times_inner(b, SYSTEM), times_outer(b, SYSTEM), 1);
    return all;
}

static bool try_work(const struct jespan_site *site, const struct work *work, struct bracket *b, struct figures *f)
{
    jespan_context_t id = measure(site, work, b);
    *f = figures_of(id);
    CHECK_BETWEEN(f->wall, times_inner(b, WALL), times_outer(b, WALL));
    CHECK_BETWEEN(f->busy, times_inner(b, WALL), times_outer(b, WALL));
    CHECK_BETWEEN(f->idle, 0, times_outer(b, WALL) - times_inner(b, WALL));
    CHECK_EQ(f->user + f->system, split_is_known() ? f->cpu : 0);
    return cpu_is_right(f, b);
}

/* Another site, and so another context, each time. */
static void works_one_by_one(void)
{
    static const char *const no_more = "";
    for (const struct work *work = works; work < works + sizeof works / sizeof *works; work++) {
        struct bracket b = {0};
        struct figures f = {0};
        struct jespan_site site = {work->name, no_more, no_more, 0};
        while (++site.line <= TRIES && !try_work(&site, work, &b, &f))
            ;
        if (site.line > TRIES)
            check_fail("%s: CPU %llu ns, user %llu, system %llu; by the clocks from %llu to %llu, %llu, %llu", work->name,
                       (unsigned long long)f.cpu, (unsigned long long)f.user, (unsigned long long)f.system,
                       (unsigned long long)times_inner(&b, CPU), (unsigned long long)times_outer(&b, CPU),
                       (unsigned long long)times_outer(&b, USER), (unsigned long long)times_outer(&b, SYSTEM));
    }
}

/* ---- Several spans ---- */

JESPAN_SITE(site_a, "a");
JESPAN_SITE(site_b, "b");
JESPAN_SITE(site_c, "c");

#define PARTS 3
struct parts {
    jespan_span_t *span[PARTS];
    jespan_context_t id[PARTS];
    struct bracket b[PARTS];
};

static struct parts open_parts(void)
{
    const struct jespan_site *sites[PARTS] = {&site_a, &site_b, &site_c};
    struct parts p;
    for (int i = 0; i < PARTS; i++) {
        p.span[i] = jespan_open(sites[i], JESPAN_ROOT, NULL, 0);
        p.id[i] = context_of(p.span[i]);
    }
    return p;
}

static void close_parts(struct parts *p)
{
    for (int i = 0; i < PARTS; i++)
        CHECK_EQ(jespan_close(p->span[i]), 0);
}

/* Works in whatever is current, which is to be p->id[i]: by clocks read around the work, and around all since `begin`. */
static void work_in(struct parts *p, int i, uint64_t *least, unsigned ms)
{
    CHECK_EQ(jespan_current(), p->id[i]);
    uint64_t begin = times_ns(CLOCK_MONOTONIC);
    times_sleep((uint64_t)ms * MS);
    least[i] += times_ns(CLOCK_MONOTONIC) - begin;
}

/* All that was between the works belongs to somebody: least of all to each, but to all together. */
static void check_parts(const struct parts *p, const uint64_t *least, uint64_t all)
{
    uint64_t sum = 0, known = 0;
    for (int i = 0; i < PARTS; i++) {
        uint64_t busy = ctl_span(p->id[i], "busy_ns");
        sum += busy;
        known += least[i];
        CHECK_BETWEEN(busy, least[i], all);
    }
    CHECK_BETWEEN(sum, known, all);
}

static void depth_three(void)
{
    struct parts p = open_parts();
    uint64_t least[PARTS] = {0}, begin = times_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < PARTS; i++) {
        CHECK_EQ(jespan_enter(p.span[i]), 0);
        work_in(&p, i, least, 4u << i);
    }
    for (int i = PARTS; i-- > 0;) {
        work_in(&p, i, least, 3);
        CHECK_EQ(jespan_exit(p.span[i]), 0);
    }
    check_parts(&p, least, times_ns(CLOCK_MONOTONIC) - begin);
    close_parts(&p);
}

static void out_of_order_and_again(void)
{
    struct parts p = open_parts();
    uint64_t least[PARTS] = {0}, begin = times_ns(CLOCK_MONOTONIC);
    for (int i = 0; i < PARTS; i++)
        CHECK_EQ(jespan_enter(p.span[i]), 0);
    CHECK_EQ(jespan_enter(p.span[0]), 0); /* a b c a */
    work_in(&p, 0, least, 4);
    CHECK_EQ(jespan_exit(p.span[0]), 0); /* a b c */
    work_in(&p, 2, least, 8);
    CHECK_EQ(jespan_exit(p.span[1]), 0); /* a c */
    work_in(&p, 2, least, 2);
    CHECK_EQ(jespan_exit(p.span[2]), 0); /* a */
    work_in(&p, 0, least, 16);
    CHECK_EQ(jespan_exit(p.span[0]), 0);
    check_parts(&p, least, times_ns(CLOCK_MONOTONIC) - begin);
    close_parts(&p);
}

static void attached(void)
{
    struct parts p = open_parts();
    uint64_t least[PARTS] = {0}, begin = times_ns(CLOCK_MONOTONIC);
    CHECK_EQ(jespan_enter(p.span[0]), 0);
    jespan_context_t previous = jespan_attach(p.id[1]);
    work_in(&p, 1, least, 8);
    CHECK_EQ(jespan_enter(p.span[2]), 0);
    work_in(&p, 2, least, 4);
    CHECK_EQ(jespan_exit(p.span[2]), 0);
    jespan_attach(previous);
    work_in(&p, 0, least, 16);
    CHECK_EQ(jespan_exit(p.span[0]), 0);
    check_parts(&p, least, times_ns(CLOCK_MONOTONIC) - begin);
    close_parts(&p);
}

/* What is allocated is another's; the time is not, whatever is entered meanwhile, and also when that below it goes. */
static void for_another(void)
{
    struct parts p = open_parts();
    uint64_t before = ctl_span(p.id[1], "busy_ns"), least[PARTS] = {0}, begin = times_ns(CLOCK_MONOTONIC);
    CHECK_EQ(jespan_enter(p.span[0]), 0);
    CHECK_EQ(jespan_enter(p.span[2]), 0);
    {
        JESPAN_FOR(p.id[1]);
        CHECK_EQ(jespan_current(), p.id[1]);
        uint64_t start = times_ns(CLOCK_MONOTONIC);
        times_sleep(8 * MS);
        uint64_t middle = times_ns(CLOCK_MONOTONIC);
        CHECK_EQ(jespan_exit(p.span[2]), 0);
        uint64_t second = times_ns(CLOCK_MONOTONIC);
        times_sleep(8 * MS);
        least[2] += middle - start;
        least[0] += times_ns(CLOCK_MONOTONIC) - second;
    }
    work_in(&p, 0, least, 4);
    CHECK_EQ(jespan_exit(p.span[0]), 0);
    uint64_t all = times_ns(CLOCK_MONOTONIC) - begin;
    CHECK_EQ(ctl_span(p.id[1], "busy_ns"), before);
    CHECK_BETWEEN(ctl_span(p.id[2], "busy_ns"), least[2], all - least[0]);
    CHECK_BETWEEN(ctl_span(p.id[0], "busy_ns"), least[0], all - least[2]);
    close_parts(&p);
}

/* A JESPAN() block has both times; so has its parent, with and without it. */
static void scopes(void)
{
    uint64_t least[2] = {0};
    jespan_context_t outer, inner;
    uint64_t begin = times_ns(CLOCK_MONOTONIC);
    {
        JESPAN("outer");
        outer = jespan_current();
        uint64_t start = times_ns(CLOCK_MONOTONIC);
        times_sleep(5 * MS);
        {
            JESPAN("inner");
            inner = jespan_current();
            uint64_t second = times_ns(CLOCK_MONOTONIC);
            times_sleep(10 * MS);
            least[1] = times_ns(CLOCK_MONOTONIC) - second;
        }
        least[0] = times_ns(CLOCK_MONOTONIC) - start;
    }
    uint64_t all = times_ns(CLOCK_MONOTONIC) - begin, inner_wall = ctl_span(inner, "wall_ns");
    CHECK_BETWEEN(inner_wall, least[1], all);
    CHECK_BETWEEN(ctl_span(inner, "busy_ns"), least[1], all);
    CHECK_BETWEEN(ctl_span(outer, "wall_ns"), least[0] - inner_wall, all - inner_wall);
    CHECK_BETWEEN(ctl_span(outer, "busy_ns"), least[0] - inner_wall, all - inner_wall);
    CHECK_BETWEEN(ctl_span(outer, "total.wall_ns"), least[0], all);
    CHECK_BETWEEN(ctl_span(outer, "total.busy_ns"), least[0], all);
    CHECK_EQ(ctl_span(outer, "opens"), 1);
    CHECK_EQ(ctl_span(inner, "total.opens"), 1);
}

/* Open, but not entered: wall and idle; a child that is open longer than its parent takes no more than the parent has. */
static void child_outlives_parent(void)
{
    struct bracket b;
    b.outer_begin = times_now();
    jespan_span_t *parent = open_span(&site_a);
    b.inner_begin = times_now();
    jespan_context_t id = context_of(parent);
    jespan_span_t *child = jespan_open(&site_b, id, NULL, 0);
    jespan_context_t below = context_of(child);
    times_sleep(5 * MS);
    b.inner_end = times_now();
    CHECK_EQ(jespan_close(parent), 0);
    b.outer_end = times_now();
    times_sleep(10 * MS);
    CHECK_EQ(jespan_close(child), 0);
    uint64_t all = times_ns(CLOCK_MONOTONIC) - b.outer_begin.ns[WALL];
    CHECK_EQ(ctl_span(id, "wall_ns"), 0);
    CHECK_BETWEEN(ctl_span(id, "total.wall_ns"), times_inner(&b, WALL), times_outer(&b, WALL));
    CHECK_BETWEEN(ctl_span(below, "wall_ns"), times_inner(&b, WALL), all);
    CHECK_BETWEEN(ctl_span(below, "idle_ns"), 10 * MS, all);
}

/* All that passes on a thread passes for some context. */
static void sum_is_all(void)
{
    struct bracket b;
    b.outer_begin = times_now();
    uint64_t busy = ctl_u64("spans.all.busy_ns");
    b.inner_begin = times_now();
    struct parts p = open_parts();
    for (int i = 0; i < 20000; i++) {
        JESPAN("outer");
        CHECK_EQ(jespan_enter(p.span[i % PARTS]), 0);
        JESPAN_FOR(p.id[(i + 1) % PARTS]);
        JESPAN("inner");
        if (i % 1000 == 0)
            times_sleep(MS / 2);
        CHECK_EQ(jespan_exit(p.span[i % PARTS]), 0);
    }
    close_parts(&p);
    b.inner_end = times_now();
    busy = ctl_u64("spans.all.busy_ns") - busy;
    b.outer_end = times_now();
    CHECK_BETWEEN(busy, times_inner(&b, WALL), times_outer(&b, WALL));
}

/* ---- What is not known ---- */

static void check_known(const char *leaf, bool known)
{
    char name[96];
    uint64_t value;
    size_t length = sizeof value;
    ctl_span_name(name, sizeof name, jespan_current(), leaf);
    CHECK_EQ(F(mallctl)(name, &value, &length, NULL, 0), known ? 0 : ENOENT);
}

static void names(void)
{
    bool time = !strstr(getenv("JESPAN_CONF"), "track_time:off"), cpu = time && cpu_is_known();
    static const char *const walls[] = {"wall_ns", "busy_ns", "idle_ns", "total.wall_ns", "total.busy_ns"};
    static const char *const splits[] = {"cpu_user_ns", "cpu_system_ns", "total.cpu_user_ns"};
    JESPAN("names");
    for (size_t i = 0; i < sizeof walls / sizeof *walls; i++)
        check_known(walls[i], time);
    for (size_t i = 0; i < sizeof splits / sizeof *splits; i++)
        check_known(splits[i], cpu && split_is_known());
    check_known("cpu_ns", cpu);
    check_known("total.cpu_ns", cpu);
    check_known("opens", true);
    CHECK_EQ(ctl_span(jespan_current(), "opens"), 1);
}

static const struct test_case cases[] = {
    {"works, rseq", works_one_by_one, NULL, "cpu_clock:rseq"},
    {"works, thread", works_one_by_one, NULL, "cpu_clock:thread"},
    {"works, rusage", works_one_by_one, NULL, "cpu_clock:rusage"},
    {"works, auto", works_one_by_one, NULL, "cpu_clock:auto"},
    {"works, wall", works_one_by_one, NULL, "track_time:wall"},
    {"depth three", depth_three, NULL, NULL},
    {"out of order", out_of_order_and_again, NULL, NULL},
    {"attached", attached, NULL, NULL},
    {"for another", for_another, NULL, NULL},
    {"scopes", scopes, NULL, NULL},
    {"scopes, wall", scopes, NULL, "track_time:wall"},
    {"child outlives parent", child_outlives_parent, NULL, NULL},
    {"sum", sum_is_all, NULL, NULL},
    {"sum, thread", sum_is_all, NULL, "cpu_clock:thread"},
    {"sum, wall", sum_is_all, NULL, "track_time:wall"},
    {"names", names, NULL, NULL},
    {"names, auto", names, NULL, "cpu_clock:auto"},
    {"names, rseq", names, NULL, "cpu_clock:rseq"},
    {"names, thread", names, NULL, "cpu_clock:thread"},
    {"names, rusage", names, NULL, "cpu_clock:rusage"},
    {"names, wall", names, NULL, "track_time:wall"},
    {"names, wall, rusage", names, NULL, "track_time:wall,cpu_clock:rusage"},
    {"names, off", names, NULL, "track_time:off"},
    {"names, off, rusage", names, NULL, "track_time:off,cpu_clock:rusage"},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
