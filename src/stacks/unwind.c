/* SPDX-License-Identifier: BSD-2-Clause */
/* Walks the stack of the calling thread. */
#include "stacks/unwind.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

#include "base/compiler.h"
#include "stacks/unwind_rules.h"

/* Offsets in the frame that the kernel makes for a signal handler on x86-64 (struct rt_sigframe), from its struct
 * ucontext on. */
#define SIGNAL_BP 120
#define SIGNAL_SP 160
#define SIGNAL_PC 168

#define PAGE_BYTES ((uintptr_t)4096)
#define LARGEST_FRAME ((uintptr_t)64 << 20)
#define SWITCHES_MOST 8u /* of a walk from one stack to another */

uintptr_t unwind_own_start, unwind_own_end;

COLD void unwind_boot(void)
{
    struct dl_find_object object;
    if (layout_factors[0])
        return; /* other threads may read them now */
    for (uint64_t i = 0, x = 0; i < LAYOUT_FACTORS; i++) {
        uint64_t z = x += 0x9e3779b97f4a7c15u;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        layout_factors[i] = (z ^ z >> 31) | 1;
    }
    trail_powers[0] = 1;
    for (uint32_t i = 0; i < TRAIL_MOST; i++)
        trail_powers[i + 1] = trail_powers[i] * layout_factors[0];
    if (_dl_find_object((void *)(uintptr_t)unwind_boot, &object) || !object.dlfo_link_map->l_name || !object.dlfo_link_map->l_name[0])
        return;
    unwind_own_start = (uintptr_t)object.dlfo_map_start;
    unwind_own_end = (uintptr_t)object.dlfo_map_end;
}

struct walk {
    uintptr_t low, high; /* can be read: the thread's own stack from `own_used` on, or the page that was tested last */
    struct stack_bounds own;
    uintptr_t own_used; /* the lowest address of the own stack that is known to be in use */
    uintptr_t pc, sp, bp;
    uintptr_t begin, room; /* positions of the layout lie in `room` bytes from `begin` on; 0: no layout */
    uintptr_t pc_at, bp_at; /* where they were read */
    bool bp_is_noted;
    uint32_t steps, checks;
    uint32_t switches; /* to other stacks */
    uint64_t hash, id;
    struct layout_notes *notes;
};

/* ---- The layout ---- */

/* Adds the return address that was just read. A layout without room for it becomes invalid. */
HOT_INLINE void note_pc(struct walk *w)
{
    uint32_t step = w->steps++;
    uint64_t factor = layout_factors[step % LAYOUT_FACTORS];
    uintptr_t offset = w->pc_at - w->begin;
    w->hash += w->pc * trail_powers[step % TRAIL_MOST];
    w->id += offset * (factor << 1 | 1);
    if (likely(offset < w->room && step < LAYOUT_STEPS))
        w->notes->steps_at[step] = (uint16_t)(offset / sizeof w->pc);
    else
        w->room = 0;
}

/* The word at `at` has to have the value. */
HOT_INLINE void note_check(struct walk *w, uintptr_t at, uintptr_t value)
{
    uint32_t check = w->checks++;
    at -= w->begin;
    w->id += (at << 32 ^ (value - w->begin)) * (layout_factors[(check + LAYOUT_FACTORS / 2) % LAYOUT_FACTORS] << 1 | 1);
    if (likely(at < w->room && check < LAYOUT_STEPS))
        w->notes->checks_at[check] = (uint16_t)(at / sizeof at);
    else
        w->room = 0;
}

/* The frame pointer is used. */
HOT_INLINE void note_bp(struct walk *w)
{
    if (!w->bp_is_noted)
        note_check(w, w->bp_at, w->bp);
    w->bp_is_noted = true;
}

HOT_INLINE void set_bp(struct walk *w, uintptr_t at, uintptr_t bp)
{
    w->bp = bp;
    w->bp_at = at;
    w->bp_is_noted = false;
}

/* ---- Frames ----
 *
 * Where these are inlined into a function that is not sanitized, nothing would take the marks of their variables back. So
 * none of them is sanitized. */

/* The main thread's stack is not mapped below the part that was used. */
static void use_own_stack(struct walk *w, uintptr_t from)
{
    w->own_used = w->low = from;
    w->high = w->own.high;
}

