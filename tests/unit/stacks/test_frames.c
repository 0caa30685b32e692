/* SPDX-License-Identifier: BSD-2-Clause */
/* The numbers of stacks: one for each, the same each time, while the table grows and when it is full. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/lock.h"
#include "malloc/track.h"
#include "stacks/stacks.h"

enum { STACKS = 30000, DEPTH = 6, FRAMES_MOST = 50000 };
static uintptr_t stacks[STACKS][DEPTH]; /* from the innermost frame on */
static uint32_t depths[STACKS], numbers[STACKS];

static int boot(void **state)
{
    (void)state;
    if (!track_thread())
        return -1;
    lock(LOCK_TREE);
    int error = frames_boot(FRAMES_MOST);
    unlock(LOCK_TREE);
    return error;
}

/* Few addresses at the outer end, so that stacks have frames in common, and nearly as many as stacks at the inner end. */
static void make_stack(int i)
{
    depths[i] = 1 + (uint32_t)rand() % DEPTH;
    for (uint32_t depth = 0; depth < depths[i]; depth++)
        stacks[i][depths[i] - 1 - depth] = 0x400000 + 16 * ((uintptr_t)rand() % (depth < 2 ? 8u : 40000u));
}

static uint32_t intern(int i)
{
    lock(LOCK_TREE);
    uint32_t number = frames_intern(stacks[i], depths[i]);
    unlock(LOCK_TREE);
    return number;
}

static void check_frames(int i)
{
    uint32_t number = numbers[i];
    for (uint32_t n = 0; n < depths[i]; n++) {
        assert_true(stack_frames[number].return_address == stacks[i][n]);
        number = stack_frames[number].parent;
    }
    assert_int_equal(number, 0);
}

static void test_numbers_stay(void **state)
{
    (void)state;
    int full = 0;
    for (int i = 0; i < STACKS; i++) {
        make_stack(i);
        numbers[i] = intern(i);
        full += !numbers[i];
        int before = rand() % (i + 1);
        if (numbers[before])
            assert_int_equal(intern(before), numbers[before]);
    }
    assert_in_range(full, 1, STACKS / 2); /* the table was too small for all of them, and not for most */
    assert_int_equal(stack_frames_end, FRAMES_MOST);
    for (int i = 0; i < STACKS; i++) {
        assert_int_equal(intern(i), numbers[i]);
        if (numbers[i])
            check_frames(i);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers_stay)};
    srand(1);
    return cmocka_run_group_tests_name("frames", tests, boot, NULL);
}
