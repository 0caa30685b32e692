/* SPDX-License-Identifier: BSD-2-Clause */
/* Decodes the end of a function. The instructions are those of the Intel manual, volume 2: ADD r/m64, imm8 and imm32; POP r64; RET. */
#include "stacks/epilogue.h"

#include <stdbool.h>
#include <string.h>

#include "base/compiler.h"

#define WORD 8
#define RSP 4u
#define RBP 5u

#ifdef __x86_64__

/* add $n, %rsp. Returns its bytes; 0: it is another instruction. */
static size_t take_add(const unsigned char *code, size_t bytes, int32_t *n)
{
    static const unsigned char short_form[] = {0x48, 0x83, 0xc4}, long_form[] = {0x48, 0x81, 0xc4};
    if (bytes >= 4 && !memcmp(code, short_form, sizeof short_form)) {
        *n = (int8_t)code[3];
        return 4;
    }
    if (bytes >= 7 && !memcmp(code, long_form, sizeof long_form)) {
        memcpy(n, code + 3, sizeof *n);
        return 7;
    }
    return 0;
}

/* pop of any register but the stack pointer. */
static size_t take_pop(const unsigned char *code, size_t bytes, unsigned *reg)
{
    size_t prefix = bytes >= 2 && code[0] == 0x41;
    if (bytes <= prefix || (code[prefix] & 0xf8) != 0x58)
        return 0;
    *reg = (code[prefix] & 7u) + 8u * (unsigned)prefix;
    return *reg == RSP ? 0 : prefix + 1;
}

static bool is_return(const unsigned char *code, size_t bytes)
{
    return (bytes >= 1 && code[0] == 0xc3) || (bytes >= 2 && code[0] == 0xf3 && code[1] == 0xc3);
}

COLD void epilogue_find(const unsigned char *code, size_t bytes, struct unwind_rule *rule)
{
    int32_t cfa = 0, bp_at = -1;
    unsigned reg = 0;
    size_t at = take_add(code, bytes, &cfa);
    if (cfa < 0 || cfa % WORD)
        return;
    for (size_t pop; (pop = take_pop(code + at, bytes - at, &reg)); at += pop) {
        bp_at = reg == RBP ? cfa : bp_at;
        cfa += WORD;
    }
    if (!is_return(code + at, bytes - at))
        return;
    cfa += WORD;
    *rule = (struct unwind_rule){.kind = UNWIND_SP, .bp_kind = bp_at < 0 ? UNWIND_BP_SAME : UNWIND_BP_AT_CFA, .cfa = cfa,
                                 .bp = bp_at < 0 ? 0 : bp_at - cfa};
}

#else

COLD void epilogue_find(const unsigned char *code, size_t bytes, struct unwind_rule *rule)
{
    (void)code, (void)bytes, (void)rule;
}

#endif
