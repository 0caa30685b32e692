/* SPDX-License-Identifier: BSD-2-Clause */
/* A table of unwind rules by return address. Threads read and write it without a lock. */
#ifndef JESPAN_UNWIND_RULES_H
#define JESPAN_UNWIND_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "stacks/eh_frame.h"

/* A bucket is a cache line with four entries. The first word of an entry is the return address, mixed with the rule by
 * exclusive or. So a reader that sees half of a write finds another address, and no wrong rule. */
#define RULES_WAYS 4
#define RULES_BUCKETS_SHIFT 14
struct rules_bucket {
    _Alignas(CACHE_LINE_BYTES) struct {
        _Atomic uint64_t mixed, rule;
    } entries[RULES_WAYS];
};

extern struct rules_bucket *rules_table;

/* Allocates the table. Returns 0 or -ENOMEM. To be called under LOCK_TREE. */
int rules_boot(void);

/* A rule in a word: from the low end 3 bits of kind, 2 of bp_kind, 24 of cfa, 20 of bp, 15 of the object that has the
 * code. */
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
    return (int64_t)(rule << 35) >> 40;
}

HOT_INLINE int64_t rule_bp(uint64_t rule)
{
    return (int64_t)(rule << 15) >> 44;
}

/* Looks in .eh_frame, and remembers the rule. */
uint64_t rules_make(uintptr_t return_address);

/* The rule of a return address. For an interrupted instruction, pass its address + 1. */
HOT_INLINE uint64_t rules_find(uintptr_t return_address)
{
    struct rules_bucket *bucket = &rules_table[return_address * 0x9e3779b97f4a7c15u >> (64 - RULES_BUCKETS_SHIFT)];
    for (int i = 0; i < RULES_WAYS; i++) {
        uint64_t mixed = load_relaxed(&bucket->entries[i].mixed), rule = load_relaxed(&bucket->entries[i].rule);
        if (likely((mixed ^ rule) == return_address))
            return rule;
    }
    return rules_make(return_address);
}

/* Whether the code at the address is still that of the object for which the rule was made. If not, forgets the rule. */
bool rules_check(uintptr_t return_address);

#endif
