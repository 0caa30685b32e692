/* SPDX-License-Identifier: BSD-2-Clause */
/* The heap's figures as the extent hooks count them, compared with jemalloc's, under jemalloc's options. */
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#include "../../support/cases.h"
#include "../../support/mappings.h"
#include "heap/pagemap.h"
#include "jemalloc-hooks/extents.h"
#include "malloc/track.h"

void *jespan_malloc(size_t size);
void *jespan_mallocx(size_t size, int flags);
void jespan_free(void *p);

#define MIB ((size_t)1 << 20)
#define HEAP(name) load_relaxed(&extents_heap.name)

static void purge_all(void)
{
    CHECK_EQ(jespan_je_mallctl("arena.4096.purge", NULL, NULL, NULL, 0), 0);
}

/* The hooks' figures agree with jemalloc's: pages in use, the peak, pages that are kept unused. */
static void check_agrees(void)
{
    stats_refresh_until(&extents_heap.mapped_bytes);
    CHECK_EQ(HEAP(mapped_bytes), stats_mapped(MALLCTL_ARENAS_ALL));
    CHECK(HEAP(committed_bytes) <= HEAP(mapped_bytes));
    CHECK(HEAP(peak_mapped_bytes) >= HEAP(mapped_bytes));
    CHECK((int64_t)HEAP(extents) > 0);
}

enum { OBJECTS = 20000 };
static void *objects[OBJECTS];

/* Small ones, larger ones, and a few beyond opt.oversize_threshold, which have an arena of their own. */
static size_t size_of(unsigned i)
{
    return i % 4000 == 3999 ? 9 * MIB : i % 50 == 49 ? (i % 2000) * 64 + 4096 : i % 1000 + 1;
}

static void fill(void)
{
    for (unsigned i = 0; i < OBJECTS; i++)
        CHECK((objects[i] = jespan_malloc(size_of(i))) != NULL);
}

static void empty(unsigned from, unsigned step)
{
    for (unsigned i = from; i < OBJECTS; i += step)
        jespan_free(objects[i]);
    thread_cache_flush(track_thread());
}

static void *churn(void *start)
{
    uint64_t rounds = check_rounds("EXTENTS_ROUNDS", 300);
    pthread_barrier_wait(start);
    for (uint64_t round = 0; round < rounds; round++) {
        void *p[64];
        for (size_t i = 0; i < 64; i++)
            p[i] = jespan_malloc((i + 1) * 1000);
        for (size_t i = 0; i < 64; i++)
            jespan_free(p[i]);
    }
    return NULL;
}

enum { MAX_THREADS = 100 };

static void churn_on_threads(unsigned n)
{
    pthread_t threads[MAX_THREADS];
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, n);
    for (unsigned i = 0; i < n; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, churn, &start), 0);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
}

static void case_figures(void)
{
    track_thread();
    check_agrees();
    fill();
    check_agrees();
    uint64_t full = HEAP(mapped_bytes);
    empty(0, 2);
    check_agrees();
    empty(1, 2);
    purge_all();
    check_agrees();
    CHECK(HEAP(peak_mapped_bytes) >= full);
    churn_on_threads(4);
    check_agrees();
}

/* Threads that begin at once, each with an arena that jemalloc makes for it, or several with one. */
static void case_arenas_at_once(void)
{
    track_thread();
    churn_on_threads(MAX_THREADS);
    check_agrees();
}

/* Arenas that a call names, before a thread of their own comes, or where none does. */
static void case_arenas_by_number(void)
{
    track_thread();
    for (int arena = 1; arena < 8; arena++)
        CHECK(jespan_mallocx((size_t)arena * MIB, MALLOCX_ARENA(arena) | MALLOCX_TCACHE_NONE) != NULL);
    churn_on_threads(20);
    check_agrees();
}

/* With opt.retain addresses stay and pages go; all of them through the hooks. */
static void case_retained(void)
{
    case_figures();
    CHECK(extents_retain);
    CHECK_EQ(HEAP(mapped_bytes), HEAP(peak_mapped_bytes));
    uint64_t purged = stats_read("arenas.page") * (stats_of_arena(4096, "dirty_purged") + stats_of_arena(4096, "muzzy_purged"));
    CHECK(purged > 10 * MIB);
    CHECK_EQ(HEAP(purged_forced_bytes) + HEAP(purged_lazy_bytes), purged);
}

