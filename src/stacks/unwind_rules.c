/* SPDX-License-Identifier: BSD-2-Clause */
/* A table of unwind rules by return address.
 *
 * The rule keeps a few bits that identify the object. When a stack is seen for the first time, the rules of its addresses are
 * checked: the object may have been unloaded, and another one may lie there now. A stack that was seen before had the same
 * addresses then. */
#include "stacks/unwind_rules.h"

#include <errno.h>

#include "base/meta.h"
#include "stacks/epilogue.h"
#include "stacks/stack_bounds.h"

#define OBJECT_BITS_SHIFT 49 /* of a hash of 64 bits */
#define STEP_BITS 26         /* and the address is above */
#define TOUCH_AFTER 128u     /* rules: then the whole table gets memory, since new rules have places all over it */
#define LOOK_EVERY 4096u
#define LOOK_PLACES 256u
#define LOOK_TURN_SHIFT 48 /* addresses are below */
#define STEP_NEAR ((uintptr_t)1 << (STEP_BITS - STEP_ADDRESS_SHIFT))

struct rules_bucket *rules_table;
_Atomic uint64_t *rules_steps;

/* What a place has that no address leads to: the places of the lowest ones would be steps. */
static uint64_t no_step(uintptr_t place)
{
    return place < STEP_BP_WORDS ? rules_mix_step(place, STEP_NONE) : 0;
}

static COLD void begin_steps(void)
{
    rules_steps = meta_map(sizeof *rules_steps * STEPS);
    for (uintptr_t i = 0; rules_steps && i < STEP_BP_WORDS; i++)
        store_relaxed(&rules_steps[i], no_step(i));
}

COLD int rules_boot(void)
{
    if (!rules_table)
        rules_table = meta_map(sizeof *rules_table * RULES_BUCKETS);
    if (!rules_steps)
        begin_steps();
    return rules_table && rules_steps ? 0 : -ENOMEM;
}

/* ---- The table ---- */

static uint64_t pack(const struct unwind_rule *rule, uint64_t object)
{
    return (uint64_t)rule->kind | (uint64_t)rule->bp_kind << 3 | object | ((uint64_t)(uint32_t)rule->bp & 0xfffff) << 20 |
           (uint64_t)(uint32_t)rule->cfa << 40;
}

static void store(uintptr_t return_address, uint64_t rule)
{
    static _Atomic uint32_t turn, n_stored;
    struct rules_bucket *bucket = rules_bucket_of(return_address);
    unsigned i = 0;
    while (i < RULES_WAYS && load_relaxed(&bucket->entries[i].mixed) != load_relaxed(&bucket->entries[i].rule))
        i++; /* an entry for the address 0 is free */
    if (i == RULES_WAYS)
        i = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed) % RULES_WAYS;
    store_relaxed(&bucket->entries[i].rule, rule);
    store_relaxed(&bucket->entries[i].mixed, return_address ^ rule);
    if (atomic_fetch_add_explicit(&n_stored, 1, memory_order_relaxed) == TOUCH_AFTER)
        meta_touch(rules_table, sizeof *rules_table * RULES_BUCKETS);
}

/* ---- New rules ---- */

static uint64_t bits_of(const struct object *object)
{
    return object->identity ? (object->identity >> OBJECT_BITS_SHIFT | 1) << RULE_OBJECT_SHIFT : 0;
}

/* Finds the rule of generated code, by its instructions. */
static void look_at_code(uintptr_t return_address, struct unwind_rule *rule)
{
    unsigned char code[EPILOGUE_BYTES];
    epilogue_find(code, stack_pages_copy(code, return_address, sizeof code), rule);
}

/* Finds the rule of the code before a return address, and the bits of its object. */
static void look_for_rule(uintptr_t return_address, struct unwind_rule *rule, uint64_t *bits)
{
#ifdef __x86_64__
    struct object object;
    struct object_rules rules;
    if (!object_find_rules(return_address - 1, &object, &rules))
        look_at_code(return_address, rule);
    if (rules.eh_frame.header)
        eh_frame_find(&rules.eh_frame, return_address - 1, rule);
    if (rules.sframe.start && rule->kind == UNWIND_UNKNOWN)
        sframe_find(&rules.sframe, return_address - 1, rule);
    *bits = bits_of(&object);
#else
    struct object object;
    if (object_find(return_address - 1, &object))
        *bits = bits_of(&object);
    if (RULES_ARE_FRAME_POINTERS)
        *rule = (struct unwind_rule){UNWIND_BP, UNWIND_BP_AT_CFA, 2 * sizeof(uintptr_t), -2 * (int32_t)sizeof(uintptr_t)};
#endif
}

COLD uint64_t rules_make(uintptr_t return_address)
{
    struct unwind_rule rule = {.kind = UNWIND_UNKNOWN};
    uint64_t bits = 0;
    int saved = errno;
    if (!objects_can_be_found())
        return pack(&rule, bits);
    if (return_address > 1)
        look_for_rule(return_address, &rule, &bits);
    errno = saved;
    uint64_t packed = pack(&rule, bits);
    store(return_address, packed);
    return packed;
}

/* ---- Steps ---- */

static uint64_t step_of_sp(uint64_t rule)
{
    const int64_t word = sizeof(uintptr_t);
    int64_t cfa = rule_cfa(rule), bp = -rule_bp(rule);
    if (cfa <= 0 || cfa % word || cfa / word > UINT16_MAX)
        return STEP_NONE;
    if (rule_bp_kind(rule) == UNWIND_BP_SAME)
        return (uint64_t)(cfa / word);
    if (rule_bp_kind(rule) != UNWIND_BP_AT_CFA || bp <= 0 || bp > cfa || bp % word || bp / word >= STEP_BP_WORDS)
        return STEP_NONE;
    return (STEP_BP_WORDS - (uint64_t)(bp / word)) << STEP_BP_SHIFT | (uint64_t)(cfa / word);
}