__attribute__((no_sanitize("address", "thread"))) static COLD bool read_elsewhere(struct walk *w, uintptr_t at, uintptr_t *value)
{
    if (at < PAGE_BYTES || at > UINTPTR_MAX - PAGE_BYTES)
        return false;
    if (at >= w->own_used && at < w->own.high) {
        use_own_stack(w, w->own_used);
    } else if (!stack_page_is_readable(at)) {
        return false;
    } else if (at >= w->own.low && at < w->own.high) {
        use_own_stack(w, at & ~(PAGE_BYTES - 1));
    } else {
        w->low = at & ~(PAGE_BYTES - 1);
        w->high = w->low + PAGE_BYTES;
    }
    *value = *(const volatile uintptr_t *)at;
    return true;
}

/* Stacks are aligned, so a word never crosses a page. */
__attribute__((no_sanitize("address", "thread"), always_inline))
static inline bool read_word(struct walk *w, uintptr_t at, uintptr_t *value)
{
    if (unlikely(at & (sizeof at - 1)))
        return false;
    if (unlikely(at - w->low >= w->high - w->low))
        return read_elsewhere(w, at, value);
    *value = *(const volatile uintptr_t *)at;
    return true;
}

/* The canonical frame address has to lie above the present stack pointer. */
__attribute__((no_sanitize("address", "thread")))
HOT_INLINE bool leave_frame(struct walk *w, uintptr_t cfa, uint64_t rule)
{
    uintptr_t at, bp;
    if (unlikely(cfa - w->sp - 1 >= LARGEST_FRAME))
        return false;
    w->pc_at = cfa - sizeof cfa;
    if (unlikely(!read_word(w, w->pc_at, &w->pc)))
        return false;
    w->pc = CODE_ADDRESS(w->pc);
    w->sp = cfa;
    if (rule_bp_kind(rule) == UNWIND_BP_SAME)
        return true;
    if (likely(rule_bp_kind(rule) == UNWIND_BP_AT_CFA)) {
        at = cfa + (uintptr_t)rule_bp(rule);
    } else {
        note_bp(w);
        at = w->bp + (uintptr_t)rule_bp(rule);
    }
    if (unlikely(!read_word(w, at, &bp)))
        return false;
    set_bp(w, at, bp);
    return true;
}

/* A frame pointer, and the return address above it. */
struct frame {
    uintptr_t bp, pc;
};

/* Whether this may be what lies at a place of a stack: the caller's frame lies above, and its code is in an object. */
static bool is_frame(uintptr_t at, const struct frame *frame)
{
    struct object object;
    return (!frame->bp || frame->bp - at - 1 < LARGEST_FRAME) && object_find_quick(frame->pc - 1, &object);
}

/* The memory may be anything, so the kernel reads it. */
__attribute__((no_sanitize("address", "thread")))
static bool copy_frame(uintptr_t at, struct frame *frame)
{
    return at >= PAGE_BYTES && !(at % sizeof at) && stack_pages_copy(frame, at, sizeof *frame) == sizeof *frame;
}

/* Code that calls a function on another stack, as Go does for C, may leave the frame pointer of the stack that it came from. Any other
 * value of that register may lead somewhere too, so two frames there have to be right. */
__attribute__((no_sanitize("address", "thread")))
static COLD bool leads_to_other_stack(struct walk *w, uintptr_t bp)
{
    struct object object;
    struct frame frame, caller;
    if (w->switches++ == SWITCHES_MOST || !object_find_quick(w->pc - 1, &object) || !copy_frame(bp, &frame) || !is_frame(bp, &frame))
        return false;
    return !frame.bp || (read_word(w, frame.bp, &caller.bp) && read_word(w, frame.bp + sizeof bp, &caller.pc) &&
                         is_frame(frame.bp, &caller));
}

/* Without a rule, follows the frame pointer if it points up the stack to another one, as in generated code. */
__attribute__((no_sanitize("address", "thread")))
static COLD bool leave_by_frame_pointer(struct walk *w)
{
    uintptr_t bp = w->bp, caller_bp;
    note_bp(w);
    if (bp - w->sp >= LARGEST_FRAME && !leads_to_other_stack(w, bp))
        return false;
    if (!read_word(w, bp, &caller_bp) || !read_word(w, bp + sizeof bp, &w->pc))
        return false;
    w->pc = CODE_ADDRESS(w->pc);
    w->pc_at = bp + sizeof bp;
    w->sp = bp + 2 * sizeof bp;
    set_bp(w, bp, caller_bp);
    return true;
}

