/* SPDX-License-Identifier: BSD-2-Clause */
/* Walks of the stack: the same frames as glibc's backtrace(), whatever is on the stack. */
#include <alloca.h>
#include <execinfo.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"
#include "stacks/eh_frame.h"
#include "stacks/stack_bounds.h"
#include "stacks/unwind.h"
#include "stacks/unwind_rules.h"

#define FRAMES 200
#define KEEP(x) __asm__ volatile("" : : "r"(x) : "memory")

static struct unwind walk;
static void *expected[FRAMES];
static int n_expected;
static unsigned looks, layouts_seen, checks_seen, pairs_seen, hashes_seen, joins_seen, words_seen;
static struct trail trail;
static uint64_t seed = 20261124;

/* Sanitizers replace backtrace() and signal handlers, and move frames to stacks of their own: there the walk only has to
 * end well. */
#define SANITIZED (UNDER_ASAN || UNDER_TSAN)
#define WITHOUT_HASHES (SANITIZED || RULES_ARE_FRAME_POINTERS)

static uint64_t draw(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

/* The word differs, so the layout does not fit. */
static void change_word(const struct layout *l, uint64_t hash, uint32_t at, uintptr_t by)
{
    volatile uintptr_t *word = (volatile uintptr_t *)l->begin + at;
    *word += by;
    assert_false(layout_is_same(l));
    assert_false(layout_hash(l) == hash);
    *word -= by;
}

/* A layout has all words that the walk read, and fits as long as they are there. */
__attribute__((noinline)) static void look_by_layout(void)
{
    static struct layout layout;
    if (SANITIZED || !walk.has_layout)
        return;
    layout_make(&layout, &walk.notes);
    uint64_t hash = layout_hash(&layout);
    assert_true(layout_is_same(&layout));
    assert_int_equal(layout.pairs % LAYOUT_UNROLL, 0);
    assert_int_equal(layout.singles % LAYOUT_UNROLL, 0);
    for (uint32_t i = 1; i < walk.notes.steps; i++)
        change_word(&layout, hash, walk.notes.steps_at[i], 4);
    for (uint32_t i = 0; i < walk.notes.checks; i++)
        change_word(&layout, hash, walk.notes.checks_at[i], 8);
    assert_true(layout_is_same(&layout));
    layout.pc += 4; /* the same stack below another call of malloc */
    assert_false(layout_hash(&layout) == hash);
    layouts_seen++;
    checks_seen += walk.notes.checks;
    pairs_seen += layout.pairs;
}

/* The hash of the same walk, where all frames are usual. The trail of the walk before leads to it, or this one's own. */
static void compare_hash(const void *frame, uint32_t most)
{
    uint64_t hash = 0;
    unwind_from(&walk, frame, most);
    trail.walked[0].pc = 0;
    if (!unwind_hash(&walk.bounds, frame, most, &trail, &hash))
        return;
    assert_int_equal(hash, walk.hash);
    assert_false(walk.ends_early);
    hashes_seen++;
    joins_seen += !trail.walked[0].pc;
}

/* Walks of all lengths use each other's trails. */
static void look_by_hash(const void *frame)
{
    compare_hash(frame, FRAMES);
    uint32_t n = walk.n;
    compare_hash(frame, FRAMES);
    for (uint32_t i = 0; i < 6 && n > 1; i++)
        compare_hash(frame, 1 + (uint32_t)(draw() % n));
    compare_hash(frame, FRAMES);
}

/* With another word at a place that the layout of the walk has. */
static void compare_changed(const void *frame, uint32_t at)
{
    volatile uintptr_t *word = (volatile uintptr_t *)frame + at;
    compare_hash(frame, FRAMES); /* the trail is that of the stack as it is */
    *word += 16;
    compare_hash(frame, FRAMES);
    *word -= 16;
    words_seen++;
}

/* Each word that leads from frame to frame matters, also to a walk that has the trail. */
static void look_by_trail(const void *frame)
{
    unwind_from(&walk, frame, FRAMES);
    if (SANITIZED || !walk.has_layout)
        return;
    const struct layout_notes notes = walk.notes;
    for (uint32_t i = 0; i < notes.steps; i++)
        compare_changed(frame, notes.steps_at[i]);
    for (uint32_t i = 0; i < notes.checks; i++)
        compare_changed(frame, notes.checks_at[i]);
}

/* Both walks begin here. Their own frame is left out: unwind_from() begins with the caller's, backtrace() with this one.
 * An interrupted instruction is one higher in ours. */
__attribute__((noinline)) static void look(void)
{
    walk.bounds = (struct stack_bounds){0};
    stack_bounds_find(&walk.bounds, (uintptr_t)__builtin_frame_address(0));
    n_expected = backtrace(expected, FRAMES);
    unwind_from(&walk, __builtin_frame_address(0), FRAMES);
    looks++;
    assert_true(walk.n > 0);
    look_by_hash(__builtin_frame_address(0));
    look_by_trail(__builtin_frame_address(0));
    unwind_from(&walk, __builtin_frame_address(0), FRAMES);
    look_by_layout();
    if (SANITIZED)
        return;
    assert_true(n_expected > 2);
    assert_false(walk.ends_early);
    int same = 0;
    for (int i = 1; i < n_expected && (unsigned)i <= walk.n; i++) {
        uintptr_t mine = walk.frames[i - 1], other = (uintptr_t)expected[i];
        same += mine == other || mine == other + 1;
    }
    assert_int_equal(same, n_expected - 1);
    assert_int_equal(walk.n, n_expected - 1);
    assert_true(unwind_check(&walk, 0));
}

__attribute__((noinline)) static int recurse(int depth)
{
    int result = depth ? recurse(depth - 1) + 1 : (look(), 0);
    KEEP(&result);
    return result;
}

__attribute__((noinline)) static int with_alloca(int n)
{
    char *p = alloca((size_t)n);
    memset(p, n, (size_t)n);
    KEEP(p);
    return recurse(n % 7) + p[0];
}

/* More values than registers that a call keeps, so the compiler saves the frame pointer and uses its register. */
__attribute__((noinline)) static int with_all_registers(const volatile int *from)
{
    int a = from[0], b = from[1], c = from[2], d = from[3], e = from[4], f = from[5], g = from[6];
    int result = recurse(a % 3);
    result = (((((result ^ a) + b) ^ c) + d) ^ e) + (f ^ g);
    KEEP(result);
    return result;
}

/* The next frame outside needs the frame pointer that with_all_registers() has saved. */
__attribute__((noinline)) static int with_saved_frame_pointer(int n)
{
    int *p = alloca((size_t)n * sizeof *p + 7 * sizeof *p);
    for (int i = 0; i < 7; i++)
        p[i] = n + i;
    KEEP(p);
    return with_all_registers(p) + p[0];
}

__attribute__((noinline)) static int aligned(int n)
{
    _Alignas(64) char room[256];
    memset(room, n, sizeof room);
    KEEP(room);
    return with_alloca(n) + room[n];
}

static void test_frames(void **state)
{
    (void)state;
    for (int i = 1; i < 50; i++) {
        recurse(i);
        with_alloca(i * 37);
        unsigned before = hashes_seen;
        with_saved_frame_pointer(i);
        assert_true(WITHOUT_HASHES || hashes_seen >= before + 3);
        aligned(i);
    }
    assert_true(SANITIZED || layouts_seen > 50);
    assert_true(WITHOUT_HASHES || (checks_seen > 50 && pairs_seen > 50));
    assert_true(WITHOUT_HASHES || (hashes_seen > 100 && joins_seen > 50 && words_seen > 500));
}

static int compare(const void *a, const void *b)
{
    static bool looked;
    if (!looked)
        look(); /* below frames of libc */
    looked = true;
    return *(const int *)a - *(const int *)b;
}

static void test_libc_between(void **state)
{
    (void)state;
    int numbers[100];
    for (int i = 0; i < 100; i++)
        numbers[i] = i * 7 % 100;
    unsigned before = looks;
    qsort(numbers, 100, sizeof numbers[0], compare);
    assert_int_equal(looks, before + 1);
}

static void test_setjmp(void **state)
{
    (void)state;
    jmp_buf place;
    if (!setjmp(place)) {
        recurse(3);
        longjmp(place, 1);
    }
    recurse(4);
}

static void handler(int signal_number)
{
    (void)signal_number;
    recurse(2);
}

/* A leaf function without a frame that a signal interrupts. */
__attribute__((noinline)) static uint64_t leaf(uint64_t n)
{
    volatile int zero = 0;
    raise(SIGUSR1);
    return n + (uint64_t)zero;
}

static void test_signal(void **state)
{
    (void)state;
    if (RULES_ARE_FRAME_POINTERS)
        skip(); /* the interrupted instruction is not a frame */
    unsigned before = looks;
    stack_t other = {.ss_sp = malloc(1 << 18), .ss_size = 1 << 18};
    assert_int_equal(sigaltstack(&other, NULL), 0);
    for (int flags = 0; flags <= SA_ONSTACK; flags += SA_ONSTACK) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
        sigaction(SIGUSR1, &action, NULL);
        for (uint64_t i = 0; i < 20; i++)
            leaf(i);
    }
    other.ss_flags = SS_DISABLE;
    sigaltstack(&other, NULL);
    free(other.ss_sp);
    assert_int_equal(looks, before + 40);
}

