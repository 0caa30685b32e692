/* SPDX-License-Identifier: BSD-2-Clause */
/* A child is forked at any moment of another thread's flush. The child frees nothing twice. It loses at most one
 * object, or two if a full magazine was being halved.
 *
 * The flush is compiled here with a fork after each of its stores and of its calls of jemalloc. The child must see a
 * block whose thread is gone. So the forking thread gives up its block before, and the child takes the block again,
 * as its first new thread would.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/compiler.h"

static void after_store(void);

#undef store_relaxed
#define store_relaxed(p, v) (atomic_store_explicit((p), (v), memory_order_relaxed), after_store())
#undef store_release
#define store_release(p, v) (atomic_store_explicit((p), (v), memory_order_release), after_store())
#include "base/lock.h"
static bool is_locked; /* then no other thread can fork */
#define try_lock(rank) (is_locked = try_lock(rank))
#define lock(rank) (lock(rank), is_locked = true)
#define unlock(rank) (unlock(rank), is_locked = false, after_store())
#include "jemalloc/binding.h"
#define jespan_je_sdallocx(p, bytes, flags) (jespan_je_sdallocx((p), (bytes), (flags)), after_store())
#include "heap/magazine.c" /* so the library's copy is not linked */
#include "malloc/track_flush.c"
#include "malloc/track_free.c"

#include "../../support/family.h"
#include "../../support/give_back.h"
#include "../../support/one_processor.h"

enum { OBJECTS = 5, KEPT = 128, OBJECT_BYTES = 100, OWN_BYTES = 300, CHILD_SECONDS = 600 };
static void *objects[OBJECTS];
static bool forking_after_stores;
static int forks;
static enum { TO_EMPTY, TO_FULL, TO_NONE } magazine;
static unsigned class; /* the class of these objects */
static int kept_least; /* in a magazine that was full */

static bool has_header(const void *p)
{
    return load_relaxed(page_entry_slot(load_relaxed(pagemap_page((uintptr_t)p)), (uintptr_t)p)) != 0;
}

/* Returns the number of objects that are neither freed nor kept for the next allocation, as far as that can be seen. A
 * full magazine gives half of its objects to jemalloc, and more in a long run of frees. */
static int lost_objects(struct thread *t)
{
    int kept = (int)(magazine_objects(t, class) + batches_of(class) * depot_batch_objects(class)), lost = 0;
    if (magazine == TO_NONE)
        return 0;
    if (magazine == TO_EMPTY)
        return OBJECTS - kept;
    for (int i = 0; i < OBJECTS; i++)
        lost += has_header(objects[i]);
    return lost + (kept < kept_least ? kept_least - kept : 0);
}

/* Allocates more objects than were freed, so an object that is kept twice is returned twice. */
static bool no_object_comes_twice(void)
{
    void *p[KEPT + DEPOT_BATCH_MAX + 4 * OBJECTS];
    for (int i = 0; i < KEPT + (int)DEPOT_BATCH_MAX + 4 * OBJECTS; i++) {
        p[i] = F(malloc)(OBJECT_BYTES);
        for (int k = 0; k < i; k++)
            if (p[k] == p[i])
                return false;
    }
    for (int i = 0; i < KEPT + (int)DEPOT_BATCH_MAX + 4 * OBJECTS; i++)
        F(free)(p[i]);
    return true;
}

/* In the child, after the fork handlers. A double free ends it with a signal. */
static int go_on(struct thread *abandoned)
{
    alarm(CHILD_SECONDS);
    struct thread *t = track_thread();
    if (t != abandoned)
        return 2;
    void *own = F(malloc)(OWN_BYTES);
    F(free)(own);
    track_flush(t);
    if (load_relaxed(&t->free_buffer_sequence) & 1)
        return 3;
    if (has_header(own) || lost_objects(t) > (magazine == TO_FULL ? 2 : 1))
        return 4;
    if (!no_object_comes_twice())
        return 5;
    track_flush(t);
    return magazine_objects(t, class) <= KEPT ? 0 : 6;
}

static void after_store(void)
{
    struct thread *t = thread_current;
    int status = -1;
    if (!forking_after_stores || is_locked)
        return;
    forking_after_stores = false;
    thread_fast_set(NULL, NULL, false, false);
    thread_current = NULL;
    pid_t pid = fork();
    if (pid == 0)
        _exit(go_on(t));
    thread_fast_set(t, t, false, false);
    thread_current = t;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status)
        fail_msg("fork number %d in the flush: the child ended with status 0x%x", forks, status);
    forks++;
    forking_after_stores = true;
}

static void allocate(void *p[], int n)
{
    for (int i = 0; i < n; i++)
        p[i] = F(malloc)(OBJECT_BYTES);
}

static void free_and_flush(void *p[], int n)
{
    for (int i = 0; i < n; i++)
        F(free)(p[i]);
    track_flush(thread_current);
}

static void free_and_flush_with_forks(unsigned fewest, unsigned most)
{
    for (int i = 0; i < OBJECTS; i++)
        F(free)(objects[i]);
    forks = 0;
    forking_after_stores = true;
    track_flush(thread_current);
    forking_after_stores = false;
    assert_in_range(forks, fewest, most);
    assert_int_equal(lost_objects(thread_current), 0);
}

static void test_in_a_flush_to_the_magazine(void **state)
{
    (void)state;
    thread_cache_flush(track_thread());
    class = CODE_CLASS(class_of(OBJECT_BYTES).code);
    magazine = TO_EMPTY;
    allocate(objects, OBJECTS);
    free_and_flush_with_forks(2 * OBJECTS + 4, 10 * OBJECTS + 4);
}

