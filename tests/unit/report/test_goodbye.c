/* SPDX-License-Identifier: BSD-2-Clause */
/* What a process says in the page that it shares with a sidecar. The test is the sidecar: it has made the page, and reads it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "conf/conf.h"
#include "report/goodbye.h"
#include "report/sidecar_page.h"

static struct sidecar_page *page;

static int open_page(void **state)
{
    (void)state;
    int fd = memfd_create("page", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, SIDECAR_PAGE_BYTES) != 0 || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) != 0)
        return -1;
    void *p = mmap(NULL, SIDECAR_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return -1;
    page = p;
    store_release(&page->layout, SIDECAR_PAGE_LAYOUT);
    snprintf(conf.sidecar, sizeof conf.sidecar, "/proc/self/fd/%d", fd);
    goodbye_start();
    return goodbye_is_served() ? 0 : -1;
}

static int begin(void **state)
{
    (void)state;
    conf.follow_fork = true;
    store_relaxed(&page->rings, 0);
    store_relaxed(&page->has_forked, 0);
    store_relaxed(&page->closed, 0);
    return 0;
}

/* A child that says nothing at its end. Returns its slot. NULL: it has none. */
static const struct sidecar_slot *fork_one(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        goodbye_after_fork();
        _exit(goodbye_is_served());
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    const struct sidecar_slot *slot = sidecar_page_find(page, (uint32_t)pid);
    assert_int_equal(WEXITSTATUS(status), slot ? 1 : 0);
    return slot;
}

static void test_a_program_takes_a_slot_and_does_not_ring(void **state)
{
    (void)state;
    const struct sidecar_slot *slot = sidecar_page_find(page, (uint32_t)getpid());
    assert_non_null(slot);
    assert_int_equal(slot->forked, 0);
    assert_int_equal(page->rings, 0);
}

static void test_a_forked_child_rings_so_that_it_is_found_soon(void **state)
{
    (void)state;
    const struct sidecar_slot *slot = fork_one();
    assert_non_null(slot);
    assert_int_equal(slot->forked, 1);
    assert_int_equal(slot->state, SIDECAR_RUNS);
    assert_true(slot->began_ns > 0);
    assert_int_equal(page->rings, 1);
}

static void test_of_many_children_the_first_rings(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 10; i++)
        assert_non_null(fork_one());
    assert_int_equal(page->rings, 1);
    store_relaxed(&page->has_forked, 0); /* the sidecar looks */
    assert_non_null(fork_one());
    assert_int_equal(page->rings, 2);
}

static void test_children_that_are_not_followed_say_nothing(void **state)
{
    (void)state;
    conf.follow_fork = false;
    assert_null(fork_one());
    assert_int_equal(page->rings, 0);
}

static void test_a_sidecar_that_ends_has_no_more_children(void **state)
{
    (void)state;
    store_relaxed(&page->closed, 1);
    assert_null(fork_one());
    assert_int_equal(page->rings, 0);
}

/* Processes that are killed while they fill their slots keep them. */
static void test_slots_that_are_being_filled_are_nobodys(void **state)
{
    (void)state;
    for (struct sidecar_slot *slot = page->slots; slot < page->slots + SIDECAR_SLOTS; slot++)
        if (!load_relaxed(&slot->pid))
            store_relaxed(&slot->pid, SIDECAR_TAKEN);
    assert_null(fork_one());
    assert_int_equal(page->rings, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_a_program_takes_a_slot_and_does_not_ring, begin),
        cmocka_unit_test_setup(test_a_forked_child_rings_so_that_it_is_found_soon, begin),
        cmocka_unit_test_setup(test_of_many_children_the_first_rings, begin),
        cmocka_unit_test_setup(test_children_that_are_not_followed_say_nothing, begin),
        cmocka_unit_test_setup(test_a_sidecar_that_ends_has_no_more_children, begin),
        cmocka_unit_test_setup(test_slots_that_are_being_filled_are_nobodys, begin),
    };
    return cmocka_run_group_tests(tests, open_page, NULL);
}