static void *in_thread(void *unused)
{
    for (int i = 0; i < 10; i++)
        aligned(i + 1);
    return unused;
}

static void test_threads(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, in_thread, NULL), 0);
    pthread_join(thread, NULL);
}

/* ---- Coroutines: a stack that the thread does not know, with memory below and above that cannot be read ---- */

static ucontext_t main_context, coroutine_context;

static void coroutine(void)
{
    walk.bounds = (struct stack_bounds){0};
    stack_bounds_find(&walk.bounds, (uintptr_t)__builtin_frame_address(0));
    assert_true(SANITIZED || walk.bounds.high == 0);
    unwind_from(&walk, __builtin_frame_address(0), FRAMES);
    look_by_hash(__builtin_frame_address(0));
    looks++;
}

static void test_coroutine(void **state)
{
    (void)state;
    size_t bytes = 1 << 16;
    char *p = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(p + 4096, bytes, PROT_READ | PROT_WRITE), 0);
    getcontext(&coroutine_context);
    coroutine_context.uc_stack.ss_sp = p + 4096;
    coroutine_context.uc_stack.ss_size = bytes;
    coroutine_context.uc_link = &main_context;
    makecontext(&coroutine_context, coroutine, 0);
    unsigned before = looks;
    assert_int_equal(swapcontext(&main_context, &coroutine_context), 0);
    assert_int_equal(looks, before + 1);
    assert_true(SANITIZED || walk.n > 0);
    trail_clear(&trail);
    munmap(p, bytes + 8192);
}

