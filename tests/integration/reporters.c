/* SPDX-License-Identifier: BSD-2-Clause */
/* Reporters in a real program: at its end, in its children, with 2,000,000 spans. Cases with long names are named
 * after the failure of another tool. Modules are in reporter_modules.sh. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/maps.h"
#include "../support/told.h"

enum { PATIENCE_MS = 600000, THREADS = 4 };

/* The figures that the reporter was told, and the true ones at shutdown. A forked child shares this memory with its
 * parent. */
struct shared {
    struct told told;
    struct jespan_allocations expected;
    uint64_t expected_enters;
};
static struct shared *shared;
static struct told other;

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static jespan_registration_t *add(struct told *t, uint64_t interval_ms)
{
    struct jespan_reporter r = told_reporter(t, "test");
    jespan_registration_t *handle = jespan_register_reporter(&r, interval_ms);
    CHECK(handle != NULL);
    return handle;
}

static void check_promises(const struct told *t)
{
    if (t->wrong)
        check_fail("broken: %s", t->wrong);
}

static void read_figures(struct shared *s)
{
    s->expected = (struct jespan_allocations){
        .alloc_objects = ctl_u64("spans.all.alloc_objects"), .alloc_bytes = ctl_u64("spans.all.alloc_bytes"),
        .alloc_requested_bytes = ctl_u64("spans.all.alloc_requested_bytes"),
        .free_objects = ctl_u64("spans.all.free_objects"), .free_bytes = ctl_u64("spans.all.free_bytes")};
    s->expected_enters = ctl_u64("spans.all.enters");
}

static void check_all_was_told(const struct shared *s)
{
    CHECK_EQ(s->told.allocations.alloc_objects, s->expected.alloc_objects);
    CHECK_EQ(s->told.allocations.alloc_bytes, s->expected.alloc_bytes);
    CHECK_EQ(s->told.allocations.alloc_requested_bytes, s->expected.alloc_requested_bytes);
    CHECK_EQ(s->told.allocations.free_objects, s->expected.free_objects);
    CHECK_EQ(s->told.allocations.free_bytes, s->expected.free_bytes);
    CHECK_EQ(s->told.wall.enters, s->expected_enters);
    CHECK_EQ(s->told.heap_objects, s->expected.alloc_objects - s->expected.free_objects);
    CHECK_EQ(s->told.heap_bytes, s->expected.alloc_bytes - s->expected.free_bytes);
    check_promises(&s->told);
}

static void shutdown_and_look(void *user)
{
    told_shutdown(user);
    read_figures(shared);
}

static void request(unsigned n)
{
    char text[16];
    snprintf(text, sizeof text, "%u", n);
    JESPAN("request", "number", text);
    void *p = opaque_pointer(malloc(100 + n % 1000));
    if (n % 1000)
        free(p);
}

static void *requests(void *from)
{
    for (unsigned n = 0; n < 2000; n++)
        request((unsigned)(uintptr_t)from + n);
    return NULL;
}

static void run_threads(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, requests, (void *)(i * 2000)), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Returns the status of a child that calls `act` and then exits. */
static int in_child(void (*act)(void))
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        act();
        exit(check_result());
    }
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    return status;
}

/* ---- The end ---- */

static void report_for_long(void)
{
    struct jespan_reporter r = told_reporter(&shared->told, "test");
    r.shutdown = shutdown_and_look;
    CHECK(jespan_register_reporter(&r, 3600000) != NULL);
    CHECK_EQ(jespan_flush_reporters(PATIENCE_MS), 0);
    run_threads();
}

static void the_tail_at_shutdown_is_lost(void)
{
    CHECK_EQ(in_child(report_for_long), 0);
    CHECK_EQ(shared->told.shutdowns, 1);
    CHECK_EQ(shared->told.rounds, 2);
    CHECK(shared->expected.alloc_objects > THREADS * 2000);
    check_all_was_told(shared);
}

static void report_without_end(void)
{
    struct jespan_reporter r = told_reporter(&shared->told, "stuck");
    shared->told.stuck = true;
    add(&other, 1);
    CHECK(jespan_register_reporter(&r, 1) != NULL);
    while (!shared->told.rounds)
        told_sleep_ms(1);
    int devnull = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(devnull, STDERR_FILENO);
}

static void exit_waits_for_nobody_longer_than_configured(void)
{
    uint64_t began = now_ms();
    CHECK_EQ(in_child(report_without_end), 0);
    uint64_t took = now_ms() - began;
    if (took < 300)
        check_fail("it took %llu ms", (unsigned long long)took);
    CHECK_EQ(shared->told.shutdowns, 0);
}

static int exit_in_flush(void *user)
{
    told_flush(user);
    exit(3);
}

static void report_and_exit(void)
{
    struct jespan_reporter r = told_reporter(&shared->told, "test");
    r.flush = exit_in_flush;
    CHECK(jespan_register_reporter(&r, 0) != NULL);
    jespan_flush_reporters(PATIENCE_MS);
    check_fail("it came back");
}

static void a_callback_that_exits_ends_the_program(void)
{
    CHECK_EQ(in_child(report_and_exit), 3 << 8);
}

/* ---- Errors, and memory ---- */

static uint64_t own_bytes(void)
{
    return ctl_u64("spans.stats.meta_bytes") + ctl_u64("spans.stats.map_bytes");
}

static void pass(unsigned from, unsigned to)
{
    for (unsigned n = from; n < to; n++) {
        char text[16];
        snprintf(text, sizeof text, "%u", n);
        JESPAN("request", "number", text);
        free(opaque_pointer(malloc(100 + n % 1000)));
    }
}

/* While a reporter works, all spans take no more memory than the first ones. Snapshots come and go, so the bound has
 * some slack. */
