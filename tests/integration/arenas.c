/* SPDX-License-Identifier: BSD-2-Clause */
/* Span arenas: which objects they hold, which spans have one, and exact figures. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/wait.h>

#include <jespan/jespan.h>

#include "../support/arenas.h"
#include "../support/cases.h"
#include "../support/no_memory.h"
#include "../support/spans.h"

JESPAN_SITE_ARENA(cache_site, "cache", JESPAN_ARENA);
JESPAN_SITE_ARENA(alone_site, "alone", JESPAN_ARENA | JESPAN_ARENA_ALONE);
JESPAN_SITE_ARENA(none_site, "none", JESPAN_ARENA_NONE);
JESPAN_SITE(plain_site, "plain");
JESPAN_SITE(tenant_site, "tenant", .arena = {.flags = JESPAN_ARENA, .by_label = "who"});

#define WAYS 10
static void *get(unsigned way, size_t n)
{
    void *p = NULL;
    switch (way) {
    case 0: return F(malloc)(n);
    case 1: return F(calloc)(n, 3);
    case 2: return F(realloc)(NULL, n);
    case 3: return F(aligned_alloc)(256, n);
    case 4: return F(posix_memalign)(&p, 8192, n) ? NULL : p;
    case 5: return F(mallocx)(n, FLAG_ZERO);
    case 6: return F(reallocarray)(NULL, n, 2);
    case 7: return F(valloc)(n);
    case 8: return F(realloc)(F(malloc)(n), 2 * n + 3);
    default: return F(rallocx)(F(malloc)(n), 5 * n + 3, FLAG_ALIGN(64));
    }
}

static void give(unsigned way, void *p)
{
    switch (way % 4) {
    case 0: F(free)(p); break;
    case 1: F(sdallocx)(p, F(malloc_usable_size)(p), 0); break;
    case 2: F(free_sized)(p, 1); break;
    default: F(dallocx)(p, 0);
    }
}

static const size_t sizes[] = {0, 1, 24, 100, 1000, 4096, 5000, 16384, 100000, 3000000};
#define OBJECTS (WAYS * MEMBERS(sizes))

/* Fills an array with objects that were allocated in all ways in the current context. Returns their usable bytes. */
static uint64_t get_all(void **objects)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < OBJECTS; i++) {
        size_t n = sizes[i / WAYS];
        unsigned way = i % WAYS;
        objects[i] = get(way, n || (way != 5 && way < 8) ? n : 1); /* those are undefined with 0 */
        CHECK(objects[i] != NULL);
        bytes += F(malloc_usable_size)(objects[i]);
    }
    return bytes;
}

static void *give_all(void *argument)
{
    void **objects = argument;
    for (unsigned i = 0; i < OBJECTS; i++)
        give(i, objects[i]);
    return NULL;
}

static void check_place(void **objects, uint64_t index, bool inside)
{
    for (unsigned i = 0; i < OBJECTS; i++)
        if ((arena_of_object(objects[i]) == index) != inside)
            check_fail("object %u is in jemalloc's arena %llu; the span's is %llu", i,
                       (unsigned long long)arena_of_object(objects[i]), (unsigned long long)index);
}

/* The arena holds exactly the objects of the span, whichever thread frees them, and figures return to 0. */
static void isolation(void)
{
    void *before[OBJECTS], *inside[OBJECTS], *again[OBJECTS], *after[OBJECTS];
    uint64_t bytes;
    uint32_t arena;
    get_all(before);
    {
        ARENA_BLOCK(&cache_site);
        arena = arena_here();
        bytes = get_all(inside);
        arena_check_inuse(arena, OBJECTS, bytes, "inside");
        give_all(inside);
        arena_check_inuse(arena, 0, 0, "freed inside");
        bytes = get_all(inside);
        bytes += get_all(again);
    }
    CHECK_EQ(arena, 1);
    CHECK(strcmp(ctl_text("spans.arenas.1.name"), "cache") == 0);
    uint64_t index = arena_figure(arena, "index");
    get_all(after);
    check_place(before, index, false);
    check_place(inside, index, true);
    check_place(again, index, true);
    check_place(after, index, false);
    arena_check_inuse(arena, 2 * OBJECTS, bytes, "outside");
    ctl_check_identity("full");
    spans_on_thread(give_all, inside);
    spans_on_thread(give_all, before);
    give_all(after);
    give_all(again);
    arena_check_inuse(arena, 0, 0, "all freed");
    ctl_check_identity("empty");
    CHECK_EQ(ctl_u64("spans.stats.tcache_fallbacks"), 0);
}