/* ---- Calls on another stack, as Go calls C ---- */

#ifdef __x86_64__
/* call_elsewhere(stack, function, record): calls the function on that stack, with no rule in .eh_frame. The frame pointer stays that of
 * its own frame on the present stack, or is `record`, if that is not 0. */
__asm__(".text\n.type call_elsewhere, @function\ncall_elsewhere:\n"
        "push %rbp\nmov %rsp, %rbp\npush %rbx\nmov %rsp, %rbx\ntest %rdx, %rdx\ncmovnz %rdx, %rbp\n"
        "mov %rdi, %rsp\ncall *%rsi\nmov %rbx, %rsp\npop %rbx\npop %rbp\nret\n.size call_elsewhere, .-call_elsewhere\n");
void call_elsewhere(void *stack, void (*function)(void), const void *record);

static void look_elsewhere(void)
{
    unwind_from(&walk, __builtin_frame_address(0), FRAMES);
    looks++;
}

/* Returns the number of frames of this function's callers that the walk ends with, if it has all of them. */
__attribute__((noinline)) static int look_from(char *stack, const void *record)
{
    walk.bounds = (struct stack_bounds){0};
    stack_bounds_find(&walk.bounds, (uintptr_t)__builtin_frame_address(0));
    n_expected = backtrace(expected, FRAMES);
    call_elsewhere(stack, look_elsewhere, record);
    int callers = n_expected - 1, same = 0;
    for (int i = 0; i < callers && (unsigned)callers <= walk.n; i++)
        same += walk.frames[walk.n - (unsigned)callers + (unsigned)i] == (uintptr_t)expected[i + 1];
    return same == callers ? same : 0;
}

