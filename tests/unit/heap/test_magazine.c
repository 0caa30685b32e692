/* SPDX-License-Identifier: BSD-2-Clause */
/* Magazines: which freed objects a thread keeps, how many, and right figures and headers when they are used again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "../../support/family.h"
#include "../../support/give_back.h"
#include "../../support/one_processor.h"
#include "heap/magazine.h"
#include "heap/sums.h"
#include "jemalloc/binding.h"
#include "malloc/track.h"
#include "span/tree.h"

#define MANY 200

/* `n` objects of a size, allocated and freed, so that they are in the magazine. */
static void free_many(struct thread *t, size_t bytes, int n)
{
    void *p[MANY];
    for (int i = 0; i < n; i++)
        p[i] = F(malloc)(bytes);
    for (int i = 0; i < n; i++)
        F(free)(p[i]);
    track_flush(t);
}

static void test_the_newest_comes_first(void **state)
{
    struct thread *t = track_thread();
    void *p[3];
    (void)state;
    give_back(t);
    for (int i = 0; i < 3; i++)
        p[i] = F(malloc)(300);
    for (int i = 0; i < 3; i++)
        F(free)(p[i]);
    track_flush(t);
    for (int i = 2; i >= 0; i--)
        assert_ptr_equal(F(malloc)(290), p[i]); /* of the same class */
    for (int i = 0; i < 3; i++)
        F(free)(p[i]);
}

static uint64_t most_bytes(uint64_t object)
{
    if (object > HEADER_PAGE_BYTES)
        return 65536;
    return object * 20 > 32768 ? object * 20 : 32768;
}

static void test_bounded_in_objects_and_bytes(void **state)
{
    struct thread *t = track_thread();
    (void)state;
    for (unsigned class = 1; class_bytes[class]; class++) {
        give_back(t);
        free_many(t, class_bytes[class], magazine_max[class] + 1);
        assert_in_range(magazine_max[class], 2, 128);
        assert_in_range(magazine_objects(t, class), magazine_max[class] / 2 + 1, magazine_max[class]);
        assert_int_equal(magazine_bytes(t), (uint64_t)magazine_objects(t, class) * class_bytes[class]);
        assert_in_range(magazine_bytes(t), 1, most_bytes(class_bytes[class]));
    }
    give_back(t);
    assert_int_equal(magazine_bytes(t), 0);
}

/* Allocates and then frees so many objects of the class that the run is long. */
static void free_long_run(struct thread *t, unsigned class)
{
    static void *p[4 * 4096];
    size_t n = sizeof p / sizeof p[0] * class_bytes[class] > 4 << 20 ? (4 << 20) / class_bytes[class] : sizeof p / sizeof p[0];
    for (size_t i = 0; i < n; i++)
        p[i] = F(malloc)(class_bytes[class]);
    for (size_t i = 0; i < n; i++)
        F(free)(p[i]);
    track_flush(t);
}

/* A thread that only frees keeps nothing in the end, and the depot neither. When it has allocated, it keeps all again. */
static void test_smaller_after_many_frees(void **state)
{
    struct thread *t = track_thread();
    (void)state;
    for (unsigned class = 1; class_bytes[class]; class++) {
        give_back(t);
        for (int rounds = 3; rounds > 0; rounds--) {
            free_many(t, class_bytes[class], magazine_max[class]);
            assert_int_equal(magazine_objects(t, class), magazine_max[class]);
            give_back(t);
            free_long_run(t, class);
            assert_int_equal(magazine_objects(t, class), 0);
            assert_int_equal(batches_of(class), 0);
        }
    }
    give_back(t);
}

/* Each class has its share of the entries. */
static void test_room_for_all(void **state)
{
    unsigned entries = CLASSES_MAX + 1, class = 1;
    (void)state;
    for (; class_bytes[class]; class++)
        entries += magazine_max[class];
    assert_in_range(entries, 2000, MAGAZINE_ENTRIES - 1);
    assert_true(magazine_max[class - 1] == 65536 / class_bytes[class - 1]);
}

