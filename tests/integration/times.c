/* SPDX-License-Identifier: BSD-2-Clause */
/* Times of contexts, compared with independent clocks: every kind of work with every clock, and the answers when a
 * clock is missing. Several spans are in times_order.c, several threads in times_threads.c. */
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
#define CONVERSION_NS 1000

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

/* Runs more threads than there are processors. This thread gets the least time of all. */
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
    pthread_setschedparam(pthread_self(), SCHED_OTHER, &none); /* may fail without the right to do so, which does not matter */
    end_competition(threads);
}

/* The program sets or clears the pointer of rseq(2). Then jespan's pointer is gone although the thread never left its
 * processor, and the pointer does not show when the thread leaves it. */
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

/* The kernel takes time for interrupts, and a hypervisor takes time for other machines. That is no CPU time of this
 * thread, but the clock counts it while the pointer stands. So the test tries again: a later try finds a quieter
 * moment. */
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
    if (split_is_known()) /* the three are converted from ticks by themselves */
        CHECK_BETWEEN(f->user + f->system, f->cpu - CONVERSION_NS, f->cpu + CONVERSION_NS);
    else
        CHECK_EQ(f->user + f->system, 0);
    CHECK_EQ(ctl_span(id, "opens"), 1);
    return cpu_is_right(f, b);
}

/* Each kind of work has its own site, and so its own context. */
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
            check_fail("%s: CPU %llu ns, user %llu, system %llu; by the clocks from %llu to %llu, %llu, %llu",
                       work->name, (unsigned long long)f.cpu, (unsigned long long)f.user, (unsigned long long)f.system,
                       (unsigned long long)times_inner(&b, CPU), (unsigned long long)times_outer(&b, CPU),
                       (unsigned long long)times_outer(&b, USER), (unsigned long long)times_outer(&b, SYSTEM));
    }
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