static void check_memory_stays(unsigned spans)
{
    pass(0, 100000);
    CHECK_EQ(jespan_flush_reporters(PATIENCE_MS), 0);
    uint64_t own = own_bytes(), rss = rss_bytes();
    pass(100000, spans);
    CHECK_EQ(jespan_flush_reporters(PATIENCE_MS), 0);
    if (own_bytes() > own + ((uint64_t)2 << 20) || rss_bytes() > rss + ((uint64_t)4 << 20))
        check_fail("own memory went from %llu to %llu, RSS from %llu to %llu", (unsigned long long)own,
                   (unsigned long long)own_bytes(), (unsigned long long)rss, (unsigned long long)rss_bytes());
}

static void unbounded_queues(void)
{
    shared->told.flush_ms = 50;
    jespan_registration_t *handle = add(&shared->told, 1);
    check_memory_stays(2000000);
    CHECK(ctl_u64("spans.stats.recycled") > 1900000);
    CHECK(ctl_u64("spans.stats.reporter_misses") > 10);
    CHECK_EQ(jespan_unregister_reporter(handle), 0);
    read_figures(shared);
    check_all_was_told(shared);
}

static void a_write_error_kills_the_profiler_and_then_memory_grows_without_end(void)
{
    char said[200] = "";
    int saved = dup(STDERR_FILENO), pipes[2];
    CHECK_EQ(pipe(pipes), 0);
    dup2(pipes[1], STDERR_FILENO);
    shared->told.flush_error = ENOSPC;
    jespan_registration_t *handle = add(&shared->told, 5);
    check_memory_stays(400000);
    CHECK_EQ(jespan_unregister_reporter(handle), 0);
    dup2(saved, STDERR_FILENO);
    CHECK(read(pipes[0], said, sizeof said - 1) > 0);
    CHECK(strcmp(said, "jespan: reporter test: flush failed: No space left on device; further failures are only counted\n") == 0);
    CHECK(shared->told.rounds > 2);
    CHECK_EQ(ctl_u64("spans.stats.reporter_errors"), shared->told.rounds);
    read_figures(shared);
    check_all_was_told(shared);
}

static void allocate_a_lot(struct told *t)
{
    static void *kept[1000];
    for (int i = 0; i < 1000; i++) {
        free(kept[i]);
        kept[i] = malloc(1000);
    }
    (void)t;
}

static void its_own_allocations_pollute_the_figures(void)
{
    uint64_t all = ctl_u64("spans.all.inuse_objects"), own = ctl_span(2, "inuse_objects");
    CHECK(strcmp(ctl_span_text(2, "kind"), "jespan") == 0);
    shared->told.in_flush = allocate_a_lot;
    jespan_registration_t *handle = add(&shared->told, 1);
    while (shared->told.rounds < 20)
        told_sleep_ms(1);
    CHECK_EQ(jespan_unregister_reporter(handle), 0);
    uint64_t more = ctl_span(2, "inuse_objects") - own;
    CHECK(more >= 1000);
    CHECK_EQ(ctl_u64("spans.all.inuse_objects") - all, more);
    check_promises(&shared->told);
}

/* ---- fork ---- */

static jespan_registration_t *parents;

static void look_around_and_report(void)
{
    alarm(600);
    CHECK_EQ(ctl_u64("spans.stats.reporters"), 0);
    CHECK_EQ(ctl_u64("spans.stats.reporter_misses"), 0);
    CHECK_EQ(jespan_unregister_reporter(parents), EINVAL);
    CHECK_EQ(jespan_flush_reporters(0), 0);
    memset(&shared->told, 0, sizeof shared->told);
    report_for_long();
    CHECK_EQ(ctl_u64("spans.stats.reporters"), 1);
}

static _Atomic bool stop;

/* Keeps the registry's mutex locked nearly all the time. */
static void *hammer(void *unused)
{
    while (!stop)
        CHECK_EQ(jespan_unregister_reporter((jespan_registration_t *)&stop), EINVAL);
    return unused;
}

/* One reporter of the parent is in a callback at the fork, and another may be in the middle of a round. */
static void a_child_has_none_and_can_have_its_own(void)
{
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, hammer, NULL), 0);
    other.flush_ms = 2;
    add(&other, 1);
    static struct told busy;
    busy.stuck = true;
    parents = add(&busy, 1);
    while (!busy.rounds || !other.rounds)
        told_sleep_ms(1);
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(in_child(look_around_and_report), 0);
        check_all_was_told(shared);
        CHECK_EQ(shared->told.shutdowns, 1);
    }
    stop = true;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    CHECK_EQ(ctl_u64("spans.stats.reporters"), 2);
    busy.stuck = false;
    CHECK_EQ(jespan_unregister_reporter(parents), 0);
    CHECK_EQ(jespan_flush_reporters(PATIENCE_MS), 0);
    check_promises(&other);
}

/* ---- All of it ---- */

#define CASE(function, conf) {#function, function, NULL, conf}

static const struct test_case cases[] = {
    CASE(the_tail_at_shutdown_is_lost, "max_contexts:1000"),
    CASE(exit_waits_for_nobody_longer_than_configured, "shutdown_timeout_ms:300"),
    CASE(a_callback_that_exits_ends_the_program, NULL),
    CASE(unbounded_queues, "max_contexts:4096"),
    CASE(a_write_error_kills_the_profiler_and_then_memory_grows_without_end, "max_contexts:4096"),
    CASE(its_own_allocations_pollute_the_figures, NULL),
    CASE(a_child_has_none_and_can_have_its_own, "max_contexts:1000"),
    {"the_same_with_follow_fork", a_child_has_none_and_can_have_its_own, NULL, "max_contexts:1000,follow_fork:true"},
};

int main(int argc, char **argv)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return cases_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
