/* SPDX-License-Identifier: BSD-2-Clause */
/* Walks the stack of the calling thread. */
#include "stacks/unwind.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

#include "base/compiler.h"
#include "stacks/unwind_rules.h"

/* Places in what the kernel leaves for a signal handler on x86-64 (struct rt_sigframe), from its struct ucontext on. */
#define SIGNAL_BP 120
#define SIGNAL_SP 160
#define SIGNAL_PC 168

#define PAGE_BYTES ((uintptr_t)4096)
#define LARGEST_FRAME ((uintptr_t)64 << 20)

static uintptr_t own_start, own_end; /* the library's code; empty in a static program */

COLD void unwind_boot(void)
{
    struct dl_find_object object;
    if (_dl_find_object((void *)(uintptr_t)unwind_boot, &object) || !object.dlfo_link_map->l_name || !object.dlfo_link_map->l_name[0])
        return;
    own_start = (uintptr_t)object.dlfo_map_start;
    own_end = (uintptr_t)object.dlfo_map_end;
}

struct walk {
    uintptr_t low, high; /* can be read: the thread's own stack from `own_used` on, or the page that was tested last */
    struct stack_bounds own;
    uintptr_t own_used; /* the lowest address of the own stack that is known to be in use */
    uintptr_t pc, sp, bp;
};

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
static inline bool leave_frame(struct walk *w, uintptr_t cfa, uint64_t rule)
{
    uintptr_t bp = w->bp;
    if (unlikely(cfa - w->sp - 1 >= LARGEST_FRAME))
        return false;
    if (unlikely(!read_word(w, cfa - sizeof cfa, &w->pc)))
        return false;
    if (rule_bp_kind(rule) == UNWIND_BP_AT_CFA) {
        if (unlikely(!read_word(w, cfa + (uintptr_t)rule_bp(rule), &w->bp)))
            return false;
    } else if (unlikely(rule_bp_kind(rule) == UNWIND_BP_AT_BP) && !read_word(w, bp + (uintptr_t)rule_bp(rule), &w->bp)) {
        return false;
    }
    w->sp = cfa;
    return true;
}

/* No rule: a frame pointer that points up the stack to another one may lead on, as in code that was generated. */
static COLD bool leave_by_frame_pointer(struct walk *w)
{
    uintptr_t bp = w->bp, caller_bp;
    if (bp < w->sp || bp - w->sp >= LARGEST_FRAME || !read_word(w, bp, &caller_bp) || !read_word(w, bp + sizeof bp, &w->pc))
        return false;
    w->sp = bp + 2 * sizeof bp;
    w->bp = caller_bp;
    return true;
}

/* The handler may have run on a stack of its own. The interrupted instruction did not return from a call, so its address
 * is raised by one: all other addresses follow a call. */
static COLD bool leave_signal(struct walk *w)
{
    uintptr_t frame = w->sp;
    if (!read_word(w, frame + SIGNAL_BP, &w->bp) || !read_word(w, frame + SIGNAL_SP, &w->sp) || !read_word(w, frame + SIGNAL_PC, &w->pc))
        return false;
    w->pc++;
    return true;
}

static inline bool leave(struct walk *w, uint64_t rule)
{
    uintptr_t cfa;
    switch (rule_kind(rule)) {
    case UNWIND_SP:
        return leave_frame(w, w->sp + (uintptr_t)rule_cfa(rule), rule);
    case UNWIND_BP:
        return leave_frame(w, w->bp + (uintptr_t)rule_cfa(rule), rule);
    case UNWIND_DEREF_BP:
        return read_word(w, w->bp + (uintptr_t)rule_cfa(rule), &cfa) && leave_frame(w, cfa, rule);
    case UNWIND_SIGNAL:
        return leave_signal(w);
    default:
        return leave_by_frame_pointer(w);
    }
}

static inline uint64_t mix(uint64_t hash, uintptr_t pc)
{
    hash = (hash ^ pc) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 29;
}

/* The frame that the caller's compiler laid out: the caller's frame pointer, then the return address. */
__attribute__((no_sanitize("address", "thread"))) void unwind_from(struct unwind *u, const void *frame, uint32_t most)
{
    const uintptr_t *record = frame;
    struct walk w = {.own = u->bounds, .own_used = u->bounds.high, .pc = record[1], .sp = (uintptr_t)(record + 2), .bp = record[0]};
    if (w.sp >= w.own.low && w.sp < w.own.high)
        use_own_stack(&w, (uintptr_t)record);
    u->n = 0;
    u->hash = 0;
    u->ends_early = false;
    while (w.pc) {
        uint64_t rule = rules_find(w.pc);
        if (likely(w.pc - own_start >= own_end - own_start) || u->n) {
            u->frames[u->n++] = w.pc;
            u->hash = mix(u->hash, w.pc);
            if (u->n == most)
                return;
        }
        if (rule_kind(rule) == UNWIND_END)
            return;
        if (unlikely(!leave(&w, rule))) {
            u->ends_early = true;
            return;
        }
    }
}

COLD bool unwind_check(const struct unwind *u)
{
    bool same = true;
    for (uint32_t i = 0; i < u->n; i++)
        same &= rules_check(u->frames[i]);
    return same;
}
