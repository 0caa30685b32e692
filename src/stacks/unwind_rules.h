/* SPDX-License-Identifier: BSD-2-Clause */
/* A table of unwind rules by return address. Threads read and write it without a lock. */
#ifndef JESPAN_UNWIND_RULES_H
#define JESPAN_UNWIND_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "stacks/objects.h"
#include "stacks/rule.h"

/* A bucket is a cache line with four entries. The first word of an entry is the return address, mixed with the rule by
 * exclusive or. So a reader that sees half of a write finds another address, and no wrong rule. */
#define RULES_WAYS 4
#define RULES_BUCKETS (1u << 14)
struct rules_bucket {
    _Alignas(CACHE_LINE_BYTES) struct {
        _Atomic uint64_t mixed, rule;
    } entries[RULES_WAYS];
};

extern INTERNAL struct rules_bucket *rules_table;

/* Allocates the table. Returns 0 or -ENOMEM. To be called under LOCK_TREE. */
int rules_boot(void);

/* A rule in a word: from the low end 3 bits of kind, 2 of bp_kind, 15 of the object that has the code, 20 of bp, 24 of
 * cfa. A walk waits for cfa, so one instruction gets it. */
#define RULE_OBJECT_SHIFT 5
#define RULE_OBJECT_MASK (UINT64_C(0x7fff) << RULE_OBJECT_SHIFT)

/* The rule of code that keeps a frame pointer, without the object: cfa is bp + 16, and the caller's bp is at cfa - 16. */
#define RULE_FRAME_POINTER (UNWIND_BP | UNWIND_BP_AT_CFA << 3 | (UINT64_C(0xfffff) & -UINT64_C(16)) << 20 | UINT64_C(16) << 40)

HOT_INLINE enum unwind_kind rule_kind(uint64_t rule)
{
    return (enum unwind_kind)(rule & 7);
}

HOT_INLINE enum unwind_bp rule_bp_kind(uint64_t rule)
{
    return (enum unwind_bp)(rule >> 3 & 3);
}

HOT_INLINE int64_t rule_cfa(uint64_t rule)
{
    return (int64_t)rule >> 40;
}

HOT_INLINE int64_t rule_bp(uint64_t rule)
{
    return (int64_t)(rule << 24) >> 44;
}

/* Looks in .eh_frame, and remembers the rule. */
uint64_t rules_make(uintptr_t return_address);

/* A walk waits for this, so it does without a multiplication. Calls that are near each other have different buckets: if
 * they had one, nothing would predict the place in it. */
HOT_INLINE struct rules_bucket *rules_bucket_of(uintptr_t return_address)
{
    uintptr_t bytes = (return_address << 6 ^ return_address >> 8) & ((uintptr_t)RULES_BUCKETS - 1) * CACHE_LINE_BYTES;
    return (struct rules_bucket *)((char *)rules_table + bytes);
}

/* The rule of a return address. For an interrupted instruction, pass its address + 1. */
HOT_INLINE uint64_t rules_find(uintptr_t return_address)
{
    struct rules_bucket *bucket = rules_bucket_of(return_address);
    for (int i = 0; i < RULES_WAYS; i++) {
        uint64_t mixed = load_relaxed(&bucket->entries[i].mixed), rule = load_relaxed(&bucket->entries[i].rule);
        if (likely((mixed ^ rule) == return_address))
            return rule;
    }
    return rules_make(return_address);
}

/* ---- Steps: the usual rules in one word ----
 *
 * The table has one place for each low half of an address. The word there is the return address, shifted, mixed with its
 * step by exclusive or. So one load gets both, and the word of another address is no step. Addresses with the same place
 * take it from each other; the table of rules has both. A step by the stack pointer is less than the others. It has, from
 * the low end:
 *
 *   16 bits  words from the stack pointer to the CFA. They are not mixed, so a walk does not wait for the exclusive or
 *    8 bits  256 less the words from the CFA down to the caller's frame pointer; 0: the frame does not change it */
#define STEPS (1u << 16)
#define STEP_ADDRESS_SHIFT 17
#define STEP_BP_SHIFT 16
#define STEP_BP_WORDS 256u
#define STEP_FRAME_POINTER (UINT64_C(1) << 24) /* RULE_FRAME_POINTER */
#define STEP_NONE (UINT64_C(2) << 24) /* any other rule */
#define STEP_END (UINT64_C(3) << 24)

extern INTERNAL _Atomic uint64_t *rules_steps;

HOT_INLINE uint64_t rules_mix_step(uintptr_t return_address, uint64_t word)
{
    return word ^ (uint64_t)return_address << STEP_ADDRESS_SHIFT;
}

/* Finds the rule and remembers its step. False: the table cannot have the address. */
bool rules_make_step(uintptr_t return_address);

/* Objects whose identities are known, each of which takes a system call. Stacks go through the same ones again and again. */
#define RULES_OBJECTS 16u
struct rules_objects {
    struct object all[RULES_OBJECTS], last; /* `last`: of the address before, in the same stack */
    uint32_t n; /* found so far; the oldest make room */
};

/* Whether the code at the address is still that of the object for which the rule was made. If not, forgets the rule. `last` is zero for
 * the first address of a stack. No object may have been loaded since the others were found. */
bool rules_check(uintptr_t return_address, struct rules_objects *objects);

/* Forgets the rules of code that was unloaded. */
void rules_forget_code(uintptr_t start, uintptr_t end);

#endif