/* The next allocation returns the object that the thread freed last, however many were freed before. */
static void test_a_full_one_keeps_the_newest(void **state)
{
    struct thread *t = track_thread();
    void *p[MANY];
    (void)state;
    give_back(t);
    for (int i = 0; i < MANY; i++)
        p[i] = F(malloc)(64);
    for (int i = 0; i < MANY; i++)
        F(free)(p[i]);
    track_flush(t);
    int kept = (int)magazine_objects(t, CODE_CLASS(class_of(64).code));
    for (int i = 1; i <= kept; i++)
        assert_ptr_equal(F(malloc)(64), p[MANY - i]);
    for (int i = 1; i <= kept; i++)
        F(free)(p[MANY - i]);
}

/* All objects of a magazine go back, by jemalloc's own count. */
static void test_what_is_given_back_is_jemallocs(void **state)
{
    struct thread *t = track_thread();
    uint64_t before, after, *now;
    size_t bytes = sizeof now;
    (void)state;
    give_back(t);
    assert_int_equal(jespan_je_mallctl("thread.deallocatedp", &now, &bytes, NULL, 0), 0);
    before = *now;
    free_many(t, 400, 10);
    assert_int_equal(*now, before);
    give_back(t);
    after = *now;
    assert_int_equal(after - before, 10 * jespan_je_nallocx(400, 0));
}

/* The object that was taken last goes back at once if the same context frees it next, however many frees wait. */
static void test_the_last_taken_goes_back_at_once(void **state)
{
    struct thread *t = track_thread();
    unsigned class = CODE_CLASS(class_of(200).code);
    (void)state;
    give_back(t);
    free_many(t, 200, 3);
    void *first = F(malloc)(200), *second = F(malloc)(200);
    struct totals before = sums_of(t->tag);
    F(free)(second);
    assert_int_equal(t->free_buffer_count, 0);
    assert_int_equal(magazine_objects(t, class), 2);
    assert_int_equal(*page_entry_slot(*pagemap_page((uintptr_t)second), (uintptr_t)second), 0);
    assert_int_equal(sums_of(t->tag).free_bytes - before.free_bytes, class_bytes[class]);
    F(free)(first);
    assert_int_equal(magazine_objects(t, class), 3);
    first = F(malloc)(200);
    t->tag++; /* another context */
    F(free)(first);
    t->tag--;
    assert_int_equal(t->free_buffer_count, 1);
    track_flush(t);
    assert_int_equal(magazine_objects(t, class), 3);
}

/* Puts the first bytes of the page into the magazine, as if jemalloc had allocated them. */
static header_t *put_page(struct thread *t, void *page, size_t bytes)
{
    uint16_t code = class_of(bytes).code;
    header_t *slot = page_entry_slot(pagemap_install(NULL, (uintptr_t)page, code), (uintptr_t)page);
    assert_true(magazine_put(t, CODE_CLASS(code), (struct free_object){page, slot}));
    return slot;
}

/* Another thread frees the object, and its page gets another class. The old table serves another page, where an object of
 * this context has the same header. */
static void test_the_last_taken_has_another_header(void **state)
{
    struct thread *t = track_thread();
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint16_t code = class_of(256).code;
    (void)state;
    give_back(t);
    header_t *old = put_page(t, page, 64);
    magazine_forget_taken(t);
    assert_ptr_equal(F(malloc)(64), page);
    header_t *new = page_entry_slot(pagemap_install(NULL, (uintptr_t)page, code), (uintptr_t)page);
    assert_ptr_not_equal(old, new);
    *old = *new = t->tag;
    uint64_t before = sums_of(t->tag).free_bytes;
    F(free)(page);
    track_flush(t);
    assert_int_equal(*old, t->tag);
    assert_int_equal(*new, 0);
    assert_int_equal(sums_of(t->tag).free_bytes - before, 256);
    assert_ptr_equal(F(malloc)(256), page);
    *old = *new = 0;
    pagemap_release((uintptr_t)page, 4096);
    munmap(page, 4096);
}