/* Pages that decay gradually are purged lazily first, and forced later. */
static void case_lazily(void)
{
    track_thread();
    fill();
    empty(0, 1);
    for (int i = 0; i < 60000 && !HEAP(purged_lazy_bytes); i++) {
        usleep(10000);
        CHECK_EQ(jespan_je_mallctl("arena.4096.decay", NULL, NULL, NULL, 0), 0);
    }
    CHECK(HEAP(purged_lazy_bytes) > 0);
    check_agrees();
    case_retained();
}

static void case_unmapped(void)
{
    case_figures();
    CHECK(!extents_retain);
    CHECK(HEAP(mapped_bytes) < HEAP(peak_mapped_bytes) / 2);
}

/* Without any of the options' own doing: jemalloc maps, our hooks only look on. */
static void case_thp(void)
{
    char modes[64] = "";
    FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
    int has_choice = f && fgets(modes, sizeof modes, f) && strstr(modes, "[madvise]");
    if (f)
        fclose(f);
    case_figures();
    void *p = jespan_malloc(4 * MIB);
    CHECK(!has_choice || mapping_has_flag(p, "hg"));
    jespan_free(p);
}

static void case_no_thp(void)
{
    case_figures();
    void *p = jespan_malloc(4 * MIB);
    CHECK(!mapping_has_flag(p, "hg"));
    jespan_free(p);
}

/* Tables go with their pages, at once where nothing decays. */
static void case_tables(void)
{
    track_thread();
    uint64_t before = tables_used_bytes();
    fill();
    CHECK(tables_used_bytes() > before + OBJECTS * sizeof(header_t) / 2);
    empty(0, 1);
    CHECK(tables_used_bytes() - before < 16384);
}

/* ---- The peak's growth ---- */

static void *wait_for_event(void *woken)
{
    struct timespec limit = {.tv_sec = 600};
    uint32_t seen = load_relaxed(&extents_high_water_events);
    extents_watch_high_water(true);
    __atomic_store_n((int *)woken, 1, __ATOMIC_RELEASE);
    while (load_acquire(&extents_high_water_events) == seen)
        if (syscall(SYS_futex, &extents_high_water_events, FUTEX_WAIT_PRIVATE, seen, &limit, NULL, 0) &&
            errno == ETIMEDOUT)
            return NULL;
    extents_watch_high_water(false);
    return woken;
}

static void case_high_water(void)
{
    pthread_t waiter;
    int waits = 0;
    void *woken = NULL;
    track_thread();
    void *first = jespan_malloc(64 * MIB);
    uint32_t events = load_relaxed(&extents_high_water_events);
    CHECK(events > 0);
    jespan_free(jespan_malloc(2 * MIB)); /* less than a sixteenth, or from what is there */
    jespan_free(first);
    CHECK_EQ(load_relaxed(&extents_high_water_events), events);
    CHECK_EQ(pthread_create(&waiter, NULL, wait_for_event, &waits), 0);
    while (!__atomic_load_n(&waits, __ATOMIC_ACQUIRE))
        ;
    usleep(100000); /* it is asleep, most likely */
    uint64_t peak = HEAP(peak_mapped_bytes);
    jespan_free(jespan_malloc(256 * MIB));
    pthread_join(waiter, &woken);
    CHECK(woken != NULL);
    CHECK(HEAP(peak_mapped_bytes) >= peak + 192 * MIB);
    CHECK_EQ(load_relaxed(&extents_high_water_events), events + 1);
}

static const struct test_case cases[] = {
    {"retained", case_retained, "muzzy_decay_ms:0", NULL},
    {"at once", case_retained, "dirty_decay_ms:0,muzzy_decay_ms:0", NULL},
    {"lazily", case_lazily, "dirty_decay_ms:20,muzzy_decay_ms:-1", NULL},
    {"unmapped", case_unmapped, "retain:false,dirty_decay_ms:0", NULL},
    {"thp", case_thp, "thp:always", NULL},
    {"no thp", case_no_thp, "thp:never", NULL},
    {"arenas at once", case_arenas_at_once, "narenas:200", NULL},
    {"shared arenas at once", case_arenas_at_once, "narenas:8,retain:false", NULL},
    {"arenas by number", case_arenas_by_number, "narenas:8", NULL},
    {"metadata_thp", case_figures, "metadata_thp:always", NULL},
    {"one arena", case_figures, "narenas:1,retain:false", NULL},
    {"arena for each CPU", case_figures, "percpu_arena:percpu", NULL},
    {"background thread", case_figures, "background_thread:true", NULL},
    {"tables", case_tables, "dirty_decay_ms:0,tcache:false", NULL},
    {"high water", case_high_water, "retain:false", NULL},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
