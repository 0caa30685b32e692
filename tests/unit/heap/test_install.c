/* SPDX-License-Identifier: BSD-2-Clause */
/* Threads that allocate in the same pages at the same time, when the pages change their class: each page gets one table, and each
 * table has one owner. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "../../support/booted.h"
#include "base/compiler.h"
#include "heap/classes.h"
#include "heap/pagemap.h"

enum { THREADS = 3, PAGES = 64, ROUNDS = 3000 };
static const uint16_t sizes[] = {8, 16, 48, 64, 80, 256, 320, 512, 1024, 2048, 4096};
static char *pages;
static uint64_t entries[THREADS][PAGES];
static pthread_barrier_t turn;

static uint16_t code_in(int round, int page)
{
    return class_of(sizes[((unsigned)round * 7 + (unsigned)page * (unsigned)page) % (sizeof sizes / sizeof *sizes)]).code;
}

/* Each table is empty, and no other page has it. */
static void check_tables(void)
{
    for (int i = 0; i < PAGES; i++) {
        header_t *table = page_entry_slot(entries[0][i], 0);
        for (int thread = 1; thread < THREADS; thread++)
            assert_int_equal(entries[thread][i], entries[0][i]);
        for (size_t slot = 0; slot < HEADER_PAGE_BYTES >> CODE_SLOT_SHIFT(page_entry_code(entries[0][i])); slot++)
            assert_int_equal(load_relaxed(&table[slot]), 0);
        store_relaxed(table, i + 1);
    }
    for (int i = 0; i < PAGES; i++) {
        header_t *table = page_entry_slot(entries[0][i], 0);
        assert_int_equal(load_relaxed(table), i + 1);
        store_relaxed(table, 0);
    }
}

static void *work(void *number)
{
    int self = (int)(intptr_t)number;
    struct table_cache cache = {0};
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < PAGES; i++)
            entries[self][i] = pagemap_install(&cache, (uintptr_t)pages + (size_t)i * HEADER_PAGE_BYTES, code_in(round, i));
        pthread_barrier_wait(&turn);
        if (!self)
            check_tables();
        pthread_barrier_wait(&turn);
    }
    tables_empty_cache(&cache);
    return NULL;
}

static void test_one_table_for_a_page(void **state)
{
    pthread_t threads[THREADS];
    (void)state;
    pages = mmap(NULL, PAGES * HEADER_PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t used = tables_used_bytes();
    pthread_barrier_init(&turn, NULL, THREADS);
    for (intptr_t i = 1; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    work((void *)0);
    for (int i = 1; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pagemap_release((uintptr_t)pages, PAGES * HEADER_PAGE_BYTES);
    assert_int_equal(tables_used_bytes(), used);
    munmap(pages, PAGES * HEADER_PAGE_BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_table_for_a_page)};
    return cmocka_run_group_tests(tests, boot, NULL);
}