static void test_other_stack(void **state)
{
    size_t bytes = 1 << 16;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *stack = p + bytes - 64;
    void *const code = (void *)(uintptr_t)look_from;
    KEEP(__builtin_frame_address(0)); /* so this function and look_from() have frame pointers */
    (void)state;
    if (SANITIZED) /* backtrace() and the sanitizers' own stacks */
        return;
    assert_true(look_from(stack, NULL) > 1);
    assert_false(walk.ends_early);
    /* What else the register may have: the walk ends there, and reads nothing that is not mapped. */
    void *const no_code[] = {NULL, p}, *const no_frame[] = {p, code}, *below[] = {NULL, NULL, NULL, code};
    below[2] = below;
    const void *const records[] = {(void *)8, (void *)4096, p - 8, (char *)code + 1, no_code, no_frame, &below[2], (void *)UINTPTR_MAX};
    for (size_t i = 0; i < sizeof records / sizeof records[0]; i++) {
        assert_int_equal(look_from(stack, records[i]), 0);
        assert_true(walk.ends_early);
    }
    munmap(p, bytes);
}
#endif

/* ---- Garbage ---- */

/* Frames of random words: the walk ends, and reads nothing that is not mapped. */
static void test_garbage_on_the_stack(void **state)
{
    (void)state;
    size_t bytes = 1 << 14;
    char *p = mmap(NULL, bytes + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(p + 4096, bytes, PROT_READ | PROT_WRITE), 0);
    uintptr_t *words = (uintptr_t *)(p + 4096);
    uintptr_t codes[3] = {(uintptr_t)test_frames + 20, (uintptr_t)qsort + 20, (uintptr_t)recurse + 10};
    for (int round = 0; round < 20000; round++) {
        for (size_t i = 0; i < 64; i++) {
            uint64_t kind = draw() % 5;
            words[i] = kind == 0 ? draw() : kind == 1 ? codes[draw() % 3] : kind == 2 ? (uintptr_t)(words + draw() % 2048)
                       : kind == 3 ? (uintptr_t)p + draw() % (bytes + 8192) : draw() % 100;
        }
        walk.bounds = draw() % 2 ? (struct stack_bounds){(uintptr_t)words, (uintptr_t)words + bytes, true} : (struct stack_bounds){0};
        const uintptr_t *record = words + draw() % 32;
        unwind_from(&walk, record, FRAMES);
        assert_true(walk.n <= FRAMES);
        look_by_hash(record);
    }
    munmap(p, bytes + 8192);
}

/* ---- Code that was replaced ---- */

/* A step that is not that of the rule, as after dlclose() and dlopen(): the check of a new stack forgets it. */
static void test_wrong_step(void **state)
{
    (void)state;
    uint64_t hash = 0, other = 0;
    const void *frame = __builtin_frame_address(0);
    walk.bounds = (struct stack_bounds){0};
    stack_bounds_find(&walk.bounds, (uintptr_t)frame);
    unwind_from(&walk, frame, FRAMES);
    if (SANITIZED || !unwind_hash(&walk.bounds, frame, FRAMES, &trail, &hash))
        skip();
    uintptr_t pc = walk.frames[0];
    _Atomic uint64_t *step = &rules_steps[pc % STEPS];
    assert_true(rules_mix_step(pc, load_relaxed(step)) <= STEP_FRAME_POINTER);
    store_relaxed(step, rules_mix_step(pc, 1));
    trail_clear(&trail); /* where it leads, no rule is asked for */
    assert_true(!unwind_hash(&walk.bounds, frame, FRAMES, &trail, &other) || other != hash);
    assert_false(unwind_check(&walk, 0));
    assert_true(unwind_check(&walk, 0));
    trail_clear(&trail);
    assert_true(unwind_hash(&walk.bounds, frame, FRAMES, &trail, &other));
    assert_int_equal(other, hash);
}

/* ---- Damaged sections ---- */

