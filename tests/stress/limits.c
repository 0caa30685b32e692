/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits come, change and go, nested, on contexts in which threads allocate at that moment, with forks in between. Each
 * refusal is counted once, a context without a limit is never refused, and nothing is left at the end.
 *
 * LIMITS_ROUNDS: requests of each thread (20,000; with a sanitizer 500).
 */
#define _GNU_SOURCE
#include <jespan/limit.h>

#include <pthread.h>
#include <stdatomic.h>

#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/many_locks.h"

enum { THREADS = 4, GROUPS = 20, TENANTS = 400, FREE_TENANTS = 50, TABLE = 512, BYTES_MAX = 5000 };

JESPAN_SITE(group_site, "group");
JESPAN_SITE(tenant_site, "tenant");

/* A tenant is below a group. The first FREE_TENANTS are below no group, and never have a limit. */
static jespan_context_t groups[GROUPS], tenants[TENANTS];
static jespan_span_t *group_spans[GROUPS], *tenant_spans[TENANTS];
static _Atomic(void *) table[TABLE]; /* objects that any thread takes out and frees */
static atomic_ullong refused;
static atomic_bool over;
static bool has_soft = true;

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static jespan_span_t *open_numbered(const struct jespan_site *site, jespan_context_t parent, unsigned number, jespan_context_t *context)
{
    const struct jespan_label label = JESPAN_LABEL_INT("n", number);
    jespan_span_t *span = jespan_open(site, parent, &label, 1);
    CHECK(span != NULL);
    CHECK_EQ(jespan_enter(span), 0);
    *context = jespan_current();
    CHECK_EQ(jespan_exit(span), 0);
    return span;
}

static void open_all(void)
{
    for (unsigned i = 0; i < GROUPS; i++)
        group_spans[i] = open_numbered(&group_site, JESPAN_ROOT, i, &groups[i]);
    for (unsigned i = 0; i < TENANTS; i++)
        tenant_spans[i] = open_numbered(&tenant_site, i < FREE_TENANTS ? JESPAN_ROOT : groups[i % GROUPS], i, &tenants[i]);
}

static void close_all(void)
{
    for (unsigned i = 0; i < TENANTS; i++)
        CHECK_EQ(jespan_close(tenant_spans[i]), 0);
    for (unsigned i = 0; i < GROUPS; i++)
        CHECK_EQ(jespan_close(group_spans[i]), 0);
}

static void keep(void *p, uint64_t place)
{
    F(free)(atomic_exchange(&table[place % TABLE], p));
}

static void request(uint64_t *state)
{
    uint64_t r = next(state), n = r % TENANTS;
    JESPAN_CREDIT(tenants[n]);
    JESPAN("request");
    for (unsigned i = 0; i < 4; i++) {
        void *p = F(malloc)(1 + next(state) % BYTES_MAX);
        if (p)
            keep(p, next(state));
        else if (n < FREE_TENANTS)
            check_fail("tenant %u, which has no limit, was refused", (unsigned)n);
        else
            refused++;
    }
}

/* The limit is often so small that it refuses, and sometimes there is none. */
static void set_some_limit(uint64_t *state)
{
    static const uint64_t bounds[] = {0, 1, 10000, 100000, 1 << 20, 1 << 30};
    uint64_t r = next(state), hard = bounds[r % 6];
    jespan_context_t context =
        r & 64 ? groups[(r >> 8) % GROUPS] : tenants[FREE_TENANTS + (r >> 8) % (TENANTS - FREE_TENANTS)];
    CHECK_EQ(jespan_set_limit(context, has_soft && r & 128 ? hard / 2 : 0, hard), 0);
}

static void set_all_limits(void)
{
    for (unsigned i = 0; i < GROUPS; i++)
        CHECK_EQ(jespan_set_limit(groups[i], 0, 100000), 0);
    for (unsigned i = FREE_TENANTS; i < TENANTS; i++)
        CHECK_EQ(jespan_set_limit(tenants[i], 0, 50000), 0);
}

