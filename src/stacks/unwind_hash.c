/* SPDX-License-Identifier: BSD-2-Clause */
/* The hash of a stack of usual frames. */
#include "stacks/unwind.h"
#include "stacks/unwind_rules.h"

#define LARGEST_STACK ((uintptr_t)64 << 20)

/* The low 16 bits of a word, on a little-endian machine. A load of their own gives them two cycles earlier than a load of the word and an
 * instruction that cuts them out. */
typedef uint16_t low_bits_t __attribute__((may_alias));
_Static_assert(STEPS == UINT16_MAX + 1u, "the place of a step");

__attribute__((no_sanitize("address", "thread"), always_inline))
static inline uintptr_t low_bits_at(uintptr_t at)
{
    return __atomic_load_n((const low_bits_t *)at, __ATOMIC_RELAXED);
}

/* All that changes is in variables of one function. By the stack pointer, a frame waits for three instructions in the frame before: the
 * load of a place in the table of steps, the load of a number of words there, and an addition. So these two loads are of 16 bits each. */
__attribute__((no_sanitize("address", "thread"), always_inline))
static inline bool hash_with(const struct stack_bounds *own, const void *frame, uint32_t most, struct trail *trail, uint64_t *result)
{
    const uintptr_t high = own->high, begin = (uintptr_t)frame;
    const _Atomic uint64_t *const steps = rules_steps;
    uintptr_t pc = trail_there(begin + sizeof pc), sp = begin + 2 * sizeof sp;
    uintptr_t place = low_bits_at(begin + sizeof pc); /* pc % STEPS */
    uintptr_t bp_at = begin; /* where the frame pointer is saved. It is read when it is used */
    bool is_end = false, is_inside = unwind_is_own(pc); /* our own frames at the inner end are not counted */
    size_t i = 0, last = most - 1 + is_inside, stop = is_inside ? 1 : last;
    uint32_t j = trail && trail->n && trail->at[1] < high ? trail->n : 0, known = UINT32_MAX;
    uint32_t n_below = 0, went_on = 0; /* where the walk joined the trail, and where it left that again; 0: it did not */
    uint64_t hash = pc * trail_powers[0];
    if (unlikely(begin < own->low || sp >= high || high - begin > LARGEST_STACK || !last))
        return false;
    for (;;) {
        uintptr_t at = sp - sizeof pc;
        uint32_t room = (uint32_t)(last - i);
        if (trail && unlikely(at >= trail->at[j]) && !is_inside &&
            trail_joins(trail, &j, &known, (struct trail_place){at, pc, bp_at, room, hash, trail_powers[i + 1]}, &hash)) {
            uint32_t n = trail_taken(j, room);
            if (likely(n == room) || likely(trail->is_whole)) {
                trail_add(trail, (uint32_t)i, j);
                *result = hash;
                return true;
            }
            n_below = (uint32_t)i;
            i += n;
            went_on = (uint32_t)i + 1;
            if (trail->saver && trail->saver <= j)
                bp_at = trail->outer_bp_at;
            j = 0;
            at = trail->at[1];
            sp = at + sizeof sp;
            pc = trail->words[0];
            place = pc % STEPS;
        }
        struct trail_frame none, *walked = trail ? &trail->walked[i] : &none;
        *walked = (struct trail_frame){.at = at, .pc = pc};
        uint64_t word = load_relaxed(&steps[pc % STEPS]), step = rules_mix_step(pc, word);
        if (likely(step < STEP_FRAME_POINTER)) {
            uintptr_t words = low_bits_at((uintptr_t)&steps[place]), bp_words = step >> STEP_BP_SHIFT;
            sp += words * sizeof sp;
            if (unlikely(sp > high) || unlikely(words != (uint16_t)word)) /* another thread has just written there */
                return false;
            if (bp_words)
                walked->bp_at = bp_at = sp + bp_words * sizeof sp - STEP_BP_WORDS * sizeof sp;
            place = low_bits_at(sp - sizeof pc);
            pc = trail_there(sp - sizeof pc);
        } else if (likely(step == STEP_FRAME_POINTER)) {
            uintptr_t bp = trail_there(bp_at);
            if (unlikely(bp < sp || bp > high - 2 * sizeof bp))
                return false;
            walked->bp_used = walked->bp_at = bp_at = bp;
            sp = bp + 2 * sizeof bp;
            pc = trail_there(bp + sizeof bp);
            place = pc % STEPS;
        } else if (step == STEP_END) {
            if (unlikely(sp % sizeof sp)) /* where a frame pointer was garbage, and zeros were there */
                return false;
            is_end = true;
            break;
        } else if (step == STEP_NONE || !rules_make_step(pc)) {
            return false;
        } else {
            continue; /* with the step that was made */
        }
        hash += pc * trail_powers[++i];
        if (unlikely(i == stop)) {
            is_inside = is_inside && unwind_is_own(pc);
            last += is_inside;
            if (i == last)
                break;
            if (last == TRAIL_MOST)
                return false;
            stop = is_inside ? i + 1 : last;
        }
    }
    if (trail && went_on) {
        trail_went_on(trail, n_below, (uint32_t)i + 1 - went_on);
    } else if (trail) {
        trail->walked[i] = (struct trail_frame){.at = sp - sizeof pc, .pc = pc};
        trail->is_whole = is_end;
        trail_add(trail, (uint32_t)i + 1, 0);
    }
    *result = hash;
    return true;
}

__attribute__((no_sanitize("address", "thread")))
static NOINLINE bool hash_without(const struct stack_bounds *own, const void *frame, uint32_t most, uint64_t *result)
{
    return hash_with(own, frame, most, NULL, result);
}

__attribute__((no_sanitize("address", "thread")))
bool unwind_hash(const struct stack_bounds *own, const void *frame, uint32_t most, struct trail *trail, uint64_t *result)
{
    if (likely(!trail->rest))
        return hash_with(own, frame, most, trail, result);
    trail->rest--;
    return hash_without(own, frame, most, result);
}
