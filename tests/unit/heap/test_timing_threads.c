/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots while threads enter and exit as fast as they can. Times, opens and enters never fall, for a context and
 * for the sum. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "../../support/check.h"
#include "../../support/times.h"
#include "base/clock.h"
#include "jespan/jespan.h"
#include "malloc/track.h"
#include "snapshot/snapshot.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "thread_contexts:false,cpu_clock:thread";

/* Many contexts make a snapshot long, so it meets threads in all states. */
enum { THREADS = 3, CONTEXTS = 2000, SNAPSHOTS = 20, BUSY_CONTEXTS = 4 };
static jespan_span_t *spans[BUSY_CONTEXTS];
static jespan_context_t watched[BUSY_CONTEXTS];
static _Atomic bool stop;

static int boot(void **state)
{
    static const struct jespan_site site = {.name = "span"};
    (void)state;
    for (int i = 0; i < CONTEXTS; i++) {
        char text[8];
        const struct jespan_label number = {"n", text};
        snprintf(text, sizeof text, "%d", i);
        jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, &number, 1);
        int k = i % (CONTEXTS / BUSY_CONTEXTS) ? -1 : i / (CONTEXTS / BUSY_CONTEXTS);
        if (!span || jespan_enter(span))
            return -1;
        if (k >= 0) {
            spans[k] = span;
            watched[k] = jespan_current();
        }
        jespan_exit(span);
    }
    /* Then the length of a tick is fixed; see clock.h. */
    clock_scale();
    times_sleep(1200000000);
    clock_scale();
    return 0;
}

static void *hammer(void *unused)
{
    while (!stop)
        for (int i = 0; i < BUSY_CONTEXTS; i++) {
            jespan_enter(spans[i]);
            {
                JESPAN("scope");
                jespan_enter(spans[0]);
            }
            jespan_exit(spans[0]);
            jespan_exit(spans[i]);
            for (volatile int k = 0; k < 50000; k++) /* in another context, so finished times must stay the same */
                ;
        }
    return unused;
}

static struct totals of(const struct snapshot *s, int i)
{
    return i < BUSY_CONTEXTS ? snapshot_inclusive(s, (uint32_t)(snapshot_find(s, watched[i]) - s->rows)) : s->all;
}

static const struct {
    const char *name;
    size_t offset;
} members[] = {{"wall", offsetof(struct totals, wall)},
               {"busy", offsetof(struct totals, busy)},
               {"cpu", offsetof(struct totals, cpu)},
               {"opens", offsetof(struct totals, opens)},
               {"enters", offsetof(struct totals, enters)}};
enum { MEMBERS = sizeof members / sizeof *members, FIGURES = (BUSY_CONTEXTS + 1) * MEMBERS };
static unsigned decreases[MEMBERS];

static unsigned compare(const struct totals *before, const struct totals *after)
{
    unsigned n = 0;
    for (int m = 0; m < MEMBERS; m++)
        if (*(const uint64_t *)((const char *)after + members[m].offset) <
            *(const uint64_t *)((const char *)before + members[m].offset)) {
            decreases[m]++;
            n++;
        }
    return n;
}

static unsigned watch(void)
{
    struct totals before[BUSY_CONTEXTS + 1] = {{0}};
    unsigned n = 0;
    for (int round = 0; round < SNAPSHOTS; round++) {
        struct snapshot *s = snapshot_take();
        for (int i = 0; i <= BUSY_CONTEXTS; i++) {
            struct totals after = of(s, i);
            n += compare(&before[i], &after);
            before[i] = after;
        }
        snapshot_free(s);
    }
    return n;
}

static void *be_short(void *unused)
{
    jespan_enter(spans[1]);
    jespan_exit(spans[1]);
    return unused;
}

/* Thread blocks pass from thread to thread meanwhile. */
static void *come_and_go(void *unused)
{
    while (!stop) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, be_short, NULL) == 0)
            pthread_join(thread, NULL);
    }
    return unused;
}

/* A thread may be preempted after it has read the clock and before it has written the time. Then time that was already
 * shown for one context goes to the next one. That needs a preemption at just this place, so most series of snapshots
 * have none. */
static void nothing_is_taken_back(void **state)
{
    pthread_t threads[THREADS];
    unsigned clean = 0, windows = (unsigned)check_rounds("TIMING_WINDOWS", 100);
    (void)state;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i ? hammer : come_and_go, NULL), 0);
    for (unsigned i = 0; i < windows; i++)
        clean += !watch();
    stop = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int m = 0; m < MEMBERS; m++)
        if (decreases[m])
            print_message("%s went down %u times\n", members[m].name, decreases[m]);
    print_message("%u of %u series are clean\n", clean, windows);
    assert_int_equal(decreases[3] + decreases[4], 0);
    assert_true(4 * clean >= 3 * windows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_is_taken_back)};
    return cmocka_run_group_tests(tests, boot, NULL);
}
