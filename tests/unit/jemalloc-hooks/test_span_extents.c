/* SPDX-License-Identifier: BSD-2-Clause */
/* Pages of span arenas: their owner and number by the page map, by jemalloc and by the system. */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "../../support/cases.h"
#include "../../support/mappings.h"
#include "../../support/span_extents.h"
#include "heap/pagemap.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define FIGURE(arena, name) load_relaxed(&(arena)->figures.name)

static struct extent_arena plain = {.id = 7, .policy = EXTENT_POLICY_DEFAULT};
static struct extent_arena other = {.id = 8, .policy = EXTENT_POLICY_DEFAULT};

/* ---- Whose a page is ---- */

static int add_bytes(void *sum, uintptr_t start, size_t bytes)
{
    for (uintptr_t p = start; p < start + bytes; p += 4096)
        CHECK_EQ(pagemap_arena(p), plain.id);
    *(size_t *)sum += bytes;
    return 0;
}

/* As many extents as jemalloc has, in use or not. */
static uint64_t extents_by_stats(unsigned index)
{
    static const char *const unused[] = {"ndirty", "nmuzzy", "nretained"};
    const unsigned n_sizes = stats_read("arenas.page") == 4096 ? 199 : 183; /* of extents; the second is for 64 KiB */
    uint64_t n = 0;
    char name[64];
    for (unsigned i = 0; i < n_sizes; i++)
        for (unsigned k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "extents.%u.%s", i, unused[k]);
            n += stats_of_arena(index, name);
        }
    for (unsigned i = 0; i < stats_read("arenas.nbins"); i++) {
        snprintf(name, sizeof name, "bins.%u.curslabs", i);
        n += stats_of_arena(index, name);
    }
    for (unsigned i = 0; i < stats_read("arenas.nlextents"); i++) {
        snprintf(name, sizeof name, "lextents.%u.curlextents", i);
        n += stats_of_arena(index, name);
    }
    return n;
}

/* jemalloc's thread would purge between two readings. Returns whether it ran. */
static bool run_background_thread(bool run)
{
    bool ran;
    size_t bytes = sizeof ran;
    CHECK_EQ(jespan_je_mallctl("background_thread", &ran, &bytes, &run, sizeof run), 0);
    return ran;
}

static void check_agrees(void)
{
    size_t sum = 0;
    bool ran = run_background_thread(false);
    stats_refresh_until(&extents_heap.mapped_bytes);
    CHECK_EQ(extent_arena_each_range(&plain, add_bytes, &sum), 0);
    CHECK_EQ(sum, FIGURE(&plain, mapped_bytes));
    CHECK_EQ(FIGURE(&plain, mapped_bytes), stats_mapped(plain.index));
    CHECK_EQ(FIGURE(&plain, extents), extents_by_stats(plain.index));
    CHECK_EQ(load_relaxed(&extents_heap.mapped_bytes), stats_mapped(MALLCTL_ARENAS_ALL));
    CHECK(FIGURE(&plain, committed_bytes) <= FIGURE(&plain, mapped_bytes));
    CHECK(FIGURE(&plain, peak_mapped_bytes) >= FIGURE(&plain, mapped_bytes));
    run_background_thread(ran);
}

static size_t size_of(unsigned i)
{
    return i % 100 == 99 ? (i % 1000) * KIB : i % 9 == 8 ? i % 60 * KIB + 1 : i % 2000 + 1;
}

enum { OBJECTS = 6000 };

static void *fill_and_empty(void *unused)
{
    static THREAD_LOCAL void *objects[OBJECTS];
    for (unsigned i = 0; i < OBJECTS; i++) {
        objects[i] = from(&plain, size_of(i));
        CHECK(objects[i] != NULL);
        CHECK_EQ(pagemap_arena((uintptr_t)objects[i]), plain.id);
        CHECK(jespan_malloc_usable_size(objects[i]) >= size_of(i));
    }
    for (unsigned i = 0; i < OBJECTS; i++)
        if (i % 2)
            back(objects[i]);
        else
            jespan_free(objects[i]);
    return unused;
}