/* The handler may have run on a stack of its own. The interrupted instruction did not return from a call, so its address
 * is raised by one: all other addresses follow a call. */
__attribute__((no_sanitize("address", "thread")))
static COLD bool leave_signal(struct walk *w)
{
    uintptr_t frame = w->sp;
    w->room = 0; /* no layout: it would need the interrupted stack pointer too */
    if (!read_word(w, frame + SIGNAL_BP, &w->bp) || !read_word(w, frame + SIGNAL_SP, &w->sp) || !read_word(w, frame + SIGNAL_PC, &w->pc))
        return false;
    w->pc++;
    return true;
}

__attribute__((no_sanitize("address", "thread")))
static COLD bool leave_aligned(struct walk *w, uint64_t rule)
{
    uintptr_t at = w->bp + (uintptr_t)rule_cfa(rule), cfa;
    note_bp(w);
    if (!read_word(w, at, &cfa))
        return false;
    note_check(w, at, cfa);
    return leave_frame(w, cfa, rule);
}

__attribute__((no_sanitize("address", "thread")))
HOT_INLINE bool leave(struct walk *w, uint64_t rule)
{
    switch (rule_kind(rule)) {
    case UNWIND_SP:
        return leave_frame(w, w->sp + (uintptr_t)rule_cfa(rule), rule);
    case UNWIND_BP:
        note_bp(w);
        return leave_frame(w, w->bp + (uintptr_t)rule_cfa(rule), rule);
    case UNWIND_DEREF_BP:
        return leave_aligned(w, rule);
    case UNWIND_SIGNAL:
        return leave_signal(w);
    default:
        return leave_by_frame_pointer(w);
    }
}

/* Sets u->frames and all else but the hash and the layout, which are in *w. */
__attribute__((no_sanitize("address", "thread"), always_inline))
static inline void walk_frames(struct unwind *u, struct walk *w, uint32_t most)
{
    uint32_t n = 0;
    u->ends_early = false;
    for (note_pc(w); w->pc; note_pc(w)) {
        uint64_t rule = rules_find(w->pc);
        if (likely(!unwind_is_own(w->pc)) || n) {
            u->frames[n++] = w->pc;
            if (n == most)
                break;
        }
        if (RULES_ARE_FRAME_POINTERS && !w->bp) {
            note_bp(w);
            break;
        }
        if (rule_kind(rule) == UNWIND_END)
            break;
        if (unlikely(!leave(w, rule))) {
            u->ends_early = true;
            break;
        }
    }
    u->n = n;
}

/* The frame that the caller's compiler laid out: the caller's frame pointer, then the return address. */
__attribute__((no_sanitize("address", "thread"))) void unwind_from(struct unwind *u, const void *frame, uint32_t most)
{
    const uintptr_t *record = frame;
    struct walk w = {
        .own = u->bounds, .own_used = u->bounds.high, .pc = CODE_ADDRESS(record[1]), .sp = (uintptr_t)(record + 2), .bp = record[0],
        .begin = (uintptr_t)record, .pc_at = (uintptr_t)(record + 1), .bp_at = (uintptr_t)record, .notes = &u->notes};
    if (w.sp >= w.own.low && w.sp < w.own.high) {
        use_own_stack(&w, (uintptr_t)record);
        w.room = w.own.high - w.begin < LAYOUT_MOST_BYTES ? w.own.high - w.begin : LAYOUT_MOST_BYTES;
    }
    u->notes.pc = record[1];
    walk_frames(u, &w, most);
    u->hash = w.hash;
    u->has_layout = w.room && !u->ends_early && u->n;
    u->notes.id = w.id | 1;
    u->notes.begin = w.begin;
    u->notes.steps = w.steps;
    u->notes.checks = w.checks;
}

COLD bool unwind_check(struct unwind *u, uint64_t loads)
{
    bool same = true;
    if (!loads || loads != u->loads)
        u->objects = (struct rules_objects){0};
    u->loads = loads;
    u->objects.last = (struct object){0};
    for (uint32_t i = 0; i < u->n; i++)
        same &= rules_check(u->frames[i], &u->objects);
    return same;
}