/* A resized object stays in place, or moves to the arena of the resizing thread. */
static void resizing(void)
{
    char *p;
    {
        ARENA_BLOCK(&cache_site);
        p = F(malloc)(100);
    }
    uint64_t index = arena_figure(1, "index");
    memset(p, 7, 100);
    p = F(realloc)(p, 101);
    CHECK_EQ(arena_of_object(p), index);
    p = F(realloc)(p, 20000);
    CHECK(arena_of_object(p) != index && p[99] == 7);
    arena_check_inuse(1, 0, 0, "moved out");
    {
        ARENA_BLOCK(&cache_site);
        p = F(realloc)(p, 1000);
        CHECK(arena_of_object(p) == index && p[99] == 7);
        p = F(realloc)(p, 300000);
        CHECK(arena_of_object(p) == index && p[99] == 7);
        arena_check_inuse(1, 1, F(malloc_usable_size)(p), "moved in");
        size_t grown = F(xallocx)(p, 320000, 0, 0);
        arena_check_inuse(1, 1, grown, "perhaps grown");
    }
    F(free)(p);
    arena_check_inuse(1, 0, 0, "freed");
    ctl_check_identity("resizing");
}

static uint32_t arena_below(const struct jespan_site *site)
{
    ARENA_BLOCK(site);
    return arena_here();
}

static void inheritance(void)
{
    {
        ARENA_BLOCK(&cache_site);
        CHECK_EQ(arena_here(), 1);
        CHECK_EQ(arena_below(&plain_site), 1);
        CHECK_EQ(arena_below(&none_site), 0);
        CHECK_EQ(arena_below(&alone_site), 2);
    }
    ARENA_BLOCK(&alone_site);
    CHECK_EQ(arena_here(), 2);
    CHECK_EQ(arena_below(&plain_site), 0);
    CHECK_EQ(arena_below(&cache_site), 1);
    CHECK_EQ(arena_figure(1, "contexts"), 3); /* the cache, what is plain below it, and it below alone */
    CHECK_EQ(ctl_u64("spans.arenas.count"), 2);
}

static bool keep_open;
static jespan_span_t *opened[200];
static unsigned n_opened;

static uint32_t arena_of_tenant(unsigned number)
{
    char who[16];
    snprintf(who, sizeof who, "%u", number);
    const struct jespan_label label = JESPAN_LABEL("who", who);
    jespan_span_t *span = jespan_open(&tenant_site, JESPAN_ROOT, &label, 1);
    uint32_t arena = (uint32_t)ctl_span(spans_context(span), "arena");
    if (keep_open)
        opened[n_opened++] = span;
    else
        jespan_close(span);
    return arena;
}

static void allocate_for(unsigned number, size_t bytes, void **p)
{
    char who[16];
    snprintf(who, sizeof who, "%u", number);
    const struct jespan_label label = JESPAN_LABEL("who", who);
    struct jespan_block scope __attribute__((cleanup(jespan_exit_block)));
    jespan_enter_block_labels(&scope, &tenant_site, &label, 1);
    *p = F(malloc)(bytes);
}

