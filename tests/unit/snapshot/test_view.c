/* SPDX-License-Identifier: BSD-2-Clause */
/* Snapshots without a lock, while contexts are recycled: of this process, and through a view from outside. And views of
 * processes that are quiet, stopped, gone. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../support/booted.h"
#include "../../support/check.h"
#include "../../support/family.h"
#include "../../support/many_locks.h"
#include "base/lock.h"
#include "jespan/jespan.h"
#include "snapshot/snapshot.h"
#include "snapshot/view.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "thread_contexts:false,max_contexts:256";

enum { THREADS = 4, KEPT = 50 };
static const struct jespan_site passing = {"passing", "target", "view.c", 7}, staying = {"staying", NULL, NULL, 0};
static _Atomic bool stop;

/* ---- The work ---- */

/* The labels are new each time and have many lengths, so contexts are recycled all the time. */
static void one_span(unsigned thread, unsigned number)
{
    static const char more[] = "----------------------------------------------------------------";
    char text[96];
    snprintf(text, sizeof text, "%s%u.%u", more + number % sizeof more, thread, number);
    const struct jespan_label labels[] = {{"a", text}, JESPAN_LABEL_INT("number", number), {"b", text}};
    jespan_span_t *span = jespan_open(&passing, JESPAN_ROOT, labels, 3);
    jespan_enter(span);
    F(free)(F(malloc)(100 + number % 1000));
    F(free)(F(malloc)(5000));
    jespan_exit(span);
    jespan_close(span);
}

static void *churn(void *thread)
{
    for (unsigned i = 0; !load_relaxed(&stop); i++)
        one_span((unsigned)(uintptr_t)thread, i);
    return NULL;
}

static void start_churn(pthread_t *threads)
{
    store_relaxed(&stop, false);
    for (uintptr_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, churn, (void *)i))
            _exit(99);
}