static void fill_magazine(struct thread *t)
{
    void *kept[KEPT];
    thread_cache_flush(t);
    assert_int_equal(magazine_max[class], KEPT);
    magazine = TO_FULL;
    allocate(objects, OBJECTS);
    allocate(kept, KEPT);
    free_and_flush(kept, KEPT);
    assert_int_equal(magazine_objects(t, class), KEPT);
}

/* The older half goes to the depot, and none is lost. */
static void test_in_a_flush_to_the_depot(void **state)
{
    (void)state;
    fill_magazine(track_thread());
    kept_least = KEPT;
    free_and_flush_with_forks(2 * OBJECTS + 5, 10 * OBJECTS + 10);
    assert_int_equal(batches_of(class), 1);
    magazine_empty_depot(track_thread());
    depot_close();
}

static void test_in_a_flush_to_a_full_magazine(void **state)
{
    (void)state;
    fill_magazine(track_thread());
    kept_least = KEPT / 2;
    free_and_flush_with_forks(KEPT + 2 * OBJECTS + 4, 2 * KEPT + 10 * OBJECTS + 4);
}

/* After several spills in a row, all objects go, and later ones at once. */
static void test_in_a_flush_to_one_that_is_only_filled(void **state)
{
    struct thread *t = track_thread();
    void *p[2 * KEPT];
    (void)state;
    thread_cache_flush(t);
    magazine = TO_FULL;
    allocate(objects, OBJECTS);
    allocate(p, 2 * KEPT);
    free_and_flush(p, KEPT);
    free_and_flush(p + KEPT, KEPT / 2);
    free_and_flush(p + KEPT + KEPT / 2, KEPT / 2);
    assert_int_equal(magazine_objects(t, class), KEPT); /* full again, after it ran over twice */
    kept_least = 0;
    free_and_flush_with_forks(KEPT + 2 * OBJECTS + 4, 2 * KEPT + 10 * OBJECTS + 4);
    assert_int_equal(magazine_objects(t, class), 0);
    void *more[2 * KEPT];
    allocate(objects, OBJECTS);
    allocate(more, 2 * KEPT);
    free_and_flush(more, KEPT);
    free_and_flush(more + KEPT, KEPT / 2 + 1);
    free_and_flush(more + KEPT + KEPT / 2 + 1, KEPT / 2 - 1);
    assert_int_equal(magazine_objects(t, class), 0);
    free_and_flush_with_forks(2 * OBJECTS + 4, 2 * KEPT + 10 * OBJECTS + 4);
}

static void begin_anew(struct thread *t)
{
    for (unsigned c = 0; c < CLASSES_MAX; c++)
        t->magazine_top[c] = NULL; /* as in a new block */
}

/* The objects move to the larger magazine. */
static void test_in_a_flush_that_fills_the_first_magazine(void **state)
{
    struct thread *t = track_thread();
    void *p[MAGAZINE_FIRST];
    (void)state;
    thread_cache_flush(t);
    begin_anew(t);
    magazine_start(t);
    magazine = TO_FULL;
    allocate(objects, OBJECTS);
    allocate(p, MAGAZINE_FIRST);
    free_and_flush(p, MAGAZINE_FIRST);
    assert_int_equal(magazine_objects(t, class), MAGAZINE_FIRST);
    assert_true(t->magazine_top[class] < t->magazine);
    kept_least = MAGAZINE_FIRST;
    free_and_flush_with_forks(2 * OBJECTS + 5, 10 * OBJECTS + 5);
    assert_int_equal(magazine_objects(t, class), MAGAZINE_FIRST + OBJECTS);
    assert_true(t->magazine_top[class] > t->magazine);
}

static void start_with_forks(void)
{
    struct thread *t = thread_current;
    begin_anew(t);
    forks = 0;
    forking_after_stores = true;
    magazine_start(t);
    forking_after_stores = false;
    assert_int_equal(forks, 1 + CLASSES_MAX); /* taken_from, and the tops */
}

/* The next thread that takes the block over has magazines that work. */
static void test_at_the_start_of_a_block(void **state)
{
    (void)state;
    thread_cache_flush(track_thread());
    magazine = TO_NONE;
    start_with_forks();
}

/* Each page that fork's handlers write is copied in each child. So what they write in a thread block lies in its first
 * 4 KiB, and what they write elsewhere in one page. */
static void test_handlers_write_two_pages(void **state)
{
    extern char __start_jespan_fork[], __stop_jespan_fork[];
    (void)state;
    assert_true(offsetof(struct thread, entries_inline) <= 4096);
    assert_int_equal((uintptr_t)__start_jespan_fork / 4096, ((uintptr_t)__stop_jespan_fork - 1) / 4096);
    assert_true(__stop_jespan_fork - __start_jespan_fork <= 2048);
}

int main(void)
{
    stay_on_one_processor();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_a_flush_to_the_magazine),
        cmocka_unit_test(test_in_a_flush_to_the_depot),
        cmocka_unit_test(test_in_a_flush_to_a_full_magazine),
        cmocka_unit_test(test_in_a_flush_to_one_that_is_only_filled),
        cmocka_unit_test(test_in_a_flush_that_fills_the_first_magazine),
        cmocka_unit_test(test_at_the_start_of_a_block),
        cmocka_unit_test(test_handlers_write_two_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
