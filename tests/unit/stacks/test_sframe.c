/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules from .sframe. The sections are written here as the manual says, for each version. Real ones, of version 1 in Debian 12, are in
 * tests/integration/stacks_sframe.sh. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "stacks/sframe.h"

#define CODE 4096   /* where the first function begins, from the section's start */
#define BYTES 0x40u /* of each function */
#define SORTED 1
#define FROM_FIELD 4
#define AMD64 3

/* ---- Writing a section ---- */

struct writer {
    unsigned char bytes[512];
    size_t n;
};

static void put(struct writer *w, size_t bytes, int64_t value)
{
    memcpy(w->bytes + w->n, &value, bytes);
    w->n += bytes;
}

/* A function and its rows, as they stand behind the functions. */
struct wanted {
    uint32_t start, bytes, n_rows;
    unsigned info, more_info, repeats;
    struct writer rows;
};

/* A row with words of `size` bytes; `by` is 1 for the stack pointer. */
static void put_row(struct wanted *f, size_t start_bytes, uint32_t start, unsigned by, unsigned n, size_t size, const int64_t *words)
{
    unsigned size_code = size == 4 ? 2 : (unsigned)size - 1;
    put(&f->rows, start_bytes, start);
    put(&f->rows, 1, by | n << 1 | size_code << 5);
    for (unsigned i = 0; i < n; i++)
        put(&f->rows, size, words[i]);
    f->n_rows++;
}

#define ROW(f, start_bytes, start, by, size, ...)                                                                      \
    put_row(f, start_bytes, start, by, sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), size, (const int64_t[]){__VA_ARGS__})

struct header {
    unsigned magic, version, flags, abi;
    int ra;
};

static void put_header(struct writer *w, const struct header *h, size_t n, size_t rows_bytes, size_t entry_bytes)
{
    put(w, 2, h->magic);
    put(w, 1, h->version);
    put(w, 1, h->flags);
    put(w, 1, h->abi);
    put(w, 1, 0);
    put(w, 1, h->ra);
    put(w, 1, 3); /* bytes of more header */
    put(w, 4, (int64_t)n);
    put(w, 4, 100);
    put(w, 4, (int64_t)rows_bytes);
    put(w, 4, 0);
    put(w, 4, (int64_t)(n * entry_bytes));
    put(w, 3, 0);
}

static void write_section(struct writer *w, const struct header *h, const struct wanted *functions, size_t n)
{
    size_t entry_bytes = h->version == 1 ? 17 : h->version == 2 ? 20 : 16, rows_at = 0, rows_bytes = 0;
    for (size_t i = 0; i < n; i++)
        rows_bytes += functions[i].rows.n + (h->version == 3 ? 5 : 0);
    w->n = 0;
    put_header(w, h, n, rows_bytes, entry_bytes);
    for (size_t i = 0; i < n; i++) {
        const struct wanted *f = &functions[i];
        int64_t from = h->flags & FROM_FIELD ? (int64_t)w->n : 0;
        put(w, h->version == 3 ? 8 : 4, f->start - from);
        put(w, 4, f->bytes);
        put(w, 4, (int64_t)rows_at);
        rows_at += f->rows.n + (h->version == 3 ? 5 : 0);
        if (h->version == 3)
            continue;
        put(w, 4, f->n_rows);
        put(w, 1, f->info);
        put(w, h->version == 1 ? 0 : 3, f->repeats);
    }
    for (size_t i = 0; i < n; i++) {
        if (h->version == 3) {
            put(w, 2, functions[i].n_rows);
            put(w, 1, functions[i].info);
            put(w, 1, functions[i].more_info);
            put(w, 1, functions[i].repeats);
        }
        memcpy(w->bytes + w->n, functions[i].rows.bytes, functions[i].rows.n);
        w->n += functions[i].rows.n;
    }
}

/* ---- Checks ---- */

static struct unwind_rule rule_at(const struct writer *w, uintptr_t offset)
{
    const struct sframe_section section = {w->bytes, w->bytes + w->n};
    struct unwind_rule rule;
    sframe_find(&section, (uintptr_t)w->bytes + offset, &rule);
    return rule;
}

static void check(const struct writer *w, uintptr_t offset, enum unwind_kind kind, int32_t cfa, enum unwind_bp bp_kind, int32_t bp)
{
    struct unwind_rule rule = rule_at(w, offset);
    assert_int_equal(rule.kind, kind);
    assert_int_equal(rule.cfa, cfa);
    assert_int_equal(rule.bp_kind, bp_kind);
    assert_int_equal(rule.bp, bp);
}

static void check_kind(const struct writer *w, uintptr_t offset, enum unwind_kind kind)
{
    assert_int_equal(rule_at(w, offset).kind, kind);
}

/* Three functions: with a frame pointer and rows of one byte, without one and rows of two bytes, and one whose rows repeat; a gap of one
 * function lies before the last. */
static const struct header good = {0xdee2, 1, SORTED, AMD64, -8};

