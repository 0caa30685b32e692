/* SPDX-License-Identifier: BSD-2-Clause */
/* Spans on many threads: entered on several at once, handed from one to the next, closed on another thread, while
 * entered, or by the last of several owners, used after the close, carried by jobs of a pool, and inherited by new
 * threads. Every figure is as on one thread. No wrong use changes a figure, and nothing stays behind.
 *
 * ASYNC_THREADS: number of threads that inherit (10,000).
 */
#define _GNU_SOURCE
#include <pthread.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"
#include "../support/spans.h"
#include "api/inherit.h"

#define THREADS 8
#define ROUNDS 2000
#define MAX_CONTEXTS 256
#define OBJECT_BYTES 100

/* There are few contexts, so the test notices one that is never recycled. */
extern const char *jespan_conf;
const char *jespan_conf = "inherit:true,max_contexts:256";

JESPAN_SITE(site, "async");

static jespan_span_t *open_labelled(const char *what, unsigned number)
{
    char text[32];
    const struct jespan_label label = {"number", text};
    snprintf(text, sizeof text, "%s %u", what, number);
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, &label, 1);
    CHECK(span != NULL);
    return span;
}

static void start_all(pthread_t *threads, void *(*run)(void *), void *argument)
{
    for (int i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, run, argument), 0);
}

static void join_all(pthread_t *threads)
{
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void allocate_and_free(void)
{
    F(free)(opaque_pointer(F(malloc)(OBJECT_BYTES)));
}

static void check_figures(jespan_context_t id, uint64_t enters, uint64_t objects)
{
    CHECK_EQ(ctl_span(id, "enters"), enters);
    CHECK_EQ(ctl_span(id, "alloc_objects"), objects);
    CHECK_EQ(ctl_span(id, "alloc_requested_bytes"), objects * OBJECT_BYTES);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 0);
}

/* ---- One span on all threads at once ---- */

static pthread_barrier_t all_inside, all_outside;

static void *enter_at_once(void *span)
{
    for (int i = 0; i < ROUNDS; i++) {
        jespan_context_t outside = jespan_current();
        CHECK_EQ(jespan_enter(span), 0);
        allocate_and_free();
        if (i % 100 == 0)
            pthread_barrier_wait(&all_inside); /* all threads are inside */
        CHECK(jespan_current() != outside);
        CHECK_EQ(jespan_exit(span), 0);
        CHECK_EQ(jespan_current(), outside);
    }
    return NULL;
}

static void entered_at_once(void)
{
    pthread_t threads[THREADS];
    jespan_span_t *span = open_labelled("at once", 0);
    jespan_context_t id = spans_context(span);
    start_all(threads, enter_at_once, span);
    join_all(threads);
    check_figures(id, 1 + THREADS * ROUNDS, THREADS * ROUNDS);
    jespan_close(span);
}

/* ---- Spans that are handed on, and closed on the last thread ---- */

#define HANDED 64
static pthread_mutex_t hand_lock = PTHREAD_MUTEX_INITIALIZER;
static struct handed {
    jespan_span_t *span;
    jespan_context_t id;
    void *object;
    unsigned enters;
} handed[HANDED];

static struct handed hand(unsigned i, struct handed with)
{
    pthread_mutex_lock(&hand_lock);
    struct handed taken = handed[i];
    handed[i] = with;
    pthread_mutex_unlock(&hand_lock);
    return taken;
}

/* Takes a span that no thread has at the moment, works for it, and puts it anywhere, as a pool does with requests. It
 * frees an object that was allocated in this span on another thread. */
