/* SPDX-License-Identifier: BSD-2-Clause */
/* Walks with a trail find what walks by rules find: on stacks that are made up of real return addresses, and that have more or less of
 * their outer frames in common with the stack before. SEED=N starts with other ones. */
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "stacks/stack_bounds.h"
#include "stacks/unwind.h"
#include "stacks/unwind_rules.h"

enum { WORDS = 32768, FRAMES = 400, ROUNDS = 1000000, POOL = 64, DEPTH = 40, NEAR = 10 };
#define NOINLINE_TEST __attribute__((noinline))
#define KEEP(x) __asm__ volatile("" : : "r"(x) : "memory")

static uint64_t seed = 20261130;
static struct unwind walk;
static struct trail trail;

static uint64_t draw(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (seed >> 8) % n;
}

/* ---- Return addresses of frames of all usual kinds ---- */

static struct {
    uintptr_t pc;
    uint64_t step;
} pool[POOL];
static unsigned n_pool;
static uintptr_t end_pc;

static void add_to_pool(uintptr_t pc)
{
    for (unsigned i = 0; i < n_pool; i++)
        if (pool[i].pc == pc)
            return;
    if (n_pool == POOL || !rules_make_step(pc))
        return;
    uint64_t step = rules_mix_step(pc, load_relaxed(&rules_steps[pc % STEPS]));
    if (step == STEP_END)
        end_pc = pc;
    if (step > STEP_FRAME_POINTER)
        return;
    pool[n_pool].pc = pc;
    pool[n_pool++].step = step;
}

NOINLINE_TEST static void look(void)
{
    walk.bounds = (struct stack_bounds){0};
    stack_bounds_find(&walk.bounds, (uintptr_t)__builtin_frame_address(0));
    unwind_from(&walk, __builtin_frame_address(0), DEPTH);
    for (uint32_t i = 0; i < walk.n; i++)
        add_to_pool(walk.frames[i]);
}

#define FRAME(name, room, next)                                                                                        \
    NOINLINE_TEST static int name(int n)                                                                               \
    {                                                                                                                  \
        room;                                                                                                          \
        KEEP(place);                                                                                                   \
        int result = next;                                                                                             \
        KEEP(place);                                                                                                   \
        return result + 1;                                                                                             \
    }
FRAME(innermost, volatile char place[8], (look(), n))
FRAME(small, volatile char place[24], innermost(n) + innermost(n + 1))
FRAME(large, volatile char place[400], small(n) + innermost(n))
FRAME(by_pointer, char *place = alloca(16 * (size_t)n + 16), large(n) + small(n))
FRAME(by_pointer_too, char *place = alloca(16 * (size_t)n + 16), by_pointer(n) + large(n))
/* The frame pointer is saved and used for something else. */
FRAME(saving, volatile long place[6] = {n}, by_pointer_too(n) + (int)(place[0] * place[1] + place[2] * by_pointer(n) + place[3]))

/* ---- Stacks ---- */

struct made {
    unsigned kind; /* in the pool */
    unsigned gap;  /* words below the saved frame pointer, by which the frame is left */
};
static struct made made[FRAMES]; /* the outermost first */
static struct {
    unsigned from, to; /* the word that has the frame pointer by which a frame is left, and where that leads */
} links[FRAMES];
static unsigned n_links;
static unsigned n_made;
static uintptr_t words[WORDS];
static unsigned first; /* the place of the innermost return address */

static bool is_by_pointer(const struct made *m)
{
    return pool[m->kind].step == STEP_FRAME_POINTER;
}

/* From the return address of the frame to that of the next one. */
static unsigned words_of(const struct made *m)
{
    return is_by_pointer(m) ? m->gap + 2 : (uint16_t)load_relaxed(&rules_steps[pool[m->kind].pc % STEPS]);
}