/* The new class has the same table, but other usable bytes. */
static void test_the_last_taken_has_another_class(void **state)
{
    struct thread *t = track_thread();
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    give_back(t);
    header_t *slot = put_page(t, page, 64);
    magazine_forget_taken(t);
    assert_ptr_equal(F(malloc)(64), page);
    assert_ptr_equal(page_entry_slot(pagemap_install(NULL, (uintptr_t)page, class_of(80).code), (uintptr_t)page), slot);
    uint64_t before = sums_of(t->tag).free_bytes;
    F(free)(page);
    track_flush(t);
    assert_int_equal(sums_of(t->tag).free_bytes - before, 80);
    assert_ptr_equal(F(malloc)(80), page);
    *slot = 0;
    pagemap_release((uintptr_t)page, 4096);
    munmap(page, 4096);
}

/* The same, and then the page gets its class again, with another table. The object that goes back has the new header. */
static void test_the_last_taken_goes_back_with_its_new_header(void **state)
{
    struct thread *t = track_thread();
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint16_t code = class_of(64).code;
    (void)state;
    give_back(t);
    header_t *old = put_page(t, pages, 64);
    magazine_forget_taken(t);
    assert_ptr_equal(F(malloc)(64), pages);
    *old = 0;
    pagemap_install(NULL, (uintptr_t)pages, class_of(256).code);
    pagemap_install(NULL, (uintptr_t)pages + 4096, code); /* perhaps takes the old table */
    header_t *new = page_entry_slot(pagemap_install(NULL, (uintptr_t)pages, code), (uintptr_t)pages);
    assert_ptr_not_equal(old, new);
    *new = t->tag;
    F(free)(pages);
    assert_int_equal(t->free_buffer_count, 0);
    assert_int_equal(*new, 0);
    assert_ptr_equal(F(malloc)(64), pages);
    assert_int_equal(*new, t->tag);
    *new = 0;
    pagemap_release((uintptr_t)pages, 8192);
    munmap(pages, 8192);
}

/* Objects that were taken before the change wait in the buffer, even if one that was put in and taken since lay between. */
static void test_objects_taken_before_a_change_wait(void **state)
{
    struct thread *t = track_thread();
    (void)state;
    give_back(t);
    free_many(t, 200, 2);
    void *second = F(malloc)(200), *first = F(malloc)(200);
    tables_changes++;
    magazine_forget_taken(t);
    F(free)(first);
    assert_int_equal(t->free_buffer_count, 1);
    track_flush(t);
    assert_ptr_equal(F(malloc)(200), first);
    F(free)(first);
    assert_int_equal(t->free_buffer_count, 0);
    F(free)(second);
    assert_int_equal(t->free_buffer_count, 1);
    track_flush(t);
}

static void test_big_objects_are_not_kept(void **state)
{
    struct thread *t = track_thread();
    (void)state;
    give_back(t);
    free_many(t, 14337, 5);
    free_many(t, 100000, 5);
    assert_int_equal(magazine_bytes(t), 0);
}

/* Objects of more than a page that jemalloc makes in slabs are kept, with the header in the page map entry. */
static void test_middle_objects_are_kept(void **state)
{
    struct thread *t = track_thread();
    (void)state;
    give_back(t);
    free_many(t, 5000, 5);
    assert_int_equal(magazine_bytes(t), 5 * 5120);
    struct totals before = sums_of(t->tag);
    char *p = F(malloc)(4097);
    struct totals after = sums_of(t->tag);
    assert_int_equal(magazine_bytes(t), 4 * 5120);
    assert_int_equal(after.alloc_bytes - before.alloc_bytes, 5120);
    assert_int_equal(after.alloc_requested_bytes - before.alloc_requested_bytes, 4097);
    assert_int_equal(track_usable(p), 5120);
    assert_int_equal(track_context(p), t->tag);
    assert_int_equal(track_context(p + 16), 0);
    F(free)(p);
    assert_int_equal(track_context(p), 0);
    assert_int_equal(magazine_bytes(t), 5 * 5120);
    p = F(calloc)(3, 1600);
    assert_int_equal(magazine_bytes(t), 4 * 5120);
    for (int i = 0; i < 5120; i++)
        assert_int_equal(p[i], 0);
    F(free)(p);
    give_back(t);
}