static void *hand_on(void *unused)
{
    unsigned at = (unsigned)(uintptr_t)&at >> 4;
    (void)unused;
    for (int i = 0; i < ROUNDS * 4; i++) {
        at = at * 1664525u + 1013904223u;
        struct handed h = hand((at >> 16) % HANDED, (struct handed){0});
        if (!h.span)
            continue;
        CHECK_EQ(jespan_enter(h.span), 0);
        CHECK_EQ(jespan_current(), h.id);
        F(free)(h.object);
        h.object = F(malloc)(OBJECT_BYTES);
        h.enters++;
        CHECK_EQ(jespan_exit(h.span), 0);
        unsigned to = (at >> 8) % HANDED;
        do
            h = hand(to++ % HANDED, h);
        while (h.span);
    }
    return NULL;
}

static void *close_handed(void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < HANDED; i++)
        jespan_close(handed[i].span);
    return NULL;
}

static void handed_on(void)
{
    pthread_t threads[THREADS], closer;
    uint64_t enters = 0;
    for (unsigned i = 0; i < HANDED / 2; i++) {
        handed[i].span = open_labelled("handed", i);
        handed[i].id = spans_context(handed[i].span);
    }
    start_all(threads, hand_on, NULL);
    join_all(threads);
    CHECK_EQ(pthread_create(&closer, NULL, close_handed, NULL), 0);
    pthread_join(closer, NULL);
    for (unsigned i = 0; i < HANDED; i++) {
        struct handed *h = &handed[i];
        if (!h->span)
            continue;
        CHECK_EQ(jespan_enter(h->span), EINVAL);
        CHECK_EQ(ctl_span(h->id, "inuse_objects"), h->object ? 1 : 0);
        F(free)(h->object);
        check_figures(h->id, h->enters + 1, h->enters);
        enters += h->enters;
    }
    CHECK(enters > ROUNDS);
}

/* ---- A span that is closed while entered, and used after that ---- */

static void *inside_a_closed_one(void *span)
{
    jespan_context_t outside = jespan_current();
    CHECK_EQ(jespan_exit(span), EPERM); /* not entered here */
    CHECK_EQ(jespan_enter(span), 0);
    jespan_context_t id = jespan_current();
    pthread_barrier_wait(&all_inside);
    pthread_barrier_wait(&all_outside); /* now it is closed */
    CHECK_EQ(jespan_current(), id);
    allocate_and_free();
    CHECK_EQ(jespan_enter(span), EINVAL);
    CHECK_EQ(jespan_current(), id);
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(jespan_current(), outside);
    CHECK_EQ(jespan_exit(span), EINVAL);
    CHECK_EQ(jespan_close(span), EINVAL); /* again, on all threads */
    CHECK_EQ(jespan_unref(span), EINVAL);
    CHECK_EQ(jespan_current(), outside);
    return NULL;
}

static void closed_while_entered(void)
{
    pthread_t threads[THREADS];
    jespan_span_t *span = open_labelled("closed", 0);
    jespan_context_t id = spans_context(span);
    pthread_barrier_init(&all_inside, NULL, THREADS + 1);
    start_all(threads, inside_a_closed_one, span);
    pthread_barrier_wait(&all_inside);
    jespan_close(span);
    pthread_barrier_wait(&all_outside);
    join_all(threads);
    pthread_barrier_destroy(&all_inside);
    pthread_barrier_init(&all_inside, NULL, THREADS);
    check_figures(id, 1 + THREADS, THREADS);
}

/* ---- A span of many owners, which the last one closes ---- */

static atomic_uint closers;

static void *own(void *span)
{
    for (int i = 0; i < ROUNDS; i++) {
        CHECK_EQ(jespan_ref(span), 0);
        CHECK_EQ(jespan_enter(span), 0);
        allocate_and_free();
        CHECK_EQ(jespan_unref(span), 0);
        CHECK_EQ(jespan_exit(span), 0);
    }
    CHECK_EQ(jespan_unref(span), 0); /* the reference that was taken for this thread */
    return NULL;
}

static void *close_once(void *span)
{
    atomic_fetch_add(&closers, jespan_close(span) == 0);
    return NULL;
}