static size_t make_functions(struct wanted functions[3])
{
    memset(functions, 0, 3 * sizeof *functions);
    functions[0] = (struct wanted){.start = CODE, .bytes = BYTES, .info = 0};
    ROW(&functions[0], 1, 0, 1, 1, 8);
    ROW(&functions[0], 1, 1, 1, 1, 16, -16);
    ROW(&functions[0], 1, 4, 0, 1, 16, -16);
    ROW(&functions[0], 1, 0x3f, 1, 1, 8, -16);
    functions[1] = (struct wanted){.start = CODE + BYTES, .bytes = BYTES, .info = 1};
    ROW(&functions[1], 2, 0, 1, 2, 8);
    ROW(&functions[1], 2, 7, 1, 4, 0x12340);
    functions[2] = (struct wanted){.start = CODE + 3 * BYTES, .bytes = BYTES, .info = 2 | 16, .repeats = 16};
    ROW(&functions[2], 4, 0, 1, 1, 8);
    ROW(&functions[2], 4, 11, 1, 1, 16);
    return 3;
}

static void check_functions(const struct header *h)
{
    struct wanted functions[3];
    struct writer w;
    write_section(&w, h, functions, make_functions(functions));
    check(&w, CODE, UNWIND_SP, 8, UNWIND_BP_SAME, 0);
    check(&w, CODE + 1, UNWIND_SP, 16, UNWIND_BP_AT_CFA, -16);
    check(&w, CODE + 3, UNWIND_SP, 16, UNWIND_BP_AT_CFA, -16);
    check(&w, CODE + 4, UNWIND_BP, 16, UNWIND_BP_AT_CFA, -16);
    check(&w, CODE + 0x3e, UNWIND_BP, 16, UNWIND_BP_AT_CFA, -16);
    check(&w, CODE + 0x3f, UNWIND_SP, 8, UNWIND_BP_AT_CFA, -16);
    check(&w, CODE + BYTES + 6, UNWIND_SP, 8, UNWIND_BP_SAME, 0);
    check(&w, CODE + BYTES + 7, UNWIND_SP, 0x12340, UNWIND_BP_SAME, 0);
    check(&w, CODE + 3 * BYTES + 26, UNWIND_SP, 8, UNWIND_BP_SAME, 0);
    check(&w, CODE + 3 * BYTES + 27, UNWIND_SP, 16, UNWIND_BP_SAME, 0);
    check_kind(&w, CODE - 1, UNWIND_UNKNOWN);
    check_kind(&w, CODE + 2 * BYTES, UNWIND_UNKNOWN);
    check_kind(&w, CODE + 3 * BYTES - 1, UNWIND_UNKNOWN);
    check_kind(&w, CODE + 4 * BYTES, UNWIND_UNKNOWN);
}

static void test_versions(void **state)
{
    (void)state;
    for (unsigned version = 1; version <= 3; version++)
        check_functions(&(struct header){0xdee2, version, SORTED, AMD64, -8});
    check_functions(&(struct header){0xdee2, 2, SORTED | FROM_FIELD, AMD64, -8});
    check_functions(&(struct header){0xdee2, 3, SORTED | FROM_FIELD, AMD64, -8});
}

/* Another byte order, version, order or machine, and return addresses at another place. */
static void test_other_headers(void **state)
{
    (void)state;
    const struct header others[] = {{0xe2de, 1, SORTED, AMD64, -8}, {0xdee2, 0, SORTED, AMD64, -8}, {0xdee2, 4, SORTED, AMD64, -8},
                                    {0xdee2, 1, 0, AMD64, -8},      {0xdee2, 1, SORTED, 2, -8},     {0xdee2, 1, SORTED, AMD64, 0}};
    struct wanted functions[3];
    struct writer w;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        write_section(&w, &others[i], functions, make_functions(functions));
        check_kind(&w, CODE, UNWIND_UNKNOWN);
    }
    write_section(&w, &good, functions, 0);
    check_kind(&w, CODE, UNWIND_UNKNOWN);
    check_kind(&(struct writer){.n = 0}, CODE, UNWIND_UNKNOWN);
}

/* ---- Outermost frames, and what only version 3 has ---- */

#define FLEXIBLE 1
#define SIGNAL 128
#define CONTROL(number, is_saved) ((number) << 3 | (is_saved) << 1 | 1)
#define AT_CFA 2

static struct writer section_with(unsigned version, const struct wanted *function)
{
    struct writer w;
    write_section(&w, &(struct header){0xdee2, version, SORTED | FROM_FIELD, AMD64, -8}, function, 1);
    return w;
}

static void test_outermost(void **state)
{
    (void)state;
    struct wanted no_words = {.start = CODE, .bytes = BYTES}, no_rows = no_words;
    put_row(&no_words, 1, 0, 1, 0, 1, NULL);
    for (unsigned version = 1; version <= 3; version++) {
        struct writer w = section_with(version, &no_words), none = section_with(version, &no_rows);
        check_kind(&w, CODE + 1, UNWIND_END);
        check_kind(&none, CODE + 1, version == 3 ? UNWIND_END : UNWIND_UNKNOWN);
        check_kind(&none, CODE + BYTES, UNWIND_UNKNOWN);
    }
}