/* A thread that remembers the object must not take a later object at its address for it. */
static void test_entries_of_middle_objects_change(void **state)
{
    enum { BYTES = 4 << HEADER_PAGE_BITS };
    uintptr_t p = (uintptr_t)mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t changes = load_relaxed(&tables_changes);
    (void)state;
    assert_int_equal(pagemap_set_big(p, 5120, 1), 0);
    assert_int_equal(pagemap_set_big(p, 5120, 2), 0);
    assert_true(pagemap_set_big_again(p, 5120, 3));
    assert_int_equal(load_relaxed(&tables_changes), changes);
    assert_false(pagemap_set_big_again(p, 6144, 3));
    assert_int_equal(pagemap_set_big(p, 6144, 3), 0);
    assert_int_equal(load_relaxed(&tables_changes), changes + 1);
    assert_int_equal(pagemap_set_big(p, 20480, 3), 0);
    assert_int_equal(load_relaxed(&tables_changes), changes + 2);
    assert_true(pagemap_set_big_again(p, 16384, 3)); /* no thread remembers objects of these sizes */
    assert_int_equal(load_relaxed(&tables_changes), changes + 2);
    assert_int_equal(pagemap_set_big(p, 14336, 3), 0);
    pagemap_release(p, BYTES);
    assert_int_equal(load_relaxed(&tables_changes), changes + 3);
    assert_false(pagemap_set_big_again(p + ((uintptr_t)1 << 45), 16384, 3)); /* no leaf */
    munmap((void *)p, BYTES);
}

/* An object of a page has a header and a magazine, also if it was asked for by its alignment. */
static void test_objects_of_a_page_are_kept(void **state)
{
    struct thread *t = track_thread();
    (void)state;
    give_back(t);
    free_many(t, HEADER_PAGE_BYTES, 5);
    assert_int_equal(magazine_bytes(t), 5 * HEADER_PAGE_BYTES);
    void *p = F(aligned_alloc)(HEADER_PAGE_BYTES, 1);
    assert_int_equal(magazine_bytes(t), 4 * HEADER_PAGE_BYTES);
    assert_int_equal(track_usable(p), HEADER_PAGE_BYTES);
    assert_int_equal(track_context((char *)p + 16), 0);
    assert_int_equal(track_context((char *)p + HEADER_PAGE_BYTES / 2), 0);
    F(free)(p);
    assert_int_equal(magazine_bytes(t), 5 * HEADER_PAGE_BYTES);
    give_back(t);
}

static void test_reused_objects_are_counted_like_new_ones(void **state)
{
    struct thread *t = track_thread();
    (void)state;
    give_back(t);
    free_many(t, 700, 1);
    struct totals before = sums_of(t->tag);
    void *p = F(malloc)(650);
    struct totals after = sums_of(t->tag);
    assert_int_equal(magazine_bytes(t), 0);
    assert_int_equal(after.alloc_objects - before.alloc_objects, 1);
    assert_int_equal(after.alloc_bytes - before.alloc_bytes, jespan_je_nallocx(650, 0));
    assert_int_equal(after.alloc_requested_bytes - before.alloc_requested_bytes, 650);
    assert_int_equal(header_get(page_entry_slot(*pagemap_page((uintptr_t)p), (uintptr_t)p), false), t->tag);
    F(free)(p);
}

static void test_calloc_clears_what_it_reuses(void **state)
{
    struct thread *t = track_thread();
    (void)state;
    give_back(t);
    char *p = F(malloc)(500);
    memset(p, 'x', 500);
    F(free)(p);
    track_flush(t);
    char *again = F(calloc)(10, 45);
    assert_ptr_equal(again, p);
    for (size_t i = 0; i < F(malloc_usable_size)(again); i++)
        assert_int_equal(again[i], 0);
    F(free)(again);
}

