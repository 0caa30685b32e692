/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of generated code, by its instructions after a call. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "stacks/epilogue.h"

#define CODE(...) (const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__})
#define NO_BP INT32_MAX

static void check(const unsigned char *code, size_t bytes, int32_t cfa, int32_t bp)
{
#ifndef __x86_64__
    skip();
#endif
    struct unwind_rule rule = {.kind = UNWIND_UNKNOWN};
    epilogue_find(code, bytes, &rule);
    if (!cfa) {
        assert_int_equal(rule.kind, UNWIND_UNKNOWN);
        return;
    }
    assert_int_equal(rule.kind, UNWIND_SP);
    assert_int_equal(rule.cfa, cfa);
    assert_int_equal(rule.bp_kind, bp == NO_BP ? UNWIND_BP_SAME : UNWIND_BP_AT_CFA);
    if (bp != NO_BP)
        assert_int_equal(rule.bp, bp);
}

/* The CFA is the stack pointer after the return: `ret` takes 8 bytes. */
static void test_returns(void **state)
{
    (void)state;
    check(CODE(0xc3), 8, NO_BP);
    check(CODE(0xf3, 0xc3), 8, NO_BP);
    check(CODE(0x48, 0x83, 0xc4, 0x08, 0xc3), 16, NO_BP);                      /* add $8, %rsp */
    check(CODE(0x48, 0x81, 0xc4, 0x00, 0x01, 0x00, 0x00, 0xc3), 264, NO_BP);   /* add $256, %rsp */
    check(CODE(0x5b, 0xc3), 16, NO_BP);                                        /* pop %rbx */
    check(CODE(0x41, 0x5c, 0x41, 0x5f, 0xc3), 24, NO_BP);                      /* pop %r12, pop %r15 */
    check(CODE(0x5d, 0xc3), 16, -16);                                          /* pop %rbp: it was at the CFA - 16 */
    check(CODE(0x48, 0x83, 0xc4, 0x18, 0x5b, 0x5d, 0x41, 0x5c, 0xc3), 56, -24);
    check(CODE(0x41, 0x5d, 0xc3), 16, NO_BP);                                  /* pop %r13 is not pop %rbp */
}

static void test_other_code(void **state)
{
    (void)state;
    check(CODE(0x90, 0xc3), 0, 0);                                       /* nop */
    check(CODE(0x48, 0x89, 0xd8, 0xc3), 0, 0);                           /* mov: not only the frame is taken back */
    check(CODE(0x5c, 0xc3), 0, 0);                                       /* pop %rsp */
    check(CODE(0x48, 0x83, 0xc4, 0xf8, 0xc3), 0, 0);                     /* add $-8, %rsp */
    check(CODE(0x48, 0x83, 0xc4, 0x04, 0xc3), 0, 0);                     /* not aligned */
    check(CODE(0x48, 0x83, 0xc4, 0x08, 0x48, 0x83, 0xc4, 0x08, 0xc3), 0, 0);
    check(CODE(0x48, 0x83, 0xc0, 0x08, 0xc3), 0, 0);                     /* add $8, %rax */
    check(CODE(0xe9, 0x00, 0x00, 0x00, 0x00), 0, 0);                     /* jmp */
    check(CODE(0xc9, 0xc3), 0, 0);                                       /* leave: by the frame pointer */
}

/* No byte behind the end is read: the code may end at the end of a page. */
static void test_ends(void **state)
{
    static const unsigned char code[] = {0x48, 0x81, 0xc4, 0x00, 0x01, 0x00, 0x00, 0x41, 0x5c, 0x5d, 0xf3, 0xc3};
    (void)state;
    for (size_t n = 0; n < sizeof code; n++)
        check(memcpy((unsigned char[sizeof code]){0}, code, n), n, 0, 0);
    check(code, sizeof code, 256 + 8 + 8 + 8, -16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_returns),
        cmocka_unit_test(test_other_code),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests_name("epilogue", tests, NULL, NULL);
}