static void many_owners(void)
{
    pthread_t threads[THREADS];
    jespan_span_t *span = open_labelled("owned", 0);
    jespan_context_t id = spans_context(span);
    for (int i = 0; i < THREADS - 1; i++)
        CHECK_EQ(jespan_ref(span), 0);
    start_all(threads, own, span);
    join_all(threads);
    CHECK_EQ(jespan_enter(span), EINVAL);
    CHECK_EQ(jespan_ref(span), EINVAL);
    check_figures(id, 1 + THREADS * ROUNDS, THREADS * ROUNDS);

    span = open_labelled("closed by all", 0);
    start_all(threads, close_once, span);
    join_all(threads);
    CHECK_EQ(closers, 1);
}

/* ---- A span that is closed while others try to enter it ---- */

static _Atomic(jespan_span_t *) current_span;
static atomic_bool stop;
static _Atomic uint64_t entered;

static void *race_to_enter(void *unused)
{
    (void)unused;
    jespan_context_t outside = jespan_current();
    while (!atomic_load(&stop)) {
        jespan_span_t *span = atomic_load(&current_span);
        int error = jespan_enter(span);
        if (error) {
            CHECK_EQ(error, EINVAL);
            int result = jespan_exit(span);
            CHECK(result == EINVAL || result == EPERM);
        } else {
            allocate_and_free();
            CHECK(jespan_current() != outside);
            CHECK_EQ(jespan_exit(span), 0);
            atomic_fetch_add(&entered, 1);
        }
        CHECK_EQ(jespan_current(), outside);
    }
    return NULL;
}

static void closed_by_surprise(void)
{
    pthread_t threads[THREADS];
    atomic_store(&current_span, open_labelled("surprise", 0));
    start_all(threads, race_to_enter, NULL);
    for (unsigned i = 1; i < ROUNDS * 4; i++)
        jespan_close(atomic_exchange(&current_span, open_labelled("surprise", i)));
    while (atomic_load(&entered) < ROUNDS)
        sched_yield();
    atomic_store(&stop, true);
    join_all(threads);
    jespan_close(atomic_load(&current_span));
}

/* ---- Jobs that carry a context, which their own memory keeps in use ---- */

static struct job {
    jespan_context_t context;
    unsigned number;
} *jobs[HANDED];

static struct job *exchange_job(unsigned i, struct job *with)
{
    pthread_mutex_lock(&hand_lock);
    struct job *taken = jobs[i % HANDED];
    jobs[i % HANDED] = with;
    pthread_mutex_unlock(&hand_lock);
    return taken;
}

/* The span is opened, entered, exited and closed here. The job goes on in its context. */
static struct job *make_job(unsigned number)
{
    jespan_span_t *span = open_labelled("job", number);
    CHECK_EQ(jespan_enter(span), 0);
    struct job *job = F(malloc)(sizeof *job);
    *job = (struct job){jespan_current(), number};
    CHECK_EQ(jespan_exit(span), 0);
    jespan_close(span);
    return job;
}

static void run_job(struct job *job)
{
    jespan_context_t previous = jespan_attach(job->context);
    CHECK(previous != JESPAN_INVALID);
    CHECK_EQ(jespan_current(), job->context);
    CHECK_EQ(ctl_span(job->context, "inuse_objects"), 1); /* the job: the number has not gone to another context */
    allocate_and_free();
    CHECK_EQ(jespan_attach(previous), job->context);
    CHECK_EQ(jespan_current(), previous);
    F(free)(job);
}

static void *make_and_run(void *number)
{
    unsigned first = atomic_fetch_add((atomic_uint *)number, ROUNDS);
    for (unsigned i = first; i < first + ROUNDS; i++) {
        struct job *job = exchange_job(i * 7, make_job(i));
        if (job)
            run_job(job);
    }
    return NULL;
}