/* Writes the return addresses, and the frame pointers that lead from one to the next. */
static void write_stack(void)
{
    unsigned at = WORDS - 2, size = 0;
    words[at] = end_pc;
    for (unsigned i = 0; i < n_made; i++)
        size += words_of(&made[i]);
    at = first = at - size;
    unsigned bp_at = first - 1;
    n_links = 0;
    words[bp_at] = draw(100);
    for (unsigned i = n_made; i > 0; i--) {
        const struct made *m = &made[i - 1];
        uint64_t bp_words = is_by_pointer(m) ? 0 : pool[m->kind].step >> STEP_BP_SHIFT;
        words[at] = pool[m->kind].pc;
        if (is_by_pointer(m)) {
            unsigned place = at + 1 + m->gap;
            links[n_links].from = bp_at;
            links[n_links++].to = place;
            words[bp_at] = (uintptr_t)&words[place];
            bp_at = place;
        }
        at += words_of(m);
        if (bp_words)
            bp_at = at + 1 + (unsigned)bp_words - STEP_BP_WORDS;
        if (bp_words || is_by_pointer(m))
            words[bp_at] = draw(100);
    }
}

static void make(unsigned from, unsigned n)
{
    for (n_made = from; n_made < n; n_made++)
        made[n_made] = (struct made){(unsigned)draw(n_pool), (unsigned)draw(6)};
}

/* One word differs: a frame pointer that leads past some frames. */
static void take_shortcut(void)
{
    unsigned i = (unsigned)draw(n_links), to = i + (unsigned)draw(n_links - i);
    words[links[i].from] = (uintptr_t)&words[links[to].to];
}

/* One word differs: another call in a frame of the same size. */
static void change_call(struct made *m)
{
    unsigned kind = (unsigned)draw(n_pool);
    if (pool[kind].step == pool[m->kind].step)
        m->kind = kind;
}

/* The innermost frames are others, and there are some more of them, or less. */
static void change_innermost(void)
{
    static unsigned least = 6; /* of `more`: stacks become deeper for a while, or less deep */
    if (draw(100) == 0)
        least = (unsigned)draw(12);
    make(n_made - (unsigned)draw(n_made < 12 ? n_made + 1 : 12), n_made);
    unsigned more = least + (unsigned)draw(13), n = n_made + more > 12 ? n_made + more - 12 : 0;
    make(n < n_made ? n : n_made, n < FRAMES ? n : FRAMES);
}

/* For a while nothing else changes, so that trails become long. */
static void change(void)
{
    static bool is_calm;
    if (draw(200) == 0)
        is_calm = draw(2);
    if (is_calm) {
        change_innermost();
    } else if (draw(200) == 0) {
        make(0, (unsigned)draw(draw(2) ? FRAMES : 80));
    } else if (draw(2) == 0 && n_made) {
        for (int i = 0; i < 5; i++)
            change_call(&made[draw(n_made)]);
    } else {
        change_innermost();
    }
    if (!is_calm && n_made && draw(6) == 0)
        made[draw(n_made)] = (struct made){(unsigned)draw(n_pool), (unsigned)draw(6)};
    write_stack();
    if (!is_calm && draw(3) == 0 && n_links)
        take_shortcut();
}

static void test_made_stacks(void **state)
{
    (void)state;
    if (UNDER_ASAN || UNDER_TSAN || RULES_ARE_FRAME_POINTERS)
        skip(); /* frames are of other kinds */
    saving(3);
    assert_true(n_pool > 8 && end_pc);
    unsigned n_same = 0, n_cut = 0, n_joined = 0;
    uint32_t most = 64;
    walk.bounds = (struct stack_bounds){(uintptr_t)words, (uintptr_t)(words + WORDS), true};
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint64_t hash;
        change();
        if (draw(100) == 0)
            most = 2 + (uint32_t)draw(70);
        const uintptr_t *record = &words[first - 1];
        unwind_from(&walk, record, most);
        trail.walked[NEAR].pc = 0;
        trail.rest = 0;
        assert_true(unwind_hash(&walk.bounds, record, most, &trail, &hash));
        if (hash != walk.hash)
            fail_msg("round %u: %u frames, of which at most %u", round, n_made, most);
        n_same++;
        n_cut += walk.n == most;
        n_joined += walk.n > 2 * NEAR && !trail.walked[NEAR].pc;
    }
    assert_true(n_same == ROUNDS && n_cut > ROUNDS / 10 && n_joined > ROUNDS / 10);
}

static int setup(void **state)
{
    (void)state;
    if (getenv("SEED"))
        seed = strtoull(getenv("SEED"), NULL, 10);
    unwind_boot();
    trail_clear(&trail);
    return rules_boot();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_made_stacks)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