static void case_claimed(void)
{
    create(&plain);
    create(&other);
    CHECK_EQ(FIGURE(&plain, mapped_bytes), 0);
    void *p = from(&plain, 64), *q = from(&other, 64), *r = jespan_malloc(64);
    CHECK_EQ(pagemap_arena((uintptr_t)p), plain.id);
    CHECK_EQ(pagemap_arena((uintptr_t)q), other.id);
    CHECK_EQ(pagemap_arena((uintptr_t)r), 0);
    check_agrees();
    fill_and_empty(NULL);
    check_agrees();
    arena_does(&plain, "purge");
    check_agrees();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, fill_and_empty, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    check_agrees();
    arena_does(&plain, "purge");
    check_agrees();
    CHECK_EQ(pagemap_arena((uintptr_t)p), plain.id);
    CHECK(pagemap_arena((uintptr_t)r) == 0 && pagemap_arena((uintptr_t)q) == other.id);
    CHECK_EQ(load_relaxed(&plain.policy_errors), 0);
    CHECK_EQ(load_relaxed(&plain.refusals), 0);
}

/* Without retaining, addresses go, and what is elsewhere on them is nobody's. */
static void case_disowned(void)
{
    case_claimed();
    void *p = from(&plain, 8 * MIB);
    CHECK_EQ(pagemap_arena((uintptr_t)p + 8 * MIB - 1), plain.id);
    back(p);
    arena_does(&plain, "purge");
    CHECK_EQ(pagemap_arena((uintptr_t)p + 8 * MIB - 1), 0);
    CHECK(FIGURE(&plain, mapped_bytes) < FIGURE(&plain, peak_mapped_bytes) / 4);
    check_agrees();
}

/* An object is treated right by every call, wherever it came from. */
static void case_any_call(void)
{
    static const size_t sizes[] = {1, 64, 3000, 4096, 20000, 9 * MIB};
    create(&plain);
    for (int i = 0; i < 6; i++) {
        char *p = from(&plain, sizes[i]);
        size_t usable = jespan_malloc_usable_size(p);
        CHECK_EQ(usable, jespan_je_sallocx(p, 0));
        memset(p, 'x', usable);
        CHECK_EQ(track_credit(track_thread(), p, 1), 0);
        p = jespan_realloc(p, 2 * sizes[i] + 1);
        CHECK(p && p[0] == 'x' && p[sizes[i] - 1] == 'x');
        jespan_free(p);
    }
}

/* ---- The limit ---- */

enum { BLOCKS = 4096 };
static void *blocks[BLOCKS];

/* Until there is no more. Returns how many. */
static size_t take_blocks(size_t bytes)
{
    size_t n = 0;
    while (n < BLOCKS && (blocks[n] = from(&plain, bytes)))
        n++;
    return n;
}

static void case_limit(void)
{
    const size_t limit = 5 * MIB + 4096, block = 64 * KIB;
    store_relaxed(&plain.limit_bytes, limit);
    create(&plain);
    create(&other);
    size_t n = take_blocks(block);
    CHECK(FIGURE(&plain, committed_bytes) <= limit);
    CHECK(limit - FIGURE(&plain, committed_bytes) < block + 4096); /* jemalloc has a page for an offset with each */
    CHECK(n >= limit / (block + 4096) - 1);
    CHECK(load_relaxed(&plain.refusals) > 0);
    CHECK_EQ(load_relaxed(&other.refusals), 0);
    void *p = from(&other, 16 * MIB), *q = jespan_malloc(16 * MIB);
    CHECK(p && q);
    back(blocks[--n]);
    CHECK((blocks[n] = from(&plain, block)) != NULL);
    CHECK(from(&plain, block) == NULL);
    store_relaxed(&plain.limit_bytes, 0);
    CHECK(from(&plain, 16 * MIB) != NULL);
    uint64_t refusals = load_relaxed(&plain.refusals);
    store_relaxed(&plain.limit_bytes, limit); /* less than there is */
    CHECK(from(&plain, 64 * MIB) == NULL);
    CHECK(load_relaxed(&plain.refusals) > refusals);
    check_agrees();
}