static void stop_churn(pthread_t *threads)
{
    store_relaxed(&stop, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* ---- What must be true of each snapshot ---- */

static bool has_whole_labels(const struct snapshot_row *row)
{
    const struct snapshot_label *l = row->labels;
    char number[32];
    if (row->n_labels != 3)
        return strcmp(row->name, "passing") != 0;
    snprintf(number, sizeof number, "%lld", (long long)l[1].integer);
    const char *dot = strchr(l[0].value, '.');
    return !strcmp(row->name, "passing") && row->line == 7 && !strcmp(l[0].key, "a") && !strcmp(l[2].key, "b") &&
           !strcmp(l[0].value, l[2].value) && dot && !strcmp(dot + 1, number) && !strcmp(number, l[1].value);
}

static bool is_sound(const struct snapshot *s)
{
    struct totals sum = s->retired;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const struct snapshot_row *row = &s->rows[i];
        const struct totals *t = &row->totals;
        if (t->alloc_objects < t->free_objects || t->alloc_bytes < t->free_bytes || t->enters < t->exits)
            return false;
        if ((i && row->id <= s->rows[i - 1].id) || row->parent_row >= s->n_rows || !has_whole_labels(row))
            return false;
        totals_add(&sum, t);
    }
    return memcmp(&sum, &s->all, offsetof(struct totals, busy)) == 0; /* the times of the whole never fall, those of its parts may */
}

static uint64_t recycled(void)
{
    lock(LOCK_TREE);
    uint64_t n = tree_stats().recycled;
    unlock(LOCK_TREE);
    return n;
}

/* An allocation that was in one snapshot is in the next one, in its row or in "(retired)". */
static void test_recycled_contexts_are_counted_once(void **state)
{
    pthread_t threads[THREADS];
    struct snapshot *s = NULL;
    uint64_t last = 0;
    uint64_t least = check_rounds("VIEW_SNAPSHOTS", 1000), n = 0, sound = 0, grown = 0;
    (void)state;
    start_churn(threads);
    for (; n < least || recycled() <= least / 4; n++) {
        s = snapshot_retake(s);
        sound += s && is_sound(s);
        grown += s && s->all.alloc_objects >= last;
        last = s ? s->all.alloc_objects : 0;
    }
    stop_churn(threads);
    assert_int_equal(sound, n);
    assert_int_equal(grown, n);
    s = snapshot_retake(s);
    assert_int_equal(s->all.alloc_objects - s->all.free_objects, 0);
    snapshot_free(s);
}

static void test_a_view_of_what_is_recycled(void **state)
{
    pthread_t threads[THREADS];
    struct view *view;
    struct snapshot *s = NULL;
    uint64_t n = check_rounds("VIEW_VIEWS", 200), sound = 0;
    (void)state;
    assert_int_equal(view_open(&view, getpid()), 0);
    start_churn(threads);
    for (uint64_t i = 0; i < n; i++) {
        s = view_snapshot(view, s);
        sound += s && is_sound(s);
    }
    stop_churn(threads);
    assert_int_equal(sound, n);
    snapshot_free(s);
    view_close(view);
}

/* ---- Equal to what the process sees itself ---- */

static char *append(char *to, const char *end, const char *format, ...) __attribute__((format(printf, 3, 4)));
static char *append(char *to, const char *end, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(to, (size_t)(end - to), format, args);
    va_end(args);
    return n < end - to ? to + n : to;
}

static char *append_totals(char *to, const char *end, const struct totals *t)
{
    const uint64_t *figures = (const uint64_t *)t;
    for (size_t i = 0; i <= offsetof(struct totals, opens) / sizeof *figures; i++)
        to = append(to, end, " %llu", (unsigned long long)figures[i]);
    return append(to, end, "\n");
}

/* Without times. */
enum { TEXT_BYTES = 1 << 18 };
static void describe(char text[TEXT_BYTES], const struct snapshot *s)
{
    const char *end = text + TEXT_BYTES;
    char *to = append(text, end, "%u rows, pending %llu\n", s->n_rows, (unsigned long long)s->pending_bytes);
    for (const struct snapshot_row *row = s->rows; row < s->rows + s->n_rows; row++) {
        to = append(to, end, "%u.%u below %u: %s %s %s:%u kind %d open %u", row->id, row->generation, row->parent_row,
                    row->name, row->target, row->file, row->line, row->kind, row->open_spans);
        for (uint32_t i = 0; i < row->n_labels; i++)
            to = append(to, end, " %s=%s", row->labels[i].key, row->labels[i].value);
        to = append_totals(to, end, &row->totals);
    }
    to = append_totals(to, end, &s->retired);
    append_totals(to, end, &s->all);
}

static void work_a_while(void)
{
    static const struct jespan_label blue = {"colour", "blue"};
    pthread_t threads[THREADS];
    start_churn(threads);
    for (unsigned i = 0; i < 5000; i++)
        one_span(THREADS, i);
    stop_churn(threads);
    jespan_span_t *span = jespan_open(&staying, JESPAN_ROOT, &blue, 1);
    jespan_enter(span);
    for (int i = 0; i < KEPT; i++) {
        char *p = F(malloc)(40u << i % 8);
        if (i % 3 == 0)
            F(free)(p);
    }
    JESPAN("block", "in", "side");
    (void)!F(malloc)(123);
    jespan_exit(span);
}

static char here[TEXT_BYTES], there[TEXT_BYTES];

static void test_a_quiet_process_is_read_to_the_byte(void **state)
{
    struct view *view;
    struct snapshot *own, *other = NULL;
    (void)state;
    work_a_while();
    assert_int_equal(view_open(&view, getpid()), 0);
    for (int i = 0; i < 3; i++) {
        assert_non_null(own = snapshot_take());
        assert_non_null(other = view_snapshot(view, other));
        describe(here, own);
        describe(there, other);
        assert_string_equal(here, there);
        assert_int_equal(other->epoch, i + 1);
        assert_true(other->from_outside && !own->from_outside && other->pid == own->pid);
        snapshot_free(own);
        F(free)(F(malloc)(200)); /* into the free buffer */
    }
    assert_true(strstr(here, "staying") && strstr(here, "in=side") && strstr(here, "colour=blue"));
    snapshot_free(other);
    view_close(view);
}

/* ---- Another process ---- */

struct child {
    pid_t pid;
    int to, from;
};

/* The child works, describes itself and waits. */
static void start_child(struct child *c)
{
    int to[2], from[2];
    assert_int_equal(pipe(to) | pipe(from), 0);
    c->pid = fork();
    assert_true(c->pid >= 0);
    if (!c->pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        char any;
        work_a_while();
        struct snapshot *s = snapshot_take();
        describe(here, s);
        (void)!write(from[1], here, sizeof here);
        (void)!read(to[0], &any, 1);
        _exit(0);
    }
    c->to = to[1];
    c->from = from[0];
    close(to[0]);
    close(from[1]);
}

static void read_description(struct child *c)
{
    for (size_t n = 0; n < sizeof here;) {
        ssize_t more = read(c->from, here + n, sizeof here - n);
        assert_true(more > 0);
        n += (size_t)more;
    }
}

static void compare(struct view *view)
{
    struct snapshot *s = view_snapshot(view, NULL);
    assert_non_null(s);
    describe(there, s);
    assert_string_equal(here, there);
    snapshot_free(s);
}

static void test_a_process_that_is_stopped_and_then_gone(void **state)
{
    struct child c;
    struct view *view;
    int status;
    (void)state;
    start_child(&c);
    read_description(&c);
    assert_int_equal(view_open(&view, c.pid), 0);
    compare(view);
    assert_int_equal(kill(c.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(c.pid, &status, WUNTRACED), c.pid);
    compare(view);
    view_close(view);
    assert_int_equal(view_open(&view, c.pid), 0); /* the child is stopped */
    compare(view);
    assert_int_equal(kill(c.pid, SIGKILL), 0);
    assert_int_equal(waitpid(c.pid, &status, 0), c.pid);
    assert_null(view_snapshot(view, NULL));
    assert_int_equal(errno, ESRCH);
    view_close(view);
    assert_int_equal(view_open(&view, c.pid), -ESRCH);
    close(c.to);
    close(c.from);
}

static void test_a_process_that_becomes_another(void **state)
{
    int to[2];
    struct view *view;
    char any;
    (void)state;
    assert_int_equal(pipe2(to, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sleep(600);
        _exit(0);
    }
    assert_int_equal(view_open(&view, pid), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    view_close(view);
    pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execl("/bin/sleep", "sleep", "600", NULL);
        _exit(99);
    }
    close(to[1]);
    assert_int_equal(read(to[0], &any, 1), 0); /* the child has executed the program */
    close(to[0]);
    assert_int_equal(view_open(&view, pid), -ENOENT);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* The child holds every lock of jespan, as a process that hangs in malloc may. */
static void test_a_process_that_hangs(void **state)
{
    int ready[2];
    char any;
    struct view *view;
    (void)state;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        lock_all_before_fork();
        (void)!write(ready[1], "", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &any, 1), 1);
    assert_int_equal(view_open(&view, pid), 0);
    struct snapshot *s = view_snapshot(view, NULL);
    assert_true(s && is_sound(s) && s->n_rows > 2);
    snapshot_free(s);
    view_close(view);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close(ready[0]);
    close(ready[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recycled_contexts_are_counted_once),
        cmocka_unit_test(test_a_view_of_what_is_recycled),
        cmocka_unit_test(test_a_quiet_process_is_read_to_the_byte),
        cmocka_unit_test(test_a_process_that_is_stopped_and_then_gone),
        cmocka_unit_test(test_a_process_that_becomes_another),
        cmocka_unit_test(test_a_process_that_hangs),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