static uint64_t step_of(uint64_t rule)
{
    if (RULES_ARE_FRAME_POINTERS)
        return STEP_NONE; /* a walk that only hashes does not know where frame pointers end */
    if (rule_kind(rule) == UNWIND_SP)
        return step_of_sp(rule);
    if ((rule & ~RULE_OBJECT_MASK) == RULE_FRAME_POINTER)
        return STEP_FRAME_POINTER;
    return rule_kind(rule) == UNWIND_END ? STEP_END : STEP_NONE;
}

COLD bool rules_make_step(uintptr_t return_address)
{
    uint64_t step = return_address ? step_of(rules_find(return_address)) : STEP_END;
    if ((return_address << STEP_ADDRESS_SHIFT) >> STEP_ADDRESS_SHIFT != return_address)
        return false;
    store_relaxed(&rules_steps[return_address % STEPS], rules_mix_step(return_address, step));
    return true;
}

/* Corrects the step of a rule that has changed, and returns false. */
static bool check_step(uintptr_t return_address, uint64_t rule)
{
    _Atomic uint64_t *place = &rules_steps[return_address % STEPS];
    uint64_t step = rules_mix_step(return_address, load_relaxed(place)), right = step_of(rule);
    if (step > STEP_END || step == right)
        return true; /* the place has another address, or the right step */
    store_relaxed(place, rules_mix_step(return_address, right));
    return false;
}

/* ---- Checks ---- */

static void forget(uintptr_t return_address)
{
    struct rules_bucket *bucket = rules_bucket_of(return_address);
    for (int i = 0; i < RULES_WAYS; i++)
        if ((load_relaxed(&bucket->entries[i].mixed) ^ load_relaxed(&bucket->entries[i].rule)) == return_address)
            store_relaxed(&bucket->entries[i].mixed, load_relaxed(&bucket->entries[i].rule));
}

/* A look at code is a system call, and code is seldom replaced. So an address is looked at once in so many checks. */
static bool was_looked_at(uintptr_t return_address)
{
    static _Atomic uint64_t looked[LOOK_PLACES];
    static _Atomic uint32_t n_checks;
    uint64_t turn = atomic_fetch_add_explicit(&n_checks, 1, memory_order_relaxed) / LOOK_EVERY;
    uint64_t mark = (uint64_t)return_address ^ turn << LOOK_TURN_SHIFT;
    _Atomic uint64_t *place = &looked[(return_address >> 4 ^ return_address >> 12) % LOOK_PLACES];
    bool was = load_relaxed(place) == mark;
    store_relaxed(place, mark);
    return was;
}

/* Other code may have been generated there. A rule that follows the frame pointer does no harm then. */
static bool is_code_same(uintptr_t return_address, uint64_t rule)
{
    struct unwind_rule now = {.kind = UNWIND_UNKNOWN};
    if (RULES_ARE_FRAME_POINTERS || rule_kind(rule) == UNWIND_UNKNOWN || was_looked_at(return_address))
        return true;
    look_at_code(return_address, &now);
    return pack(&now, 0) == rule;
}

static const struct object *find_known(const struct rules_objects *objects, const struct object *object)
{
    for (const struct object *known = objects->all; known < objects->all + RULES_OBJECTS; known++)
        if (known->start == object->start && known->bytes == object->bytes && known->link_map == object->link_map)
            return known;
    return NULL;
}

/* Generated code between two frames of an object does not make that one be found again. */
static struct object object_at(uintptr_t address, struct rules_objects *objects)
{
    struct object found;
    if (address - objects->last.start < objects->last.bytes)
        return objects->last;
    if (!object_find_quick(address, &found))
        return found;
    const struct object *known = find_known(objects, &found);
    if (known)
        found = *known;
    else if (object_find(address, &found))
        objects->all[objects->n++ % RULES_OBJECTS] = found;
    return objects->last = found;
}

COLD bool rules_check(uintptr_t return_address, struct rules_objects *objects)
{
    struct object object = object_at(return_address - 1, objects);
    if (object.stays)
        return true;
    uint64_t rule = rules_find(return_address);
    if ((rule & RULE_OBJECT_MASK) == bits_of(&object) && (object.bytes || is_code_same(return_address, rule)))
        return check_step(return_address, rule);
    forget(return_address);
    return false;
}

/* A step tells the bits of its address from 26 on upwards. */
COLD void rules_forget_code(uintptr_t start, uintptr_t end)
{
    for (uintptr_t i = 0; rules_table && i < RULES_BUCKETS; i++)
        for (unsigned way = 0; way < RULES_WAYS; way++) {
            uint64_t rule = load_relaxed(&rules_table[i].entries[way].rule);
            uintptr_t address = load_relaxed(&rules_table[i].entries[way].mixed) ^ rule;
            if (address > start && address <= end)
                store_relaxed(&rules_table[i].entries[way].mixed, rule);
        }
    for (uintptr_t i = 0; rules_steps && i < STEPS; i++) {
        uintptr_t near = load_relaxed(&rules_steps[i]) >> STEP_BITS << (STEP_BITS - STEP_ADDRESS_SHIFT);
        if (near >= (start & -STEP_NEAR) && near <= end)
            store_relaxed(&rules_steps[i], no_step(i));
    }
}
