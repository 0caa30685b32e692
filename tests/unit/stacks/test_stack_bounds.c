/* SPDX-License-Identifier: BSD-2-Clause */
/* The bounds of a thread's stack: those that libc knows, and none of another stack's memory. */
#include <alloca.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "stacks/stack_bounds.h"

#define KEEP(x) __asm__ volatile("" : : "r"(x) : "memory")
#define HERE ((uintptr_t)__builtin_frame_address(0))

static bool has(const struct stack_bounds *b, uintptr_t sp)
{
    return sp >= b->low && sp < b->high;
}

/* Sanitizers keep so much for each thread that its stack is far from its end: then the list of mappings is read. */
static bool is_near_end(void)
{
    return (uintptr_t)__builtin_thread_pointer() - HERE < 128 << 10;
}

/* What libc says about the calling thread. Its size of the main thread's stack is the one that may be reached. */
static struct stack_bounds libc_says(void)
{
    pthread_attr_t attributes;
    void *low;
    size_t bytes;
    assert_int_equal(pthread_getattr_np(pthread_self(), &attributes), 0);
    assert_int_equal(pthread_attr_getstack(&attributes, &low, &bytes), 0);
    pthread_attr_destroy(&attributes);
    return (struct stack_bounds){(uintptr_t)low, (uintptr_t)low + bytes, true};
}

/* All of them can be read, and belong to the stack. */
static void check(const struct stack_bounds *b, uintptr_t sp)
{
    struct stack_bounds all = libc_says();
    assert_in_range(b->low, all.low, sp);
    assert_in_range(b->high, sp, all.high);
    for (uintptr_t page = sp & ~(uintptr_t)4095; page < b->high; page += 4096)
        assert_true(stack_page_is_readable(page));
}

static void on_thread(void *(*run)(void *), const pthread_attr_t *attributes)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, attributes, run, NULL), 0);
    pthread_join(thread, NULL);
}

/* ---- Down the stack ---- */

static void go_down(struct stack_bounds *b, unsigned steps, size_t bytes)
{
    volatile char *room = alloca(bytes);
    room[0] = 1;
    if (!has(b, HERE))
        stack_bounds_find(b, HERE);
    assert_true(has(b, HERE));
    check(b, HERE);
    if (steps)
        go_down(b, steps - 1, bytes);
    KEEP(room);
}

/* No descriptor can be opened, so /proc cannot be read. */
static void *without_descriptors(void *unused)
{
    struct stack_bounds bounds = {0};
    struct rlimit saved, none;
    if (!is_near_end())
        return unused;
    getrlimit(RLIMIT_NOFILE, &saved);
    none = saved;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
    stack_bounds_find(&bounds, HERE);
    struct stack_bounds first = bounds;
    setrlimit(RLIMIT_NOFILE, &saved);
    assert_true(has(&first, HERE));
    check(&first, HERE);
    assert_false(first.is_whole);
    setrlimit(RLIMIT_NOFILE, &none);
    volatile char *room = alloca(60000);
    room[0] = 1;
    stack_bounds_find(&bounds, (uintptr_t)room);
    setrlimit(RLIMIT_NOFILE, &saved);
    assert_true(has(&bounds, (uintptr_t)room));
    assert_int_equal(bounds.high, first.high);
    return unused;
}

static void test_without_maps(void **state)
{
    (void)state;
    on_thread(without_descriptors, NULL);
}

static void *in_steps(void *unused)
{
    struct stack_bounds bounds = {0};
    go_down(&bounds, 200, 10000);
    assert_int_equal(bounds.is_whole, !is_near_end());
    return unused;
}

static void *at_once(void *unused)
{
    struct stack_bounds bounds = {0};
    stack_bounds_find(&bounds, HERE);
    assert_int_equal(bounds.is_whole, !is_near_end());
    go_down(&bounds, 1, 2 << 20);
    assert_true(bounds.is_whole);
    return unused;
}

static void *deep_at_first(void *unused)
{
    struct stack_bounds bounds = {0};
    go_down(&bounds, 1, 2 << 20);
    assert_true(bounds.is_whole);
    return unused;
}

static void test_down(void **state)
{
    (void)state;
    on_thread(in_steps, NULL);
    on_thread(at_once, NULL);
    on_thread(deep_at_first, NULL);
}

/* ---- Stacks that are not the thread's ---- */

#define BESIDE ((size_t)65536)
static char *memory; /* another stack, a page that cannot be read, and the thread's stack */

static void *beside(void *unused)
{
    struct stack_bounds bounds = {0}, before;
    uintptr_t other = (uintptr_t)memory + BESIDE - 64;
    stack_bounds_find(&bounds, other);
    assert_int_equal(bounds.high, 0);
    stack_bounds_find(&bounds, HERE);
    assert_true(has(&bounds, HERE));
    check(&bounds, HERE);
    before = bounds;
    stack_bounds_find(&bounds, other);
    assert_false(has(&bounds, other));
    assert_int_equal(bounds.high, before.high);
    check(&bounds, HERE);
    return unused;
}

static void test_beside(void **state)
{
    (void)state;
    pthread_attr_t attributes;
    size_t bytes = (UNDER_TSAN ? 64 : 3) * BESIDE; /* TSan needs much of it */
    memory = mmap(NULL, BESIDE + 4096 + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(memory + BESIDE, 4096, PROT_NONE), 0);
    memset(memory, 1, BESIDE);
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstack(&attributes, memory + BESIDE + 4096, bytes), 0);
    on_thread(beside, &attributes);
    pthread_attr_destroy(&attributes);
    munmap(memory, BESIDE + 4096 + bytes);
}

/* ---- The main thread, and a thread that becomes it in a child ---- */

static void test_main(void **state)
{
    (void)state;
    struct stack_bounds bounds = {0};
    stack_bounds_find(&bounds, (uintptr_t)__builtin_thread_pointer() - 64); /* near, but not the stack */
    assert_true(bounds.is_whole || !bounds.high);
    assert_false(has(&bounds, HERE));
    bounds = (struct stack_bounds){0};
    stack_bounds_find(&bounds, HERE);
    assert_true(has(&bounds, HERE));
    assert_true(bounds.is_whole);
}

static void *forks(void *unused)
{
    pid_t child = fork();
    if (child == 0) {
        struct stack_bounds bounds = {0};
        stack_bounds_find(&bounds, HERE);
        _exit(!has(&bounds, HERE));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    return unused;
}

static void test_fork(void **state)
{
    (void)state;
    on_thread(forks, NULL);
}

/* An address in the first page is one of a damaged stack, or of a call of no function. */
static void test_first_page(void **state)
{
    char byte;
    (void)state;
    for (uintptr_t address = 0; address < 4096; address += 153) {
        assert_false(stack_page_is_readable(address));
        assert_false(stack_page_copy(&byte, address, 1));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_page),
        cmocka_unit_test(test_without_maps), cmocka_unit_test(test_down), cmocka_unit_test(test_beside),
        cmocka_unit_test(test_main), cmocka_unit_test(test_fork),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