/* max_arenas:4. An arena without live objects and open spans serves others, and its figures start at 0. */
static void one_after_another(void)
{
    char value[16], name[64];
    void *p, *kept;
    for (unsigned i = 0; i < 2000; i++) {
        size_t bytes = sizeof value;
        CHECK(arena_of_tenant(i) != 0);
        allocate_for(i, 5000, &p);
        uint32_t arena = arena_of_tenant(i);
        CHECK_EQ(arena_figure(arena, "inuse_objects"), 1);
        CHECK_EQ(arena_figure(arena, "alloc_objects"), 1);
        CHECK_EQ(arena_figure(arena, "refusals"), 0);
        CHECK_EQ(arena_of_object(p), arena_figure(arena, "index"));
        snprintf(name, sizeof name, "spans.arenas.%u.value", (unsigned)arena);
        CHECK_EQ(F(mallctl)(name, value, &bytes, NULL, 0), 0);
        CHECK_EQ((unsigned)atoi(value), i);
        F(free)(p);
    }
    CHECK_EQ(ctl_u64("spans.stats.arenas_refused"), 0);
    CHECK(arena_of_tenant(0) != 0); /* a tenant that comes again has an arena again */
    allocate_for(0, 5000, &kept);
    uint32_t taken = arena_of_tenant(0);
    for (unsigned i = 1; i < 100; i++)
        CHECK(arena_of_tenant(i) != taken);
    CHECK_EQ(arena_of_tenant(0), taken);
    F(free)(kept);
    ctl_check_identity("one after another");
}

/* max_arenas:4: four tenants have arenas. While they exist, others have none, and each is counted. */
static void by_label(void)
{
    char value[16];
    size_t bytes = sizeof value;
    keep_open = true;
    for (unsigned i = 0; i < 4; i++)
        CHECK_EQ(arena_of_tenant(i), i + 1);
    CHECK_EQ(arena_of_tenant(2), 3);
    CHECK_EQ(ctl_u64("spans.stats.arenas_refused"), 0);
    CHECK_EQ(F(mallctl)("spans.arenas.3.value", value, &bytes, NULL, 0), 0);
    CHECK(bytes == 2 && strcmp(value, "2") == 0);
    for (unsigned i = 4; i < 100; i++)
        CHECK_EQ(arena_of_tenant(i), 0);
    CHECK_EQ(ctl_u64("spans.stats.arenas_refused"), 96);
    CHECK_EQ(ctl_u64("spans.stats.arenas"), 4);
}

/* The same if an arena without a label came first: it serves tenants without an arena. */
static void by_label_or_shared(void)
{
    keep_open = true;
    CHECK_EQ(arena_below(&tenant_site), 1);
    for (unsigned i = 0; i < 3; i++)
        CHECK_EQ(arena_of_tenant(i), i + 2);
    for (unsigned i = 3; i < 100; i++)
        CHECK_EQ(arena_of_tenant(i), 1);
    CHECK_EQ(ctl_u64("spans.stats.arenas_refused"), 0);
}

static void configured(void)
{
    static const struct jespan_site parse = {"parse:json", NULL, NULL, 0, {0, 0, 0, 0, 0, 0}},
                                    parser = {"parser", NULL, NULL, 0, {0, 0, 0, 0, 0, 0}},
                                    secret = {"secret", NULL, NULL, 0, {0, 0, 0, 0, 0, 0}},
                                    secrets = {"secrets", NULL, NULL, 0, {0, 0, 0, 0, 0, 0}};
    CHECK_EQ(arena_below(&parse), 1);
    CHECK_EQ(arena_below(&parser), 2);
    CHECK_EQ(arena_below(&secret), 3);
    CHECK_EQ(arena_below(&secrets), 0);
    CHECK_EQ(arena_below(&plain_site), 0);
    CHECK_EQ(arena_below(&cache_site), 4); /* the program's property comes first */
    CHECK_EQ(arena_figure(3, "limit_bytes"), 8 << 20);
}

/* arena:* is for all spans and threads, except jespan's own. */
static void everywhere(void)
{
    CHECK_EQ(arena_below(&none_site), 0);
    CHECK(arena_here() != 0 && arena_below(&plain_site) != arena_here());
    CHECK_EQ(ctl_span(JESPAN_ROOT, "arena"), 0);
    for (uint32_t i = 1, n = (uint32_t)ctl_u64("spans.arenas.count"); i <= n; i++) {
        char name[64];
        snprintf(name, sizeof name, "spans.arenas.%u.name", (unsigned)i);
        CHECK(ctl_text(name)[0] != '(');
    }
}

static void none_at_all(void)
{
    ARENA_BLOCK(&cache_site);
    CHECK_EQ(arena_here(), 0);
    void *p = F(malloc)(100);
    CHECK(p != NULL);
    F(free)(p);
    CHECK_EQ(ctl_u64("spans.arenas.count"), 0);
    CHECK(ctl_u64("spans.stats.arenas_refused") > 0);
}

