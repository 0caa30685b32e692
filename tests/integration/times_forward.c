/* SPDX-License-Identifier: BSD-2-Clause */
/* Times that mallctl gives never go back, with more threads than processors. The number of open spans is right. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <jespan/jespan.h>

#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/own_rseq.h"
#include "../support/spans.h"
#include "../support/times.h"

#define MS 1000000u
#define WORKERS 6
#define READINGS 300

static atomic_bool over;
static jespan_span_t *top;

static void go_down(unsigned depth)
{
    JESPAN("level");
    if (depth)
        go_down(depth - 1);
    else
        times_spin(MS / 100);
}

static void *work(void *number)
{
    unsigned n = (unsigned)(uintptr_t)number;
    while (!atomic_load(&over)) {
        CHECK_EQ(jespan_enter(top), 0);
        for (unsigned i = 0; i < 20; i++)
            go_down((n + i) % 5);
        CHECK_EQ(jespan_exit(top), 0);
        if (n % 2)
            times_sleep(MS / 10);
    }
    return NULL;
}

static const char *const leaves[] = {"wall_ns", "idle_ns", "busy_ns", "cpu_ns", "total.wall_ns", "total.idle_ns"};

struct seen {
    uint64_t last[MEMBERS(leaves)];
};

static void look(struct seen *seen, const char *of)
{
    for (size_t i = 0; i < MEMBERS(leaves); i++) {
        char name[64];
        snprintf(name, sizeof name, "spans.%s.%s", of, leaves[i]);
        if (!strcmp(of, "all") && !strncmp(leaves[i], "total", 5))
            continue;
        uint64_t now = ctl_u64(name);
        if (now < seen->last[i])
            check_fail("%s went back by %llu ns", name, (unsigned long long)(seen->last[i] - now));
        seen->last[i] = now;
    }
}

static void figures_go_forward(void)
{
    static struct seen of_top, of_root, of_level, of_all;
    pthread_t threads[WORKERS];
    char id[16], level[16];
    top = spans_open("top", -1, JESPAN_ROOT);
    CHECK_EQ(jespan_enter(top), 0);
    snprintf(id, sizeof id, "%u", jespan_current());
    {
        JESPAN("below");
        snprintf(level, sizeof level, "%u", jespan_current());
    }
    CHECK_EQ(jespan_exit(top), 0);
    for (uintptr_t i = 0; i < WORKERS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (unsigned i = 0; i < READINGS; i++) {
        look(&of_top, id);
        look(&of_root, "1");
        look(&of_level, level);
        look(&of_all, "all");
    }
    atomic_store(&over, true);
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    jespan_close(top);
}

/* ---- User and system time ---- */

static _Atomic jespan_context_t parts_id;

/* Most of its time is system time, and the kernel is asked for it only every 20 ms or so. */
static void *work_in_kernel(void *unused)
{
    static char bytes[1 << 20];
    FILE *zeros = fopen("/dev/zero", "r");
    JESPAN("parts");
    atomic_store(&parts_id, jespan_current());
    while (!atomic_load(&over)) {
        for (int i = 0; i < 500 && !atomic_load(&over); i++)
            CHECK(read(fileno(zeros), bytes, sizeof bytes) == sizeof bytes);
        JESPAN("below");
        times_spin(MS);
    }
    fclose(zeros);
    return unused;
}

static void parts_go_forward(void)
{
    static const char *const parts[] = {"cpu_user_ns", "cpu_system_ns", "total.cpu_user_ns", "total.cpu_system_ns"};
    uint64_t last[MEMBERS(parts)] = {0};
    jespan_context_t id;
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, work_in_kernel, NULL), 0);
    while (!(id = atomic_load(&parts_id)))
        sched_yield();
    do
        for (size_t i = 0; i < MEMBERS(parts); i++) {
            uint64_t now = ctl_span(id, parts[i]);
            if (now < last[i])
                check_fail("%s went back by %llu ns", parts[i], (unsigned long long)(last[i] - now));
            last[i] = now;
        }
    while (ctl_span(id, "cpu_ns") < 500 * MS);
    atomic_store(&over, true);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    uint64_t sum = ctl_span(id, "cpu_user_ns") + ctl_span(id, "cpu_system_ns");
    CHECK_BETWEEN(sum, ctl_span(id, "cpu_ns") - MS / 1000, ctl_span(id, "cpu_ns") + MS / 1000); /* converted one by one */
    CHECK(ctl_span(id, "cpu_system_ns") > 0);
}

static void blocks_in_blocks(unsigned depth, jespan_context_t id)
{
    const struct jespan_site site = {.name = "again"};
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, NULL, 0);
    CHECK_EQ(ctl_span(id, "open"), depth + 1);
    if (depth < 3)
        blocks_in_blocks(depth + 1, id);
    jespan_close(span);
    CHECK_EQ(ctl_span(id, "open"), depth);
}

static void open_now(void)
{
    const struct jespan_site site = {.name = "again"};
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, NULL, 0);
    jespan_context_t id = spans_context(span);
    CHECK_EQ(ctl_span(id, "open"), 1);
    CHECK_EQ(jespan_enter(span), 0);
    CHECK_EQ(jespan_enter(span), 0);
    CHECK_EQ(ctl_span(id, "open"), 1); /* the span was entered twice, and is one span */
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(jespan_close(span), 0);
    CHECK_EQ(ctl_span(id, "open"), 0);
    blocks_in_blocks(0, id);
    {
        JESPAN("block");
        id = jespan_current();
        CHECK_EQ(ctl_span(id, "open"), 1);
    }
    CHECK_EQ(ctl_span(id, "open"), 0);
}

/* The program gives the kernel's registration to an area of its own. From then on, sleep is not counted as CPU time. */
static void rseq_given_up(void)
{
#ifdef RSEQ_SIG
    {
        JESPAN("before");
        times_sleep(1);
    }
    uint64_t lost = ctl_u64("spans.stats.cpu_clocks_lost");
    struct rseq *area = own_rseq_area();
    if (!area || syscall(SYS_rseq, area, __rseq_size > 32 ? __rseq_size : 32, 1 /* RSEQ_FLAG_UNREGISTER */, RSEQ_SIG))
        return; /* there is nothing to give up */
    ctl_refresh();
    jespan_context_t id;
    {
        JESPAN("asleep");
        id = jespan_current();
        uint64_t begin = times_ns(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < 20; i++) {
            JESPAN("asleep");
            times_sleep(5 * MS);
        }
        begin = times_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
        CHECK(begin < 50 * MS);
    }
    char name[64];
    snprintf(name, sizeof name, "spans.%u.total.cpu_ns", id);
    CHECK(ctl_u64(name) < 60 * MS);
    CHECK_EQ(ctl_u64("spans.stats.cpu_clocks_lost"), lost + 1);
#endif
}

static const struct test_case cases[] = {
    {"figures go forward", figures_go_forward, NULL, NULL},
    {"figures go forward, thread", figures_go_forward, NULL, "cpu_clock:thread"},
    {"parts go forward", parts_go_forward, NULL, "cpu_clock:rusage"},
    {"open now", open_now, NULL, NULL},
    {"open now, ages", open_now, NULL, "age_period_s:1"},
    {"rseq given up", rseq_given_up, NULL, NULL},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