static void carried_by_jobs(void)
{
    static atomic_uint next;
    pthread_t threads[THREADS];
    start_all(threads, make_and_run, &next);
    join_all(threads);
    for (unsigned i = 0; i < HANDED; i++)
        if (jobs[i])
            run_job(jobs[i]);
}

/* ---- Threads that inherit ---- */

static atomic_uint not_run;

static void *check_inherited(void *expected)
{
    CHECK_EQ(jespan_current(), (uintptr_t)expected);
    allocate_and_free();
    atomic_fetch_sub(&not_run, 1);
    return NULL;
}

/* The thread's argument is the number of its context. The label is new each time, so numbers are used again. Threads
 * are detached from the start, since pthread_detach() of a thread that ends meanwhile may crash (glibc's bug 19951). */
static void *create_many(void *next)
{
    pthread_attr_t detached;
    uint64_t n = check_rounds("ASYNC_THREADS", 10000) / THREADS;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    for (uint64_t i = 0; i < n; i++) {
        pthread_t thread;
        jespan_span_t *span = open_labelled("inherited", atomic_fetch_add((atomic_uint *)next, 1));
        CHECK_EQ(jespan_enter(span), 0);
        atomic_fetch_add(&not_run, 1);
        CHECK_EQ(F(pthread_create)(&thread, i % 3 ? NULL : &detached, check_inherited,
                                   (void *)(uintptr_t)jespan_current()), 0);
        CHECK_EQ(jespan_exit(span), 0);
        jespan_close(span);
        if (i % 3)
            pthread_join(thread, NULL);
    }
    pthread_attr_destroy(&detached);
    return NULL;
}

static void inherited(void)
{
    static atomic_uint next;
    pthread_t threads[THREADS];
    start_all(threads, create_many, &next);
    join_all(threads);
}

/* ---- And then ---- */

/* Detached threads start and end when they like. */
static void wait_for_threads(void)
{
    while (atomic_load(&not_run) || ctl_u64("spans.stats.threads") > 1)
        usleep(1000);
}

/* Returns the number of contexts with live memory. libc keeps the stacks of ended threads, with the memory that it
 * allocated for them. */
static unsigned other_holders(void)
{
    uint32_t ids[MAX_CONTEXTS];
    size_t bytes = sizeof ids;
    unsigned n = 0;
    ctl_refresh();
    CHECK_EQ(F(mallctl)("spans.ids", ids, &bytes, NULL, 0), 0);
    for (size_t i = 0; i < bytes / sizeof *ids; i++)
        n += !strcmp(ctl_span_text(ids[i], "kind"), "span") && ctl_span(ids[i], "inuse_objects") > 0;
    return n;
}

/* The number of contexts that can be made: all (0 is no number) without the root, (jespan), (unsampled) and this
 * thread's. */
#define ALWAYS_IN_USE 5
static unsigned room(void)
{
    static jespan_span_t *spans[MAX_CONTEXTS];
    unsigned n = 0;
    for (; n < MAX_CONTEXTS; n++) {
        spans[n] = open_labelled("room", n);
        if (ctl_u64("spans.stats.overflow") > 0)
            break;
    }
    for (unsigned i = 0; i <= n && i < MAX_CONTEXTS; i++)
        jespan_close(spans[i]);
    return n;
}

int main(void)
{
    pthread_barrier_init(&all_inside, NULL, THREADS);
    pthread_barrier_init(&all_outside, NULL, THREADS + 1);
    entered_at_once();
    handed_on();
    closed_while_entered();
    many_owners();
    closed_by_surprise();
    carried_by_jobs();
    inherited();
    wait_for_threads();
    CHECK_EQ(ctl_u64("spans.stats.overflow"), 0);
    unsigned holders = other_holders();
    CHECK(holders <= 2 * THREADS);
    CHECK_EQ(room(), MAX_CONTEXTS - ALWAYS_IN_USE - holders);
    ctl_check_identity("the end");
    return check_result();
}