/* Figures of pages add up, and agree with jemalloc's own. */
static void figures(void)
{
    char name[64];
    void *objects[OBJECTS];
    {
        ARENA_BLOCK(&cache_site);
        get_all(objects);
        for (unsigned i = 0; i < OBJECTS; i += 2)
            F(free)(objects[i]);
    }
    ctl_refresh();
    uint64_t cached = arena_figure(1, "cached_bytes"), index = arena_figure(1, "index");
    snprintf(name, sizeof name, "stats.arenas.%u.small.allocated", (unsigned)index);
    uint64_t allocated = ctl_u64(name);
    snprintf(name, sizeof name, "stats.arenas.%u.large.allocated", (unsigned)index);
    allocated += ctl_u64(name);
    CHECK(cached > 0);
    CHECK_EQ(allocated, arena_figure(1, "inuse_bytes") + cached);
    CHECK_EQ(arena_figure(1, "mapped_bytes"), arena_figure(1, "active_bytes") + arena_figure(1, "dirty_bytes") +
                                                  arena_figure(1, "muzzy_bytes") + arena_figure(1, "retained_bytes"));
    CHECK(arena_figure(1, "resident_bytes") >= arena_figure(1, "active_bytes") + arena_figure(1, "dirty_bytes"));
    CHECK(arena_figure(1, "fragmentation_ppm") > 0 && arena_figure(1, "fragmentation_ppm") < 1000000);
    CHECK(arena_figure(1, "extents") > 0);
    CHECK_EQ(F(mallctl)("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    ctl_refresh();
    CHECK_EQ(arena_figure(1, "cached_bytes"), 0);
    for (unsigned i = 1; i < OBJECTS; i += 2)
        F(free)(objects[i]);
}

static pthread_barrier_t barrier;
#define WAITING 20

/* Fewer small frees than a free buffer holds, of another thread's objects and of the thread's own. */
static void *free_and_stay(void *objects)
{
    void *own[WAITING / 2];
    ARENA_BLOCK(&cache_site);
    for (unsigned i = 0; i < WAITING / 2; i++)
        own[i] = opaque_pointer(F(malloc)(100));
    for (unsigned i = 0; i < WAITING / 2; i++) {
        F(free)(own[i]);
        F(free)(((void **)objects)[i]);
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

/* Freed objects are not in use, also while they wait in free buffers. */
static void waiting(void)
{
    void *objects[WAITING];
    pthread_t thread;
    uint32_t context;
    {
        ARENA_BLOCK(&cache_site);
        context = jespan_current();
        for (unsigned i = 0; i < WAITING; i++)
            CHECK((objects[i] = F(malloc)(100)) != NULL);
    }
    pthread_barrier_init(&barrier, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, free_and_stay, objects), 0);
    pthread_barrier_wait(&barrier);
    arena_check_inuse(1, WAITING / 2, WAITING / 2 * 112, "on another thread");
    CHECK_EQ(arena_figure(1, "alloc_objects"), WAITING * 3 / 2);
    CHECK_EQ(ctl_span(context, "inuse_objects"), WAITING / 2);
    CHECK(ctl_u64("spans.stats.pending_bytes") > 0);
    ctl_check_identity("on another thread");
    for (unsigned i = WAITING / 2; i < WAITING; i++)
        F(free)(objects[i]);
    arena_check_inuse(1, 0, 0, "on both");
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
    arena_check_inuse(1, 0, 0, "on this");
    ctl_check_identity("on this");
}

/* The program may use a span arena's index with jemalloc's own functions. */
static void by_index(void)
{
    void *p, *q;
    {
        ARENA_BLOCK(&cache_site);
        F(free)(opaque_pointer(F(malloc)(10)));
    }
    unsigned index = (unsigned)arena_figure(1, "index"), before = 0;
    size_t bytes = sizeof before;
    p = F(mallocx)(1000, (int)(index + 1) << 20);
    CHECK_EQ(arena_of_object(p), index);
    arena_check_inuse(1, 1, F(malloc_usable_size)(p), "mallocx");
    CHECK_EQ(F(mallctl)("thread.arena", &before, &bytes, &index, sizeof index), 0);
    q = F(malloc)(100000);
    CHECK_EQ(arena_of_object(q), index);
    CHECK_EQ(F(mallctl)("thread.arena", NULL, NULL, &before, sizeof before), 0);
    arena_check_inuse(1, 2, F(malloc_usable_size)(p) + F(malloc_usable_size)(q), "thread.arena");
    F(free)(p);
    F(free)(q);
    arena_check_inuse(1, 0, 0, "both freed");
    CHECK_EQ(F(mallctl)("arena.1.reset", NULL, NULL, NULL, 0), EPERM);
    ctl_check_identity("by index");
}

/* MIBs, sizes, and missing names. */
static void names(void)
{
    size_t mib[4], length = 4, bytes = 8;
    uint64_t value = 0;
    arena_below(&cache_site);
    arena_below(&alone_site);
    CHECK_EQ(F(mallctlnametomib)("spans.arenas.1.contexts", mib, &length), 0);
    CHECK_EQ(length, 4);
    mib[2] = 2;
    CHECK_EQ(F(mallctlbymib)(mib, 4, &value, &bytes, NULL, 0), 0);
    CHECK_EQ(value, 1);
    CHECK_EQ(F(mallctlbymib)(mib, 4, &value, &bytes, &value, bytes), EPERM);
    mib[2] = 3;
    CHECK_EQ(F(mallctlbymib)(mib, 4, &value, &bytes, NULL, 0), ENOENT);
    CHECK_EQ(F(mallctl)("spans.arenas.0.contexts", &value, &bytes, NULL, 0), ENOENT);
    CHECK_EQ(F(mallctl)("spans.arenas.65536.contexts", &value, &bytes, NULL, 0), ENOENT);
    CHECK_EQ(F(mallctl)("spans.arenas.65537.contexts", &value, &bytes, NULL, 0), ENOENT);
    CHECK_EQ(F(mallctl)("spans.arenas.1.index", &value, &bytes, NULL, 0), ENOENT); /* nothing was allocated yet */
    CHECK_EQ(arena_figure(1, "active_bytes"), 0);
    CHECK_EQ(F(mallctl)("spans.99999.arena", &value, &bytes, NULL, 0), ENOENT);
    bytes = 4;
    CHECK_EQ(F(mallctl)("spans.arenas.1.contexts", &value, &bytes, NULL, 0), EINVAL);
}

/* In a full tree, spans use the context of their ancestor, and its arena. */
static void overflow(void)
{
    ARENA_BLOCK(&cache_site);
    for (unsigned i = 0; i < 200; i++) {
        char number[16];
        snprintf(number, sizeof number, "%u", i);
        jespan_span_t *span = jespan_open(&tenant_site, JESPAN_CURRENT, (const struct jespan_label[]){{"n", number, 0, 0}}, 1);
        CHECK_EQ(jespan_enter(span), 0);
        uint64_t arena = arena_here();
        void *p = F(malloc)(100);
        CHECK_EQ(arena_of_object(p), arena_figure((uint32_t)arena, "index"));
        CHECK_EQ(jespan_exit(span), 0);
        if (i % 2)
            F(free)(p);
    }
    CHECK(ctl_u64("spans.stats.overflow") > 0);
    CHECK_EQ(arena_figure(1, "inuse_objects") + arena_figure(2, "inuse_objects"), 100);
}

/* Wrong properties are refused if there is an error code; otherwise there is no arena. */
static void properties_that_cannot_be(void)
{
    static const struct jespan_arena bad[] = {
        {.flags = JESPAN_ARENA | 1u << 30},
        {.flags = 1u << 3},
        {.flags = JESPAN_ARENA | JESPAN_ARENA_NONE},
        {.flags = JESPAN_ARENA | JESPAN_ARENA_HUGE | JESPAN_ARENA_NOHUGE},
        {.flags = JESPAN_ARENA_REGION | JESPAN_ARENA_REFUSE | JESPAN_ARENA_RELEASE},
        {.flags = JESPAN_ARENA | JESPAN_ARENA_RELEASE},
        {.flags = JESPAN_ARENA | JESPAN_ARENA_NUMA, .numa_node = -1},
        {.flags = JESPAN_ARENA_WIPED},
        {.flags = JESPAN_ARENA_NONE, .limit_bytes = 1},
        {.limit_bytes = 1},
        {.by_label = "who"},
    };
    for (size_t i = 0; i < MEMBERS(bad); i++) {
        const struct jespan_site site = {"bad", NULL, NULL, (uint32_t)i, bad[i]};
        errno = 0;
        CHECK(jespan_open(&site, JESPAN_ROOT, NULL, 0) == NULL);
        CHECK_EQ(errno, EINVAL);
        CHECK_EQ(ctl_u64("spans.stats.arenas_refused"), i);
        struct jespan_block block, region;
        jespan_enter_block(&block, &site, &site.name, 1);
        CHECK_EQ(ctl_u64("spans.stats.arenas_refused"), i + 1);
        uint32_t context = jespan_current();
        CHECK(context != JESPAN_ROOT);
        jespan_enter_region(&region, &site);
        CHECK(jespan_current() != context);
        F(free)(F(malloc)(1));
        CHECK_EQ(arena_here(), 0);
        jespan_exit_region(&region);
        jespan_exit_block(&block);
    }
    CHECK_EQ(ctl_u64("spans.arenas.count"), 0);
}

static bool is_made(void)
{
    uint64_t index;
    size_t bytes = sizeof index;
    return F(mallctl)("spans.arenas.1.index", &index, &bytes, NULL, 0) == 0;
}

/* Without memory for an arena, spans allocate as all others do. jespan tries again later. */
static void made_later(void)
{
    void *early, *late;
    F(free)(F(malloc)(100)); /* from memory that jemalloc has already */
    ARENA_BLOCK(&cache_site);
    uint32_t arena = arena_here();
    CHECK_EQ(no_memory_begin(), 0);
    early = F(malloc)(100);
    F(free)(F(malloc)(100));
    CHECK_EQ(no_memory_end(), 0);
    CHECK(early != NULL);
    CHECK_EQ(ctl_u64("spans.stats.arenas_refused"), 1);
    CHECK(!is_made());
    for (int i = 0; i < 60000 && !is_made(); i++) {
        usleep(10000);
        F(free)(F(malloc)(100));
    }
    late = F(malloc)(100);
    CHECK_EQ(arena_of_object(late), arena_figure(arena, "index"));
    CHECK(arena_of_object(early) != arena_of_object(late));
    arena_check_inuse(arena, 1, F(malloc_usable_size)(late), "made later");
    F(free)(early);
    F(free)(late);
    arena_check_inuse(arena, 0, 0, "made later, freed");
    CHECK_EQ(ctl_u64("spans.stats.arenas_refused"), 1);
    ctl_check_identity("made later");
}

static const struct test_case cases[] = {
    {"isolation", isolation, NULL, NULL},
    {"isolation_no_tcache", isolation, "tcache:false", NULL},
    {"isolation_no_retain", isolation, "retain:false", NULL},
    {"resizing", resizing, NULL, NULL},
    {"inheritance", inheritance, NULL, NULL},
    {"by_label", by_label, NULL, "max_arenas:4"},
    {"one_after_another", one_after_another, NULL, "max_arenas:4"},
    {"one_after_another, with ages", one_after_another, NULL, "max_arenas:4,age_period_s:1"},
    {"by_label_or_shared", by_label_or_shared, NULL, "max_arenas:4"},
    {"configured", configured, NULL, "arena:par*e*=by:who|secret=limit:8M+wiped|cache=off"},
    {"everywhere", everywhere, NULL, "arena:*"},
    {"none_at_all", none_at_all, NULL, "max_arenas:0"},
    {"figures", figures, NULL, NULL},
    {"waiting", waiting, NULL, NULL},
    {"by_index", by_index, NULL, NULL},
    {"names", names, NULL, NULL},
    {"overflow", overflow, NULL, "max_contexts:64", CASE_SAYS_OVERFLOW(64)},
    {"properties_that_cannot_be", properties_that_cannot_be, NULL, NULL},
    {"made_later", made_later, NULL, NULL},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