/* A section with one function of 256 bytes, as compilers write it. */
static const unsigned char good_section[] = {
    1, 0x1b, 0x03, 0x3b, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0x10, 0, 0, 44, 0, 0, 0, /* .eh_frame_hdr; the function at + 4096 */
    20, 0, 0, 0, 0, 0, 0, 0, 1, 'z', 'R', 0, 1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1, 0, 0, /* CIE */
    28, 0, 0, 0, 28, 0, 0, 0, 0xcc, 0x0f, 0, 0, 0, 1, 0, 0, 0,         /* FDE */
    0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x02, 0x80, 0x0c, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};

static void test_section(void **state)
{
    (void)state;
    _Alignas(16) unsigned char s[sizeof good_section];
    memcpy(s, good_section, sizeof s);
    const struct eh_frame_section section = {s, s + sizeof s, s};
    struct unwind_rule rule;
    eh_frame_find(&section, (uintptr_t)s + 4096, &rule);
    assert_int_equal(rule.kind, UNWIND_SP);
    assert_int_equal(rule.cfa, 8);
    assert_int_equal(rule.bp_kind, UNWIND_BP_SAME);
    eh_frame_find(&section, (uintptr_t)s + 4096 + 1, &rule); /* after push %rbp */
    assert_int_equal(rule.cfa, 16);
    assert_int_equal(rule.bp_kind, UNWIND_BP_AT_CFA);
    assert_int_equal(rule.bp, -16);
    eh_frame_find(&section, (uintptr_t)s + 4096 + 100, &rule); /* after mov %rsp, %rbp */
    assert_int_equal(rule.kind, UNWIND_BP);
    assert_int_equal(rule.cfa, 16);
    eh_frame_find(&section, (uintptr_t)s + 4096 + 132, &rule); /* after leave */
    assert_int_equal(rule.kind, UNWIND_SP);
    assert_int_equal(rule.cfa, 8);
    eh_frame_find(&section, (uintptr_t)s + 4096 + 256, &rule); /* behind the function */
    assert_int_equal(rule.kind, UNWIND_UNKNOWN);
    eh_frame_find(&section, (uintptr_t)s + 4095, &rule);
    assert_int_equal(rule.kind, UNWIND_UNKNOWN);
    uintptr_t start;
    assert_true(eh_frame_start(&section, (uintptr_t)s + 4096 + 255, &start));
    assert_int_equal(start, (uintptr_t)s + 4096);
    assert_false(eh_frame_start(&section, (uintptr_t)s + 4096 + 256, &start));
    assert_false(eh_frame_start(&section, (uintptr_t)s + 4095, &start));
}

/* The section ends at a page that cannot be read. */
static void test_damaged_sections(void **state)
{
    (void)state;
    char *p = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(p + 4096, 4096, PROT_READ | PROT_WRITE), 0);
    unsigned char *s = (unsigned char *)p + 2 * 4096 - sizeof good_section;
    const struct eh_frame_section section = {s, s + sizeof good_section, s};
    struct unwind_rule rule;
    unsigned known = 0;
    for (int round = 0; round < 200000; round++) {
        memcpy(s, good_section, sizeof good_section);
        for (uint64_t n = draw() % 6; n > 0; n--)
            s[draw() % sizeof good_section] = (unsigned char)draw();
        eh_frame_find(&section, (uintptr_t)s + 4096 + draw() % 256, &rule);
        known += rule.kind != UNWIND_UNKNOWN;
    }
    assert_true(known > 0 && known < 200000);
    munmap(p, 3 * 4096);
}

static int setup(void **state)
{
    (void)state;
    unwind_boot();
    trail_clear(&trail);
    return rules_boot();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_step),
        cmocka_unit_test(test_section),
        cmocka_unit_test(test_damaged_sections),
        cmocka_unit_test(test_frames),
        cmocka_unit_test(test_libc_between),
        cmocka_unit_test(test_setjmp),
        cmocka_unit_test(test_signal),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_coroutine),
#ifdef __x86_64__
        cmocka_unit_test(test_other_stack),
#endif
        cmocka_unit_test(test_garbage_on_the_stack),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