static void test_signal(void **state)
{
    (void)state;
    struct wanted f = {.start = CODE, .bytes = BYTES, .info = SIGNAL};
    ROW(&f, 1, 0, 1, 1, 8);
    struct writer w = section_with(3, &f), before = section_with(2, &f);
    check_kind(&w, CODE, UNWIND_SIGNAL);
    check_kind(&w, CODE + BYTES, UNWIND_UNKNOWN);
    check_kind(&before, CODE, UNWIND_SP);
}

#define CHECK_FLEXIBLE(kind, cfa, bp_kind, bp, ...)                                                                    \
    do {                                                                                                               \
        struct wanted f = {.start = CODE, .bytes = BYTES, .more_info = FLEXIBLE};                                      \
        ROW(&f, 1, 0, 0, 2, __VA_ARGS__);                                                                              \
        struct writer w = section_with(3, &f);                                                                         \
        check(&w, CODE, kind, cfa, bp_kind, bp);                                                                       \
    } while (0)

static void test_flexible(void **state)
{
    (void)state;
    CHECK_FLEXIBLE(UNWIND_SP, 24, UNWIND_BP_SAME, 0, CONTROL(7, 0), 24);
    CHECK_FLEXIBLE(UNWIND_BP, 16, UNWIND_BP_AT_CFA, -16, CONTROL(6, 0), 16, 0, AT_CFA, -16);
    CHECK_FLEXIBLE(UNWIND_BP, 16, UNWIND_BP_AT_CFA, -16, CONTROL(6, 0), 16, AT_CFA, -8, AT_CFA, -16);
    CHECK_FLEXIBLE(UNWIND_DEREF_BP, -8, UNWIND_BP_AT_BP, 0, CONTROL(6, 1), -8, 0, CONTROL(6, 1), 0);
    CHECK_FLEXIBLE(UNWIND_UNKNOWN, 0, UNWIND_BP_SAME, 0, CONTROL(10, 0), 16);               /* by r10 */
    CHECK_FLEXIBLE(UNWIND_UNKNOWN, 0, UNWIND_BP_SAME, 0, CONTROL(7, 1), 16);                /* at the stack pointer */
    CHECK_FLEXIBLE(UNWIND_UNKNOWN, 0, UNWIND_BP_SAME, 0, CONTROL(7, 0), 16, AT_CFA, -16);   /* the return address elsewhere */
    CHECK_FLEXIBLE(UNWIND_UNKNOWN, 0, UNWIND_BP_SAME, 0, CONTROL(7, 0), 16, CONTROL(1, 0), 0);
    CHECK_FLEXIBLE(UNWIND_UNKNOWN, 0, UNWIND_BP_SAME, 0, CONTROL(7, 0), 16, 0, CONTROL(3, 0), 0); /* the frame pointer in rbx */
    CHECK_FLEXIBLE(UNWIND_UNKNOWN, 0, UNWIND_BP_SAME, 0, 0, 0);
    struct wanted other = {.start = CODE, .bytes = BYTES, .more_info = 2};
    ROW(&other, 1, 0, 1, 1, 8);
    struct writer w = section_with(3, &other);
    check_kind(&w, CODE, UNWIND_UNKNOWN);
}

/* ---- Damage ---- */

static uint64_t draw(void)
{
    static uint64_t state = 88172645463325252u;
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* The section begins behind a page that cannot be read, or ends before one. */
static void damage(const struct writer *w, char *page, bool at_end)
{
    unsigned char *s = (unsigned char *)page + (at_end ? 4096 - w->n : 0);
    unsigned known = 0;
    for (int round = 0; round < 60000; round++) {
        struct unwind_rule rule;
        memcpy(s, w->bytes, w->n);
        for (uint64_t n = draw() % 6; n > 0; n--)
            s[draw() % w->n] = (unsigned char)draw();
        size_t bytes = round % 4 ? w->n : draw() % (w->n + 1);
        const struct sframe_section section = {s, s + bytes};
        sframe_find(&section, (uintptr_t)s + CODE + draw() % (5 * BYTES), &rule);
        known += rule.kind != UNWIND_UNKNOWN;
    }
    assert_in_range(known, 1, 59999);
}

static void test_damaged(void **state)
{
    (void)state;
    char *p = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_int_equal(mprotect(p + 4096, 4096, PROT_READ | PROT_WRITE), 0);
    struct wanted functions[3];
    for (unsigned version = 1; version <= 3; version++) {
        struct writer w;
        size_t n = make_functions(functions);
        functions[1].more_info = version == 3 ? FLEXIBLE : 0;
        write_section(&w, &(struct header){0xdee2, version, SORTED, AMD64, -8}, functions, n);
        damage(&w, p + 4096, true);
        damage(&w, p + 4096, false);
    }
    munmap(p, 3 * 4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_versions), cmocka_unit_test(test_other_headers), cmocka_unit_test(test_outermost),
        cmocka_unit_test(test_signal),   cmocka_unit_test(test_flexible),      cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