/* Objects that wait in the free buffer are looked at before jemalloc is asked, whatever the function. */
static void test_an_empty_one_gets_what_waits(void **state)
{
    struct thread *t = track_thread();
    (void)state;
    for (int function = 0; function < 3; function++) {
        void *p[10], *again;
        bool found = false;
        give_back(t);
        for (int i = 0; i < 10; i++)
            memset(p[i] = F(malloc)(4096), 'x', 4096);
        for (int i = 0; i < 10; i++)
            F(free)(p[i]);
        assert_int_equal(t->free_buffer_count, 10);
        again = function == 0 ? F(malloc)(4096) : function == 1 ? F(calloc)(4096, 1) : F(aligned_alloc)(4096, 4096);
        for (int i = 0; i < 10; i++)
            found |= again == p[i];
        assert_true(found);
        assert_int_equal(t->free_buffer_count, 0);
        assert_int_equal(magazine_objects(t, CODE_CLASS(class_of(4096).code)), 9);
        assert_true(function != 1 || !memchr(again, 'x', 4096));
        F(free)(again);
    }
}

static void test_what_waits_is_not_given_for_too_much(void **state)
{
    struct thread *t = track_thread();
    void *p[10];
    (void)state;
    for (int i = 0; i < 10; i++)
        p[i] = F(malloc)(4);
    for (int i = 0; i < 10; i++)
        F(free)(p[i]);
    assert_true(track_may_wait(t));
    assert_null(F(calloc)(SIZE_MAX / 4 + 2, 4)); /* 4 bytes, but for the overflow */
    assert_null(F(aligned_alloc)(3, 4));
    assert_null(F(aligned_alloc)((size_t)1 << 63, 4));
    give_back(t);
}

static void test_flushing_the_thread_cache_takes_them_too(void **state)
{
    struct thread *t = track_thread();
    size_t mib[3], length = 3;
    (void)state;
    free_many(t, 100, 10);
    assert_int_equal(F(mallctl)("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    assert_int_equal(magazine_bytes(t), 0);
    free_many(t, 100, 10);
    assert_int_equal(F(mallctlnametomib)("thread.tcache.flush", mib, &length), 0);
    assert_int_equal(F(mallctlbymib)(mib, length, NULL, NULL, NULL, 0), 0);
    assert_int_equal(magazine_bytes(t), 0);
}

int main(void)
{
    stay_on_one_processor();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_newest_comes_first),
        cmocka_unit_test(test_bounded_in_objects_and_bytes),
        cmocka_unit_test(test_smaller_after_many_frees),
        cmocka_unit_test(test_room_for_all),
        cmocka_unit_test(test_a_full_one_keeps_the_newest),
        cmocka_unit_test(test_what_is_given_back_is_jemallocs),
        cmocka_unit_test(test_the_last_taken_goes_back_at_once),
        cmocka_unit_test(test_the_last_taken_has_another_header),
        cmocka_unit_test(test_the_last_taken_has_another_class),
        cmocka_unit_test(test_the_last_taken_goes_back_with_its_new_header),
        cmocka_unit_test(test_objects_taken_before_a_change_wait),
        cmocka_unit_test(test_big_objects_are_not_kept),
        cmocka_unit_test(test_middle_objects_are_kept),
        cmocka_unit_test(test_entries_of_middle_objects_change),
        cmocka_unit_test(test_objects_of_a_page_are_kept),
        cmocka_unit_test(test_reused_objects_are_counted_like_new_ones),
        cmocka_unit_test(test_calloc_clears_what_it_reuses),
        cmocka_unit_test(test_an_empty_one_gets_what_waits),
        cmocka_unit_test(test_what_waits_is_not_given_for_too_much),
        cmocka_unit_test(test_flushing_the_thread_cache_takes_them_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
