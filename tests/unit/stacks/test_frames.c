/* SPDX-License-Identifier: BSD-2-Clause */
/* The numbers of stacks: one for each, the same each time, while the table grows and when it is full; and which stacks are cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/lock.h"
#include "malloc/track.h"
#include "stacks/codes.h"
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
        stacks[i][depths[i] - 1 - depth] = 0x400000 + 16 * ((uintptr_t)rand() % (depth < 2 ? 40u : 40000u));
}

static uint32_t intern_frames(const uintptr_t *frames, uint32_t n, unsigned cut, bool is_short)
{
    lock(LOCK_TREE);
    uint32_t number = frames_intern(frames, n, cut, is_short);
    unlock(LOCK_TREE);
    return number;
}

static uint32_t intern(int i)
{
    return intern_frames(stacks[i], depths[i], 0, false);
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
    assert_int_equal(stack_frames_end, FRAMES_MOST - FRAMES_MOST / 8);
    for (int i = 0; i < STACKS; i++) {
        assert_int_equal(intern(i), numbers[i]);
        if (numbers[i])
            check_frames(i);
    }
}

/* To be called when the table is full. The more was cut, the more of the rest is there for a stack. */
static void test_the_rest_is_for_stacks_that_were_cut(void **state)
{
    (void)state;
    for (unsigned cut = 1; cut < 4; cut++) {
        for (uintptr_t i = 1; i < FRAMES_MOST; i++)
            intern_frames((const uintptr_t[]){0x800000 + 16 * i}, 1, cut, false);
        assert_int_equal(stack_frames_end, FRAMES_MOST - (FRAMES_MOST / 8 >> cut));
    }
}

/* A frame that calls very many others, as the dynamic linker calls constructors. */
static void test_frames_call_a_bounded_number_when_numbers_are_short(void **state)
{
    (void)state;
    uint32_t first[FRAMES_CALLED], cut = 0;
    for (uintptr_t i = 0; i < 2 * FRAMES_CALLED; i++) {
        const uintptr_t frames[] = {0x10000 + i, 0x20000 + i, 0x30000};
        uint32_t number = intern_frames(frames, 3, 0, true);
        if (i < FRAMES_CALLED) {
            assert_true(stack_frames[number].return_address == frames[0]);
            first[i] = number;
        } else {
            assert_true(stack_frames[number].return_address == CODES_CUT);
            assert_true(stack_frames[stack_frames[number].parent].return_address == frames[2]);
            assert_true(!cut || cut == number);
            cut = number;
        }
    }
    for (uintptr_t i = 0; i < FRAMES_CALLED; i++)
        assert_int_equal(intern_frames((const uintptr_t[]){0x10000 + i, 0x20000 + i, 0x30000}, 3, 0, true), first[i]);
    const uintptr_t more[] = {0x10000, 0x40000, 0x30000};
    assert_true(stack_frames[intern_frames(more, 3, 0, false)].return_address == more[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_call_a_bounded_number_when_numbers_are_short),
        cmocka_unit_test(test_numbers_stay),
        cmocka_unit_test(test_the_rest_is_for_stacks_that_were_cut),
    };
    srand(1);
    return cmocka_run_group_tests_name("frames", tests, boot, NULL);
}
