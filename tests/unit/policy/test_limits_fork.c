/* SPDX-License-Identifier: BSD-2-Clause */
/* A child is forked while another thread begins a section of limits, or is inside one where there is no limit yet. The child can set
 * limits, and is refused.
 *
 * The moment is after the thread has made its sequence odd, and before it sees that sections are stopped. jespan's fork
 * handler stops them. So the handlers here are registered before jespan's: the one before fork runs after jespan's.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <jespan/jespan.h>
#include <jespan/limit.h>

#include "base/compiler.h"

#include "../../support/booted.h"
#include "../../support/family.h"
#include "../../support/many_locks.h"

enum { CHILD_SECONDS = 600, LIMIT_BYTES = 100000 };

JESPAN_SITE(tenant_site, "tenant");

static struct thread *_Atomic other; /* the thread that is in the middle */
static pthread_barrier_t started, over;

static void add_to_sequence(uint32_t n)
{
    struct thread *t = load_acquire(&other);
    if (t)
        store_release(&t->limits_sequence, load_relaxed(&t->limits_sequence) + n);
}

static void begin_other(void)
{
    add_to_sequence(1);
}

static void end_other(void)
{
    add_to_sequence(1);
}

static __attribute__((constructor(101))) void register_first(void)
{
    if (pthread_atfork(begin_other, end_other, NULL))
        _exit(2);
}

static void *be_there(void *unused)
{
    store_release(&other, track_thread());
    pthread_barrier_wait(&started);
    pthread_barrier_wait(&over);
    store_release(&other, NULL);
    return unused;
}

static int set_a_limit_and_be_refused(jespan_context_t tenant)
{
    alarm(CHILD_SECONDS);
    if (jespan_set_limit(tenant, 0, LIMIT_BYTES / 2))
        return 3;
    void *p = F(malloc)(LIMIT_BYTES);
    if (p)
        return 4;
    p = F(malloc)(LIMIT_BYTES / 4);
    F(free)(p);
    return p ? 0 : 5;
}

static void fork_beside_a_thread(jespan_context_t tenant)
{
    pthread_t thread;
    int status = -1;
    pthread_barrier_init(&started, NULL, 2);
    pthread_barrier_init(&over, NULL, 2);
    assert_int_equal(pthread_create(&thread, NULL, be_there, NULL), 0);
    pthread_barrier_wait(&started);
    pid_t pid = fork();
    if (pid == 0)
        _exit(set_a_limit_and_be_refused(tenant));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    pthread_barrier_wait(&over);
    pthread_join(thread, NULL);
    pthread_barrier_destroy(&started);
    pthread_barrier_destroy(&over);
}

/* No limit was set before this. */
static void test_a_thread_inside(void **state)
{
    jespan_span_t *span = jespan_open(&tenant_site, JESPAN_ROOT, NULL, 0);
    (void)state;
    assert_int_equal(jespan_enter(span), 0);
    fork_beside_a_thread(jespan_current());
    assert_int_equal(jespan_exit(span), 0);
    assert_int_equal(jespan_close(span), 0);
}

static void test_a_thread_about_to_begin(void **state)
{
    jespan_span_t *span = jespan_open(&tenant_site, JESPAN_ROOT, NULL, 0);
    (void)state;
    assert_int_equal(jespan_enter(span), 0);
    jespan_context_t tenant = jespan_current();
    assert_int_equal(jespan_set_limit(tenant, 0, LIMIT_BYTES), 0);
    fork_beside_a_thread(tenant);
    assert_int_equal(set_a_limit_and_be_refused(tenant), 0);
    assert_int_equal(jespan_exit(span), 0);
    assert_int_equal(jespan_close(span), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_thread_inside),
        cmocka_unit_test(test_a_thread_about_to_begin),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
