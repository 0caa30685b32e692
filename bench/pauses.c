/* SPDX-License-Identifier: BSD-2-Clause */
/* Measures how long snapshots delay a thread that allocates, or one that opens labelled spans.
 *
 * A worker enters a context, allocates, frees and exits; or it opens a span with a label, enters, exits and closes. It
 * reads the clock, and repeats. A gap is the time between
 * two readings. The main thread takes snapshots for one window, then spins for one window, in turns, so that other
 * load affects both alike. A window has at least two snapshots. A gap in which the scheduler took the processor away
 * is left out; a gap that waits for a lock counts. Interrupts make long gaps in some windows, so the result is the
 * median of the longest gap of each window.
 */
#define _GNU_SOURCE
#include "contexts.h"
#include "workload.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>

#define WINDOWS 30 /* of each kind */
#define WINDOW_LEAST_NS 5000000u
#define SWITCH_LEAST_NS 10000u /* no shorter gap has another process in it */
#define SLOTS 65536            /* a nanosecond each; longer gaps count in the last */

struct window_kind {
    uint64_t longest_ns[WINDOWS];
    uint64_t gaps[SLOTS]; /* number of gaps by length */
};

struct pauses {
    struct contexts *contexts;
    void (*step)(struct contexts *c, uint32_t which);
    _Atomic unsigned window; /* the present one. Even windows have snapshots, odd ones none. 2 * WINDOWS: the end */
    struct window_kind kinds[2];
};

static void note(struct pauses *p, unsigned window, uint64_t gap_ns)
{
    struct window_kind *kind = &p->kinds[window % 2];
    uint64_t *longest_ns = &kind->longest_ns[window / 2];
    kind->gaps[gap_ns < SLOTS ? gap_ns : SLOTS - 1]++;
    *longest_ns = gap_ns > *longest_ns ? gap_ns : *longest_ns;
}

/* Whether the scheduler took the processor from this thread since the last call. */
static bool was_preempted(long *switches)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    bool more = usage.ru_nivcsw != *switches;
    *switches = usage.ru_nivcsw;
    return more;
}

static void *work(void *argument)
{
    struct pauses *p = argument;
    long switches = 0;
    uint64_t random = BENCH_SEED, last_ns = bench_now_ns(CLOCK_MONOTONIC);
    for (unsigned window; (window = atomic_load_explicit(&p->window, memory_order_relaxed)) < 2 * WINDOWS;) {
        p->step(p->contexts, bench_below(bench_random(&random), p->contexts->count));
        uint64_t gap_ns = bench_now_ns(CLOCK_MONOTONIC) - last_ns;
        if (gap_ns < SWITCH_LEAST_NS || !was_preempted(&switches)) {
            note(p, window, gap_ns);
        }
        last_ns = bench_now_ns(CLOCK_MONOTONIC);
    }
    return NULL;
}

static void take_snapshots(uint64_t start_ns)
{
    snapshot();
    do {
        snapshot();
    } while (bench_now_ns(CLOCK_MONOTONIC) - start_ns < WINDOW_LEAST_NS);
}

static void run_windows(struct pauses *p)
{
    uint64_t length_ns = 0;
    for (unsigned i = 0; i < 2 * WINDOWS; i++) {
        uint64_t start_ns = bench_now_ns(CLOCK_MONOTONIC);
        atomic_store_explicit(&p->window, i, memory_order_relaxed);
        if (i % 2 == 0) {
            take_snapshots(start_ns);
            length_ns = bench_now_ns(CLOCK_MONOTONIC) - start_ns;
        }
        while (bench_now_ns(CLOCK_MONOTONIC) - start_ns < length_ns) {
        }
    }
    atomic_store_explicit(&p->window, 2 * WINDOWS, memory_order_relaxed);
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double median_longest_us(struct window_kind *kind)
{
    qsort(kind->longest_ns, WINDOWS, sizeof kind->longest_ns[0], compare);
    return (double)kind->longest_ns[WINDOWS / 2] / 1e3;
}

/* The length that one gap in a thousand exceeds. */
static double long_us(const struct window_kind *kind)
{
    uint64_t all = 0, longer = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        all += kind->gaps[i];
    }
    size_t slot = SLOTS;
    while (slot > 0 && longer <= all / 1000) {
        longer += kind->gaps[--slot];
    }
    return (double)slot / 1e3;
}

static struct bench_result pauses_of(const void *shape, void (*step)(struct contexts *, uint32_t))
{
    struct crowd crowd;
    crowd_gather(&crowd, shape);
    struct pauses *p = bench_array(sizeof *p);
    p->contexts = crowd.contexts;
    p->step = step;
    pthread_t worker;
    if (pthread_create(&worker, NULL, work, p)) {
        bench_fail("cannot start a thread");
    }
    run_windows(p);
    pthread_join(worker, NULL);
    struct bench_result result = {{{"snapshots_max", median_longest_us(&p->kinds[0])},
                                   {"snapshots_p999", long_us(&p->kinds[0])},
                                   {"quiet_max", median_longest_us(&p->kinds[1])},
                                   {"quiet_p999", long_us(&p->kinds[1])}}};
    bench_array_free(p, sizeof *p);
    crowd_leave(&crowd);
    return result;
}

struct bench_result snapshot_pauses(const void *shape)
{
    return pauses_of(shape, contexts_visit);
}

struct bench_result snapshot_pauses_of_opens(const void *shape)
{
    return pauses_of(shape, contexts_open);
}
