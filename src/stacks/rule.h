/* SPDX-License-Identifier: BSD-2-Clause */
/* An unwind rule: how to get from a frame to its caller's. */
#ifndef JESPAN_RULE_H
#define JESPAN_RULE_H

#include <stdbool.h>
#include <stdint.h>

/* The canonical frame address (CFA) is the value of the stack pointer in the caller, right after the call returns. The
 * return address is at CFA + RULE_RETURN_ADDRESS. */
#define RULE_RETURN_ADDRESS (-8)

enum unwind_kind {
    UNWIND_UNKNOWN,  /* there is no rule: only the frame pointer may lead to the caller */
    UNWIND_SP,       /* CFA = stack pointer + cfa */
    UNWIND_BP,       /* CFA = frame pointer + cfa */
    UNWIND_DEREF_BP, /* CFA = the word at frame pointer + cfa: a function that aligns its stack */
    UNWIND_SIGNAL,   /* the kernel called a signal handler here */
    UNWIND_END,      /* the outermost frame */
};
enum unwind_bp {
    UNWIND_BP_SAME,   /* the frame does not change the frame pointer */
    UNWIND_BP_AT_CFA, /* the caller's is saved at CFA + bp */
    UNWIND_BP_AT_BP,  /* the caller's is saved at frame pointer + bp */
};

struct unwind_rule {
    enum unwind_kind kind;
    enum unwind_bp bp_kind;
    int32_t cfa, bp;
};

/* Register numbers of DWARF on x86-64. */
#define REGISTER_BP 6
#define REGISTER_SP 7
#define REGISTER_RA 16

/* On arm64 there are no rules by address: functions that call others keep a frame pointer, as compilers and the procedure call standard
 * have it, and a frame pointer of 0 is the end. A return address may be signed above its 48 bits. */
#ifdef __aarch64__
#define RULES_ARE_FRAME_POINTERS 1
#define CODE_ADDRESS(word) ((word) & ((UINT64_C(1) << 48) - 1))
#else
#define RULES_ARE_FRAME_POINTERS 0
#define CODE_ADDRESS(word) (word)
#endif

/* The ranges that a rule of unwind_rules.c can store. */
static inline bool rule_cfa_fits(int64_t cfa)
{
    return cfa < 1 << 23 && cfa > -(1 << 23);
}

static inline bool rule_bp_fits(int64_t bp)
{
    return bp < 1 << 18 && bp > -(1 << 18);
}

#endif
