/* SPDX-License-Identifier: BSD-2-Clause */
/* A child is forked at any moment of another thread's flush, while frees in that thread's buffer are claimed, that
 * is, uncharged ahead of time. In the child the limit's figure is what is in use: at once, after the limit is set
 * again, and after the next owner of the block has freed objects.
 *
 * The flush is compiled here with a fork after each of its stores outside of a section of limits, since fork waits
 * for the end of a section. The child must see a block whose thread is gone. So the forking thread gives up its block
 * before, and the child takes the block again, as its first new thread would.
 */
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
#include "base/lock.h"

static void after_store(void);

#undef store_relaxed
#define store_relaxed(p, v) (atomic_store_explicit((p), (v), memory_order_relaxed), after_store())
#undef store_release
#define store_release(p, v) (atomic_store_explicit((p), (v), memory_order_release), after_store())
#include "heap/magazine.c" /* so that the library's own is not linked */
#include "malloc/track_flush.c"
#include "malloc/track_free.c"

#include "../../support/booted.h"
#include "../../support/ctl.h"
#include "../../support/family.h"
#include "../../support/many_locks.h"

enum { OBJECTS = 5, OBJECT_BYTES = 300, LIMIT_BYTES = 1000000, CHILD_SECONDS = 600 };

JESPAN_SITE(tenant_site, "tenant");
JESPAN_SITE(request_site, "request");

static jespan_span_t *span, *request; /* the second is in the first, and within its limit */
static jespan_context_t tenant;
static bool forking_after_stores;
static int forks;

static bool figures_agree(void)
{
    return ctl_span(tenant, "limit_inuse_bytes") == ctl_span(tenant, "total.inuse_bytes");
}

static void allocate_and_free(void)
{
    void *p[OBJECTS];
    if (jespan_enter(span))
        _exit(6);
    for (int i = 0; i < OBJECTS; i++) {
        bool in_request = i % 2; /* the frees of one owner are counted in one section */
        if (in_request && jespan_enter(request))
            _exit(8);
        p[i] = F(malloc)(OBJECT_BYTES);
        if (in_request && jespan_exit(request))
            _exit(9);
    }
    for (int i = 0; i < OBJECTS; i++)
        F(free)(p[i]);
    if (jespan_exit(span))
        _exit(7);
}

/* Reading a figure flushes the reader's own buffer, so what is to be tried comes first. */
static bool use_the_block(void)
{
    allocate_and_free();
    track_flush_any(thread_current);
    return figures_agree();
}

static bool set_the_limit_anew(void)
{
    return !jespan_set_limit(tenant, 0, 0) && !jespan_set_limit(tenant, 0, LIMIT_BYTES) && figures_agree();
}

/* In the child, after the fork handlers. */
static int go_on(struct thread *abandoned, bool (*first)(void), bool (*then)(void))
{
    alarm(CHILD_SECONDS);
    if (track_thread() != abandoned)
        return 2;
    if (!first())
        return 3;
    return then() ? 0 : 4;
}

static void fork_with(struct thread *t, bool (*first)(void), bool (*then)(void))
{
    int status = -1;
    thread_fast_set(NULL, NULL, false, false);
    thread_current = NULL;
    pid_t pid = fork();
    if (pid == 0)
        _exit(go_on(t, first, then));
    thread_fast_set(t, t, false, false);
    thread_current = t;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status)
        fail_msg("fork number %d in the flush: the child ended with status 0x%x", forks, status);
    forks++;
}

static void after_store(void)
{
    struct thread *t = thread_current;
    if (!forking_after_stores || load_relaxed(&t->limits_sequence) & 1)
        return;
    forking_after_stores = false;
    fork_with(t, figures_agree, use_the_block);
    fork_with(t, use_the_block, set_the_limit_anew);
    fork_with(t, set_the_limit_anew, use_the_block);
    forking_after_stores = true;
}

static void test_in_a_flush_of_claimed_frees(void **state)
{
    (void)state;
    span = jespan_open(&tenant_site, JESPAN_ROOT, NULL, 0);
    assert_int_equal(jespan_enter(span), 0);
    tenant = jespan_current();
    request = jespan_open(&request_site, JESPAN_CURRENT, NULL, 0);
    assert_non_null(request);
    assert_int_equal(jespan_exit(span), 0);
    assert_int_equal(jespan_set_limit(tenant, 0, LIMIT_BYTES), 0);
    thread_cache_flush(track_thread());
    allocate_and_free();
    lock(LOCK_TREE);
    limits_begin_recycling(); /* claims all buffers */
    limits_end_recycling();
    unlock(LOCK_TREE);
    forking_after_stores = true;
    track_flush_any(thread_current);
    forking_after_stores = false;
    assert_in_range(forks, 3 * OBJECTS, 3 * 20 * OBJECTS);
    assert_true(figures_agree());
    assert_int_equal(jespan_close(request), 0);
    assert_int_equal(jespan_close(span), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_a_flush_of_claimed_frees),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