static void *take_all(void *unused)
{
    for (int i = 0; i < 2000; i++)
        from(&plain, 16 * KIB);
    return unused;
}

/* Threads that allocate at the same time do not exceed the limit together. */
static void case_limit_of_threads(void)
{
    pthread_t threads[8];
    store_relaxed(&plain.limit_bytes, 24 * MIB);
    create(&plain);
    for (int i = 0; i < 8; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, take_all, NULL), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    CHECK(FIGURE(&plain, committed_bytes) <= 24 * MIB);
    CHECK(FIGURE(&plain, committed_bytes) > 24 * MIB - 20 * KIB);
    check_agrees();
}

/* ---- Creating ---- */

static void case_wrong(void)
{
    struct extent_arena a = {.policy = EXTENT_POLICY_DEFAULT};
    unsigned arenas = (unsigned)stats_read("arenas.narenas");
    track_thread();
    lock(LOCK_ARENAS);
    CHECK_EQ(extent_arena_create(&a), -EINVAL);
    a.id = 1;
    a.policy.dirty_decay_ms = -2;
    CHECK_EQ(extent_arena_create(&a), -EINVAL);
    CHECK_EQ(extent_arena_create(&a), -EINVAL);
    unlock(LOCK_ARENAS);
    CHECK(stats_read("arenas.narenas") <= arenas + 1); /* a number that was given back */
}

static int64_t decay_of(const struct extent_arena *a, const char *name)
{
    char whole[64];
    snprintf(whole, sizeof whole, "arena.%u.%s", a->index, name);
    return (int64_t)stats_read(whole);
}

static void case_decay(void)
{
    other.policy.dirty_decay_ms = 0;
    other.policy.muzzy_decay_ms = 12345;
    create(&plain);
    create(&other);
    CHECK_EQ(decay_of(&plain, "dirty_decay_ms"), 3456);
    CHECK_EQ(decay_of(&plain, "muzzy_decay_ms"), stats_read("arenas.muzzy_decay_ms"));
    CHECK_EQ(decay_of(&other, "dirty_decay_ms"), 0);
    CHECK_EQ(decay_of(&other, "muzzy_decay_ms"), 12345);
    back(from(&plain, MIB));
    back(from(&other, MIB));
    CHECK_EQ(FIGURE(&plain, purged_forced_bytes), 0);
    CHECK(FIGURE(&other, purged_forced_bytes) >= MIB);
}

/* Ranges far from each other, more than there are areas for. */
static void case_far_apart(void)
{
    create(&plain);
    size_t sum = 0;
    for (unsigned i = 0; i < 200; i++) {
        void *hole = mmap(NULL, 64 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        CHECK(hole != MAP_FAILED);
        CHECK(from(&plain, 3 * MIB) != NULL);
    }
    extent_arena_each_range(&plain, add_bytes, &sum);
    CHECK_EQ(sum, FIGURE(&plain, mapped_bytes));
    CHECK(sum >= 600 * MIB);
}

static const struct test_case cases[] = {
    {"claimed", case_claimed, NULL, NULL},
    {"claimed, at once", case_claimed, "dirty_decay_ms:0", NULL},
    {"claimed, lazily", case_claimed, "dirty_decay_ms:1,muzzy_decay_ms:1000", NULL},
    {"claimed, thp", case_claimed, "thp:always,metadata_thp:always", NULL},
    {"claimed, background thread", case_claimed, "background_thread:true,dirty_decay_ms:100", NULL},
    {"disowned", case_disowned, "retain:false", NULL},
    {"disowned, at once", case_disowned, "retain:false,dirty_decay_ms:0", NULL},
    {"any call", case_any_call, NULL, NULL},
    {"limit", case_limit, NULL, NULL},
    {"limit, unmapped", case_limit, "retain:false", NULL},
    {"limit of threads", case_limit_of_threads, NULL, NULL},
    {"wrong", case_wrong, NULL, NULL},
    {"decay", case_decay, "dirty_decay_ms:3456", NULL},
    {"far apart", case_far_apart, "retain:false", NULL},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
