/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits: a charge while another thread is faster. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "jespan/limit.h"
#include "malloc/track.h"
#include "policy/limit_internal.h"

enum { HARD = 1000 };

static uint32_t inner, outer; /* limits */
static uint32_t filled;

static uint64_t charged(uint32_t limit)
{
    return load_relaxed(&limit_at(limit)->charged);
}

static void protect_limits(int protection)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)limit_at(0) & -page,
              end = ((uintptr_t)limit_at(0) + (sizeof(struct limit) << LIMITS_PER_CHUNK_BITS) + page - 1) & -page;
    assert_int_equal(mprotect((void *)start, end - start, protection), 0);
}

/* What another thread does before the charge writes for the first time: it takes all that is left. */
static void fill(int signal)
{
    (void)signal;
    protect_limits(PROT_READ | PROT_WRITE);
    atomic_fetch_add(&limit_at(filled)->charged, HARD - charged(filled));
}

/* Limits are read-only when the charge begins. So it can look at all of them, and stops before it writes. */
static uint32_t charge_late(uint32_t limit_to_fill)
{
    const struct sigaction action = {.sa_handler = fill, .sa_flags = (int)SA_RESETHAND};
    filled = limit_to_fill;
    assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
    protect_limits(PROT_READ);
    return limits_charge(inner, 0, 10);
}

static void test_another_fills_the_limit(void **state)
{
    (void)state;
    assert_int_equal(charge_late(inner), inner);
    assert_int_equal(charged(inner), HARD);
    assert_int_equal(charged(outer), 0);
    limits_uncharge(inner, outer, HARD);
}

static void test_another_fills_one_above(void **state)
{
    (void)state;
    assert_int_equal(charge_late(outer), outer);
    assert_int_equal(charged(inner), 0);
    assert_int_equal(charged(outer), HARD);
    limits_uncharge(outer, 0, HARD);
}

static uint32_t limit_of_new(const struct jespan_site *site, uint32_t parent, uint32_t *context)
{
    jespan_span_t *span = jespan_open(site, parent, NULL, 0);
    assert_non_null(span);
    assert_int_equal(jespan_enter(span), 0);
    *context = jespan_current();
    assert_int_equal(jespan_exit(span), 0);
    assert_int_equal(jespan_set_limit(*context, 0, HARD), 0);
    return limits_of(*context);
}

static int boot(void **state)
{
    static const struct jespan_site outer_site = {"outer", "", "", 1}, inner_site = {"inner", "", "", 2};
    uint32_t context;
    (void)state;
    if (!track_thread())
        return -1;
    outer = limit_of_new(&outer_site, JESPAN_ROOT, &context);
    inner = limit_of_new(&inner_site, context, &context);
    return 0;
}

/* ThreadSanitizer writes in its own code, and does not return from a fault there. */
int main(void)
{
    if (UNDER_TSAN) {
        puts("test_limit_charge: skipped: ThreadSanitizer does not return from the fault that the test makes");
        return 77; /* the test driver's status for "skipped" */
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_fills_the_limit),
        cmocka_unit_test(test_another_fills_one_above),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