static void remove_limits(void)
{
    for (unsigned i = 0; i < TENANTS; i++)
        CHECK_EQ(jespan_set_limit(tenants[i], 0, 0), 0);
    for (unsigned i = 0; i < GROUPS; i++)
        CHECK_EQ(jespan_set_limit(groups[i], 0, 0), 0);
}

/* One thread sets a limit for each tenant first. Meanwhile the other threads sum up the bytes below a group. */
static void *work(void *number)
{
    uint64_t state = (uintptr_t)number + 1;
    bool is_setter = (uintptr_t)number == THREADS - 1;
    if (is_setter)
        set_all_limits();
    for (uint64_t i = check_rounds("LIMITS_ROUNDS", FAMILY_INTERPOSED ? 20000 : 500); i--;) {
        request(&state);
        if (is_setter && i % 4 == 0)
            set_some_limit(&state);
    }
    return NULL;
}

static void *work_until_over(void *number)
{
    uint64_t state = (uintptr_t)number + 1;
    while (!over) {
        request(&state);
        set_some_limit(&state);
    }
    return NULL;
}

static atomic_ullong told;

static void count_events(const struct jespan_limit_event *event, void *unused)
{
    (void)unused;
    CHECK(event->limit_bytes > 0 || event->kind != JESPAN_LIMIT_SOFT);
    told++;
}

static void start(pthread_t threads[THREADS], void *(*run)(void *))
{
    open_all();
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, run, (void *)i), 0);
}

static void join(const pthread_t threads[THREADS])
{
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
}

static void check_all(void)
{
    CHECK(refused > 0);
    CHECK_EQ(ctl_u64("spans.stats.limit_refusals"), refused);
    for (unsigned i = 0; i < GROUPS; i++)
        if (ctl_span(groups[i], "limit_hard"))
            CHECK_EQ(ctl_span(groups[i], "limit_inuse_bytes"), ctl_span(groups[i], "total.inuse_bytes"));
    remove_limits();
    CHECK_EQ(ctl_u64("spans.stats.limits"), 0);
    for (uint64_t i = 0; i < TABLE; i++)
        keep(NULL, i);
    for (unsigned i = 0; i < TENANTS; i++)
        CHECK_EQ(ctl_span(tenants[i], "total.inuse_objects"), 0);
    ctl_await_identity("the end");
    close_all();
}

static void threads(void)
{
    pthread_t thread[THREADS];
    CHECK_EQ(jespan_set_limit_callback(count_events, NULL), 0);
    start(thread, work);
    join(thread);
    check_all();
    CHECK(told > 0);
}

/* A child has the limits of its parent and can set others, whatever other threads were doing. Without libjespan's
 * handlers around fork, there must be no thread that watches soft limits. */
static void forks(void)
{
    pthread_t thread[THREADS];
    uint64_t state = 99;
    has_soft = FAMILY_INTERPOSED;
    if (has_soft)
        CHECK_EQ(jespan_set_limit_callback(count_events, NULL), 0);
    start(thread, work_until_over);
    for (int i = 0; i < (FAMILY_INTERPOSED ? 50 : 5); i++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (int k = 0; k < 200; k++) {
                request(&state);
                set_some_limit(&state);
            }
            remove_limits();
            CHECK_EQ(ctl_u64("spans.stats.limits"), 0);
            _exit(check_failures != 0);
        }
        CHECK_CHILD(pid);
        request(&state);
    }
    over = true;
    join(thread);
    check_all();
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"threads", threads, NULL, NULL},
        {"threads, with periods", threads, NULL, "age_period_s:1"},
        {"threads, with arenas", threads, NULL, "arena:tenant=by:n,max_arenas:20"},
        {"forks", forks, "narenas:1", NULL},
    };
    return cases_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
