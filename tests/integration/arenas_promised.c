/* SPDX-License-Identifier: BSD-2-Clause */
/* Promises of docs/arenas.md that no other test checks. The document's last section says which test checks which promise. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>

#include <jespan/jespan.h>

#include "../support/arenas.h"
#include "../support/cases.h"
#include "../support/entered.h"
#include "../support/spans.h"

enum { MIB = 1 << 20 };

JESPAN_SITE_ARENA(cache_site, "cache", JESPAN_ARENA);
JESPAN_SITE_ARENA(other_site, "other", JESPAN_ARENA);
JESPAN_SITE_ARENA(late_site, "late", JESPAN_ARENA);
JESPAN_SITE_ARENA(wiped_site, "wiped", JESPAN_ARENA | JESPAN_ARENA_WIPED);
JESPAN_SITE(limited_site, "limited", .arena = {.flags = JESPAN_ARENA, .limit_bytes = 8 * MIB});
JESPAN_SITE(wiped_limited_site, "both", .arena = {.flags = JESPAN_ARENA | JESPAN_ARENA_WIPED, .limit_bytes = 8 * MIB});
JESPAN_SITE(tenant_site, "tenant", .arena = {.flags = JESPAN_ARENA, .by_label = "who"});
JESPAN_SITE(plain_tenant_site, "tenant");

#define CACHE(index) (((int)(index) + 2) << 8) /* MALLOCX_TCACHE() */
#define CACHE_NONE CACHE(-1)
#define ARENA(index) ((int)(((unsigned)(index) + 1) << 20)) /* MALLOCX_ARENA(): above 2,046 the sign bit is set */

static void *allocate_in(const struct jespan_site *site, size_t bytes)
{
    ARENA_BLOCK(site);
    char *p = opaque_pointer(F(malloc)(bytes));
    if (p)
        memset(p, 0x5a, bytes);
    return p;
}

static uint32_t arena_of_site(const struct jespan_site *site)
{
    ARENA_BLOCK(site);
    return arena_here();
}

/* `who` may be NULL: the span has no label then. */
static uint32_t arena_of_tenant(const struct jespan_site *site, const char *who)
{
    const struct jespan_label label = {"who", who, 0, JESPAN_TYPE_STRING};
    jespan_span_t *span = jespan_open(site, JESPAN_ROOT, &label, who != NULL);
    uint32_t arena = (uint32_t)ctl_span(spans_context(span), "arena");
    CHECK_EQ(jespan_close(span), 0);
    return arena;
}

/* If no arena is found, the next search is 10 ms later at the earliest. A context that got none keeps none. */
static uint32_t arena_in_time(const struct jespan_site *site)
{
    static long number;
    uint32_t arena = 0;
    for (int i = 0; !arena && i < 1000; i++) {
        const struct jespan_label label = JESPAN_LABEL_INT("n", number++);
        jespan_span_t *span = jespan_open(site, JESPAN_ROOT, &label, 1);
        arena = (uint32_t)ctl_span(spans_context(span), "arena");
        CHECK_EQ(jespan_close(span), 0);
        usleep(arena ? 0 : 1000);
    }
    return arena;
}

static uint32_t arena_of_tenant_in_time(const struct jespan_site *site, const char *who)
{
    uint32_t arena = 0;
    for (int i = 0; !(arena = arena_of_tenant(site, who)) && i < 1000; i++)
        usleep(1000);
    return arena;
}

static const char *arena_name(uint32_t arena)
{
    char name[64];
    snprintf(name, sizeof name, "spans.arenas.%u.name", (unsigned)arena);
    return ctl_text(name);
}

/* A thread's cache keeps objects that it freed; jespan keeps some before that. */
static void flush(void)
{
    CHECK_EQ(F(mallctl)("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
    ctl_refresh();
}

static unsigned create_cache(void)
{
    unsigned cache = 0;
    size_t bytes = sizeof cache;
    CHECK_EQ(F(mallctl)("tcache.create", &cache, &bytes, NULL, 0), 0);
    return cache;
}

/* ---- Whose objects lie where ---- */

static void *resize_outside(void *p)
{
    return F(realloc)(p, 50000);
}

static void *resize_in_other(void *p)
{
    ARENA_BLOCK(&other_site);
    return F(realloc)(p, 50000);
}

static void any_thread_may_resize(void)
{
    char *p = spans_on_thread(resize_outside, allocate_in(&cache_site, 100));
    char *q = spans_on_thread(resize_in_other, allocate_in(&cache_site, 100));
    uint64_t cache = arena_figure(arena_of_site(&cache_site), "index"), other = arena_figure(arena_of_site(&other_site), "index");
    CHECK(arena_of_object(p) != cache && arena_of_object(p) != other);
    CHECK_EQ(arena_of_object(q), other);
    CHECK(p[99] == 0x5a && q[99] == 0x5a);
    arena_check_inuse(arena_of_site(&cache_site), 0, 0, "moved");
    F(free)(p);
    F(free)(q);
}

/* inuse_bytes counts the objects in the arena, whichever context holds them. */
static void handed_over_it_stays(void)
{
    jespan_span_t *span = enter_new(&cache_site);
    jespan_context_t id = jespan_current();
    uint32_t arena = arena_here();
    char *p = F(malloc)(1000);
    CHECK_EQ(jespan_credit(p, JESPAN_BASE), 0);
    arena_check_inuse(arena, 1, 1024, "handed over");
    CHECK_EQ(ctl_span(id, "inuse_objects"), 0);
    F(free)(p);
    arena_check_inuse(arena, 0, 0, "freed");
    leave(span);
}

/* "by:who" applies to spans whose sites have no property. */
static void configured_by_label(void)
{
    CHECK_EQ(arena_of_tenant(&plain_tenant_site, "a"), 1);
    CHECK_EQ(arena_of_tenant(&plain_tenant_site, "b"), 2);
    CHECK_EQ(arena_of_tenant(&plain_tenant_site, NULL), 3);
    CHECK_EQ(arena_of_tenant(&plain_tenant_site, "a"), 1);
}

/* arena:par*=alone|parse=off|gone*=off|*=wiped: the first rule that fits applies. */
static void the_first_rule_counts(void)
{
    static const struct jespan_site parse = {.name = "parse"}, gone = {.name = "gone too"}, any = {.name = ""};
    CHECK(arena_of_site(&parse) != 0);
    CHECK_EQ(arena_of_site(&gone), 0);
    CHECK(arena_of_site(&any) != 0);
    JESPAN("parse");
    CHECK(arena_here() != 0);
    CHECK_EQ(arena_of_site(&gone), 0);
}

/* arena:bounded=limit:8M+wiped */
static void a_configured_limit_refuses(void)
{
    static const struct jespan_site bounded = {.name = "bounded"};
    ARENA_BLOCK(&bounded);
    uint64_t bytes = 0;
    errno = 0;
    for (void *p; (p = F(malloc)(100000)); bytes += F(malloc_usable_size)(p))
        CHECK(bytes < 100 * MIB);
    CHECK_EQ(errno, ENOMEM);
    CHECK(bytes > 4 * MIB && bytes <= 8 * MIB);
    CHECK(arena_figure(arena_here(), "refusals") > 0);
}

static void there_are_64(void)
{
    static char names[65][8];
    static struct jespan_site sites[65];
    for (unsigned i = 0; i < 65; i++) {
        snprintf(names[i], sizeof names[i], "n%u", i);
        sites[i] = (struct jespan_site){.name = names[i], .arena = {.flags = JESPAN_ARENA}};
        jespan_span_t *span = jespan_open(&sites[i], JESPAN_ROOT, NULL, 0);
        CHECK_EQ(ctl_span(spans_context(span), "arena"), i < 64 ? i + 1 : 0);
    }
    CHECK_EQ(ctl_u64("spans.stats.arenas_refused"), 1);
}

/* ---- Who comes next ---- */

/* max_arenas:1, and addresses are given back too. An arena serves the next site with the same properties, and no other. */
static void it_serves_the_next_site(void)
{
    char purge[64];
    char *kept = allocate_in(&cache_site, 64 * MIB);
    CHECK_EQ(arena_of_site(&late_site), 0);
    CHECK_EQ(ctl_u64("spans.stats.arenas_refused"), 1);
    CHECK(arena_figure(1, "peak_mapped_bytes") >= 64 * MIB);
    F(free)(kept);
    snprintf(purge, sizeof purge, "arena.%u.purge", (unsigned)arena_figure(1, "index"));
    CHECK_EQ(F(mallctl)(purge, NULL, NULL, NULL, 0), 0);
    CHECK_EQ(arena_of_site(&wiped_site), 0);
    CHECK_EQ(ctl_u64("spans.stats.arenas_refused"), 2);
    CHECK_EQ(arena_in_time(&other_site), 1);
    kept = allocate_in(&other_site, 1000);
    CHECK(!strcmp(arena_name(1), "other"));
    CHECK_EQ(arena_figure(1, "alloc_objects"), 1);
    CHECK_EQ(arena_figure(1, "free_objects"), 0);
    CHECK(arena_figure(1, "peak_mapped_bytes") < 32 * MIB);
    CHECK_EQ(arena_of_site(&cache_site), 0); /* it has a live object */
    F(free)(kept);
    CHECK_EQ(arena_in_time(&cache_site), 1);
    kept = allocate_in(&cache_site, 1000);
    CHECK(!strcmp(arena_name(1), "cache"));
    F(free)(kept);
}

/* An arena without objects is not reused while a span is open. */
static void an_open_span_keeps_it(void)
{
    jespan_span_t *span = open_span(&cache_site);
    CHECK_EQ(ctl_span(spans_context(span), "arena"), 1);
    CHECK_EQ(arena_of_site(&late_site), 0);
    CHECK_EQ(jespan_close(span), 0);
    CHECK_EQ(arena_in_time(&other_site), 1);
}

/* max_arenas:1. A tenant whose arena serves another has none while it has an open span, whoever opens one more meanwhile. */
static void an_open_span_stays_without(void)
{
    CHECK_EQ(arena_of_tenant(&tenant_site, "a"), 1);
    CHECK_EQ(arena_of_tenant(&tenant_site, "b"), 1);
    const struct jespan_label a = JESPAN_LABEL("who", "a"), b = JESPAN_LABEL("who", "b");
    jespan_span_t *other = jespan_open(&tenant_site, JESPAN_ROOT, &b, 1);
    jespan_span_t *span = jespan_open(&tenant_site, JESPAN_ROOT, &a, 1);
    CHECK_EQ(jespan_close(other), 0);
    char late[16] = "";
    for (unsigned i = 0; !late[0] || !arena_of_tenant(&tenant_site, late); i++) /* as in arena_in_time() */
        snprintf(late, sizeof late, "late %u", i);
    CHECK_EQ(arena_of_tenant(&tenant_site, "a"), 0);
    CHECK_EQ(jespan_enter(span), 0);
    CHECK_EQ(arena_of_tenant(&tenant_site, "a"), 0);
    void *p = F(malloc)(opaque(1000));
    CHECK_EQ(arena_here(), 0);
    CHECK_EQ(arena_figure(1, "alloc_objects"), 0);
    F(free)(p);
    leave(span);
    CHECK_EQ(arena_of_tenant_in_time(&tenant_site, "a"), 1);
}

/* max_arenas:2. The refusals of the first owner are not counted for the next. */
static void refusals_begin_anew(void)
{
    static const struct jespan_site site = {"bounded", NULL, NULL, 0, {JESPAN_ARENA, 0, 0, 0, 8 * MIB, "who"}};
    const char *const who[] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++) {
        const struct jespan_label label = JESPAN_LABEL("who", who[i]);
        jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, &label, 1);
        CHECK_EQ(jespan_enter(span), 0);
        uint32_t arena = arena_here();
        CHECK_EQ(arena_figure(arena, "refusals"), 0);
        CHECK(!F(malloc)(opaque(9 * MIB)));
        CHECK_EQ(arena_figure(arena, "refusals"), 1);
        leave(span);
    }
}

/* max_arenas:2. The arena for spans without the label is not given to a tenant. */
static void the_shared_one_stays_theirs(void)
{
    char who[16];
    CHECK_EQ(arena_of_tenant(&tenant_site, NULL), 1);
    for (unsigned i = 0; i < 50; i++) {
        snprintf(who, sizeof who, "%u", i);
        CHECK_EQ(arena_of_tenant(&tenant_site, who), 2);
    }
    CHECK_EQ(arena_of_tenant(&tenant_site, NULL), 1);
    CHECK_EQ(ctl_u64("spans.stats.arenas_refused"), 0);
}

/* ---- limit_bytes ---- */

enum { SMALL = 2000 };
static pthread_barrier_t barrier;

static void *keep_a_cache(void *unused)
{
    static void *objects[SMALL];
    ARENA_BLOCK(&limited_site);
    for (int i = 0; i < SMALL; i++)
        objects[i] = F(malloc)(500);
    for (int i = 0; i < SMALL; i++)
        F(free)(objects[i]);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return unused;
}

static void fill_own_cache(void)
{
    void *objects[200];
    for (int i = 0; i < 200; i++)
        objects[i] = F(malloc)(3000);
    for (int i = 0; i < 200; i++)
        F(free)(objects[i]);
}

/* A refusal empties the calling thread's cache, and no other's. */
static void a_refusal_empties_one_cache(void)
{
    pthread_t thread;
    pthread_barrier_init(&barrier, NULL, 2);
    CHECK_EQ(pthread_create(&thread, NULL, keep_a_cache, NULL), 0);
    pthread_barrier_wait(&barrier);
    ctl_refresh();
    uint64_t of_other = arena_figure(1, "cached_bytes");
    CHECK(of_other > 0);
    ARENA_BLOCK(&limited_site);
    fill_own_cache();
    ctl_refresh();
    CHECK(arena_figure(1, "cached_bytes") > of_other);
    CHECK(F(malloc)(opaque(9 * MIB)) == NULL);
    ctl_refresh();
    CHECK_EQ(arena_figure(1, "cached_bytes"), of_other);
    CHECK_EQ(arena_figure(1, "dirty_bytes") + arena_figure(1, "muzzy_bytes"), 0); /* all free pages were given back */
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
}

/* jemalloc must not map and keep a new range for each request that is refused. */
static void refusals_take_no_memory(void)
{
    static void *objects[2 * 8 * MIB / 2000];
    size_t n = 0;
    uint64_t mapped = 0;
    {
        ARENA_BLOCK(&limited_site);
        while (n < MEMBERS(objects) && (objects[n] = F(malloc)(2000)))
            n++;
        CHECK(n < MEMBERS(objects));
        for (int i = 0; i < 1000; i++) {
            if (i == 10)
                mapped = ctl_u64("spans.stats.map_bytes");
            for (size_t bytes = 2000; bytes < 3 * MIB; bytes *= 10)
                CHECK(F(malloc)(bytes) == NULL);
        }
        CHECK(ctl_u64("spans.stats.map_bytes") < mapped + 16 * MIB); /* it grew by 111 MB: page map for addresses */
        while (n)
            F(free)(objects[--n]);
        CHECK_EQ(F(mallctl)("thread.tcache.flush", NULL, NULL, NULL, 0), 0);
        void *large = F(malloc)(opaque(6 * MIB));
        CHECK(large != NULL); /* and what was refused before fits when there is room */
        F(free)(large);
    }
}

/* ---- mallocx ---- */

static void the_caller_chooses_an_arena(void)
{
    unsigned own = 0;
    size_t bytes = sizeof own;
    CHECK_EQ(F(mallctl)("arenas.create", &own, &bytes, NULL, 0), 0);
    ARENA_BLOCK(&limited_site);
    void *p = F(mallocx)(100, ARENA(own) | CACHE_NONE), *big = F(mallocx)(9 * MIB, ARENA(own)),
         *q = F(mallocx)(100, ARENA(0) | CACHE_NONE);
    CHECK(arena_of_object(p) == own && arena_of_object(big) == own && arena_of_object(q) == 0);
    p = F(rallocx)(p, 9000, ARENA(own) | CACHE_NONE);
    CHECK_EQ(arena_of_object(p), own);
    arena_check_inuse(1, 0, 0, "chosen");
    F(free)(p);
    F(free)(q);
    F(free)(big);
    ctl_check_identity("chosen");
}

/* With a cache of the program's own, objects are in the arena too, and its properties apply. */
static void a_cache_of_ones_own_is_ignored(void)
{
    unsigned cache = create_cache();
    void *own[50], *outside[50];
    jespan_span_t *span = enter_new(&wiped_limited_site);
    uint64_t index = 0;
    for (int i = 0; i < 50; i++) {
        own[i] = memset(F(mallocx)(100, CACHE(cache)), 0x5a, 100);
        index = arena_figure(1, "index");
        CHECK_EQ(arena_of_object(own[i]), index);
    }
    arena_check_inuse(1, 50, 50 * 112, "with a cache");
    CHECK_EQ(arena_of_object(own[0] = F(rallocx)(own[0], 1000, CACHE(cache))), index);
    CHECK(F(mallocx)(opaque(9 * MIB), CACHE(cache)) == NULL);
    CHECK_EQ(jespan_exit(span), 0);
    for (int i = 0; i < 50; i++)
        F(dallocx)(own[i], CACHE(cache));
    arena_check_inuse(1, 0, 0, "freed into a cache");
    for (int i = 0; i < 50; i++) {
        outside[i] = F(mallocx)(100, CACHE(cache));
        CHECK(arena_of_object(outside[i]) != index);
    }
    CHECK_EQ(jespan_enter(span), 0);
    char *again = opaque_pointer(F(mallocx)(100, CACHE(cache)));
    for (int i = 0; i < 100; i++)
        CHECK_EQ(again[i], 0); /* the bytes were wiped */
    F(free)(again);
    leave(span);
    for (int i = 0; i < 50; i++)
        F(dallocx)(outside[i], CACHE(cache));
}

static void no_cache_is_followed(void)
{
    ARENA_BLOCK(&cache_site);
    void *objects[50];
    for (int i = 0; i < 50; i++)
        objects[i] = F(mallocx)(100, CACHE_NONE);
    for (int i = 0; i < 50; i++)
        F(dallocx)(objects[i], CACHE_NONE);
    ctl_refresh();
    CHECK_EQ(arena_figure(1, "cached_bytes"), 0);
    arena_check_inuse(1, 0, 0, "without a cache");
}

/* ---- Figures ---- */

static void figures_are_as_defined(void)
{
    char *p = allocate_in(&cache_site, 100), *big = allocate_in(&cache_site, 3 * MIB);
    ctl_refresh();
    CHECK(arena_figure(1, "mapped_bytes") >= 2 * MIB);
    CHECK_EQ(arena_figure(1, "committed_bytes"), arena_figure(1, "mapped_bytes") - arena_figure(1, "retained_bytes"));
    uint64_t active = arena_figure(1, "active_bytes");
    CHECK_EQ(arena_figure(1, "fragmentation_ppm"), (active - arena_figure(1, "inuse_bytes")) * 1000000 / active);
    F(free)(big); /* jemalloc's figures are those of the last epoch, jespan's are current */
    CHECK_EQ(arena_figure(1, "active_bytes"), active);
    CHECK_EQ(arena_figure(1, "inuse_objects"), 1);
    ctl_refresh();
    CHECK(arena_figure(1, "active_bytes") <= active - 3 * MIB);
    F(free)(p);
    flush();
    CHECK_EQ(arena_figure(1, "active_bytes"), 0);
}

static void a_value_is_cut(void)
{
    char value[8] = "xxxxxxx";
    size_t bytes = 4;
    const struct jespan_label label = JESPAN_LABEL("who", "abcdefgh");
    jespan_span_t *span = jespan_open(&tenant_site, JESPAN_ROOT, &label, 1);
    CHECK_EQ(F(mallctl)("spans.arenas.1.value", value, &bytes, NULL, 0), 0);
    CHECK(bytes <= 4 && !memcmp(value, "abc", 3) && !strcmp(value + 4, "xxx"));
    CHECK_EQ(jespan_close(span), 0);
}

/* ---- While pages are given back ---- */

static atomic_bool over;

/* The contents of live objects stay, and freed bytes are wiped. */
static void *churn(void *number)
{
    static const struct jespan_site *const sites[] = {&cache_site, &wiped_site, &limited_site};
    enum { LIVE = 60 };
    unsigned char *live[LIVE] = {0};
    uint64_t state = (uintptr_t)number + 1;
    for (int i = 0; i < 30000; i++) {
        ARENA_BLOCK(sites[i % 3]);
        state = state * 6364136223846793005u + 1442695040888963407u;
        uint64_t r = state >> 33, at = r % LIVE, bytes = 1 + (r >> 8) % (i % 16 ? 3000 : 60000);
        if (live[at] && (live[at][0] != (unsigned char)at || live[at][F(malloc_usable_size)(live[at]) - 1] != (unsigned char)at))
            check_fail("object %u is not as it was left", (unsigned)at);
        F(free)(live[at]);
        live[at] = F(malloc)(bytes);
        CHECK(live[at] != NULL);
        if (live[at]) {
            live[at][0] = (unsigned char)at;
            live[at][F(malloc_usable_size)(live[at]) - 1] = (unsigned char)at;
        }
    }
    for (int i = 0; i < LIVE; i++)
        F(free)(live[i]);
    return NULL;
}

static void *purge(void *unused)
{
    for (unsigned i = 0; !over; i++) {
        CHECK_EQ(F(mallctl)(i % 2 ? "arena." ARENAS_ALL ".purge" : "arena." ARENAS_ALL ".decay", NULL, NULL, NULL, 0), 0);
        ctl_refresh();
    }
    return unused;
}

static void pages_are_given_back_meanwhile(void)
{
    pthread_t threads[3], purger;
    uint64_t index[4];
    for (uint32_t i = 1; i <= 3; i++)
        F(free)(allocate_in(i == 1 ? &cache_site : i == 2 ? &wiped_site : &limited_site, 10));
    for (uint32_t i = 1; i <= 3; i++)
        index[i] = arena_figure(i, "index");
    CHECK_EQ(pthread_create(&purger, NULL, purge, NULL), 0);
    for (uintptr_t i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, churn, (void *)i), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    over = true;
    pthread_join(purger, NULL);
    for (uint32_t i = 1; i <= 3; i++) {
        arena_check_inuse(i, 0, 0, "after purges");
        CHECK_EQ(arena_figure(i, "index"), index[i]);
        CHECK_EQ(arena_figure(i, "refusals"), 0);
    }
    ctl_check_identity("after purges");
}

/* decay:0/0, in the configuration or of the site, gives free pages back at once. −1 never does. */
static void decays_as_set(void)
{
    static const struct jespan_site never = {"never", NULL, NULL, 0, {JESPAN_ARENA | JESPAN_ARENA_DECAY, 0, -1, -1, 0, NULL}},
                                    at_once = {"at once", NULL, NULL, 0, {JESPAN_ARENA | JESPAN_ARENA_DECAY, 0, 0, 0, 0, NULL}},
                                    configured = {.name = "configured"};
    const struct jespan_site *const sites[] = {&never, &at_once, &configured};
    char name[64];
    for (uint32_t i = 0; i < 3; i++) {
        F(free)(allocate_in(sites[i], 3 * MIB));
        unsigned index = (unsigned)arena_figure(i + 1, "index");
        snprintf(name, sizeof name, "arena.%u.decay", index);
        CHECK_EQ(F(mallctl)(name, NULL, NULL, NULL, 0), 0);
        ctl_refresh();
        CHECK_EQ(arena_figure(i + 1, "dirty_bytes") + arena_figure(i + 1, "muzzy_bytes") >= 3 * MIB, i == 0);
        snprintf(name, sizeof name, "arena.%u.muzzy_decay_ms", index);
        CHECK_EQ(ctl_u64(name), i ? 0 : (uint64_t)-1);
    }
    snprintf(name, sizeof name, "arena.%u.dirty_decay_ms", (unsigned)arena_figure(3, "index"));
    CHECK_EQ(ctl_u64(name), 0);
}

/* ---- Arenas of the program's own ---- */

static unsigned create_by_mib(void)
{
    size_t mib[2], length = 2, bytes = sizeof(unsigned);
    unsigned index = 0;
    CHECK_EQ(F(mallctlnametomib)("arenas.create", mib, &length), 0);
    CHECK_EQ(F(mallctlbymib)(mib, length, &index, &bytes, NULL, 0), 0);
    return index;
}

static void check_own(unsigned index)
{
    void *p = F(mallocx)(100, ARENA(index) | CACHE_NONE); /* the thread's cache has objects of any arena */
    CHECK_EQ(arena_of_object(p), index);
    for (uint32_t i = 1; i <= ctl_u64("spans.arenas.count"); i++)
        CHECK(arena_figure(i, "index") != index);
    F(dallocx)(p, CACHE_NONE);
}

/* Arenas that the program creates before and between do not change the numbers of span arenas. */
static void others_arenas_disturb_none(void)
{
    static char names[30][8];
    static struct jespan_site sites[30];
    void *held[30];
    for (uint32_t i = 0; i < 30; i++) {
        check_own(create_by_mib());
        snprintf(names[i], sizeof names[i], "n%u", (unsigned)i);
        sites[i] = (struct jespan_site){.name = names[i], .arena = {.flags = JESPAN_ARENA}};
        held[i] = allocate_in(&sites[i], 100 + i);
        CHECK_EQ(ctl_u64("spans.arenas.count"), i + 1);
    }
    for (uint32_t i = 0; i < 30; i++) {
        CHECK(!strcmp(arena_name(i + 1), names[i]));
        CHECK_EQ(arena_of_object(held[i]), arena_figure(i + 1, "index"));
        arena_check_inuse(i + 1, 1, F(malloc_usable_size)(held[i]), "beside others");
        F(free)(held[i]);
        arena_check_inuse(i + 1, 0, 0, "freed beside others");
    }
    ctl_check_identity("beside others");
}

static void others_arenas_disturb_none_above_2046(void)
{
    for (int i = 0; i < 2100; i++)
        create_by_mib();
    uint64_t mapped = ctl_u64("spans.stats.mapped_bytes");
    void *p = F(mallocx)(16 * MIB, ARENA(create_by_mib()) | CACHE_NONE);
    CHECK(ctl_u64("spans.stats.mapped_bytes") >= mapped + 16 * MIB);
    F(dallocx)(p, CACHE_NONE);
    others_arenas_disturb_none();
}

/* An allocation from such an arena counts as mapped, and not for a span arena. */
static void others_arenas_are_counted(void)
{
    unsigned index = create_by_mib(), before = 0;
    size_t bytes = sizeof before;
    void *held = allocate_in(&cache_site, 100);
    uint64_t mapped = ctl_u64("spans.stats.mapped_bytes"), of_arena = arena_figure(1, "mapped_bytes");
    CHECK_EQ(F(mallctl)("thread.arena", &before, &bytes, &index, sizeof index), 0);
    void *p = F(malloc)(16 * MIB);
    CHECK_EQ(F(mallctl)("thread.arena", NULL, NULL, &before, sizeof before), 0);
    CHECK_EQ(arena_of_object(p), index);
    CHECK(ctl_u64("spans.stats.mapped_bytes") >= mapped + 16 * MIB);
    CHECK_EQ(arena_figure(1, "mapped_bytes"), of_arena);
    arena_check_inuse(1, 1, 112, "beside another");
    F(free)(p);
    F(free)(held);
}

static void *create_meanwhile(void *indices)
{
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 100; i++)
        ((unsigned *)indices)[i] = create_by_mib();
    return NULL;
}

static void others_arenas_disturb_none_meanwhile(void)
{
    static char names[60][8];
    static struct jespan_site sites[60];
    static unsigned indices[2][100];
    pthread_t threads[2];
    void *held[60];
    pthread_barrier_init(&barrier, NULL, 3);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, create_meanwhile, indices[i]), 0);
    pthread_barrier_wait(&barrier);
    for (uint32_t i = 0; i < 60; i++) {
        snprintf(names[i], sizeof names[i], "n%u", (unsigned)i);
        sites[i] = (struct jespan_site){.name = names[i], .arena = {.flags = JESPAN_ARENA}};
        held[i] = allocate_in(&sites[i], 100);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < 60; i++) {
        CHECK(!strcmp(arena_name(i + 1), names[i]));
        CHECK_EQ(arena_of_object(held[i]), arena_figure(i + 1, "index"));
    }
    for (int i = 0; i < 200; i++)
        check_own(indices[i / 100][i % 100]);
    ctl_check_identity("beside others");
}

static const struct test_case cases[] = {
    {"any_thread_may_resize", any_thread_may_resize, NULL, NULL},
    {"handed_over_it_stays", handed_over_it_stays, NULL, NULL},
    {"configured_by_label", configured_by_label, NULL, "arena:tenant=by:who"},
    {"the_first_rule_counts", the_first_rule_counts, NULL, "arena:par*=alone|parse=off|gone*=off|*=wiped"},
    {"refusals_take_no_memory", refusals_take_no_memory, NULL, NULL},
    {"a_configured_limit_refuses", a_configured_limit_refuses, NULL, "arena:bounded=limit:8M+wiped"},
    {"there_are_64", there_are_64, NULL, NULL},
    {"it_serves_the_next_site", it_serves_the_next_site, "retain:false", "max_arenas:1"},
    {"an_open_span_keeps_it", an_open_span_keeps_it, NULL, "max_arenas:1"},
    {"an_open_span_stays_without", an_open_span_stays_without, NULL, "max_arenas:1"},
    {"refusals_begin_anew", refusals_begin_anew, NULL, "max_arenas:2"},
    {"the_shared_one_stays_theirs", the_shared_one_stays_theirs, NULL, "max_arenas:2"},
    {"a_refusal_empties_one_cache", a_refusal_empties_one_cache, NULL, NULL},
    {"the_caller_chooses_an_arena", the_caller_chooses_an_arena, NULL, NULL},
    {"a_cache_of_ones_own_is_ignored", a_cache_of_ones_own_is_ignored, NULL, NULL},
    {"no_cache_is_followed", no_cache_is_followed, NULL, NULL},
    {"figures_are_as_defined", figures_are_as_defined, NULL, NULL},
    {"a_value_is_cut", a_value_is_cut, NULL, NULL},
    {"pages_are_given_back_meanwhile, decay 0", pages_are_given_back_meanwhile, "dirty_decay_ms:0,muzzy_decay_ms:0", NULL},
    {"pages_are_given_back_meanwhile, decay 10", pages_are_given_back_meanwhile, "dirty_decay_ms:10,muzzy_decay_ms:10", NULL},
    {"pages_are_given_back_meanwhile, by a thread", pages_are_given_back_meanwhile,
     "background_thread:true,dirty_decay_ms:1,muzzy_decay_ms:1", NULL},
    {"pages_are_given_back_meanwhile, and addresses", pages_are_given_back_meanwhile, "retain:false,dirty_decay_ms:0", NULL},
    {"decays_as_set", decays_as_set, NULL, "arena:configured=decay:0/0"},
    {"others_arenas_disturb_none", others_arenas_disturb_none, NULL, NULL},
    {"others_arenas_disturb_none_above_2046", others_arenas_disturb_none_above_2046, NULL, NULL},
    {"others_arenas_are_counted", others_arenas_are_counted, NULL, NULL},
    {"others_arenas_disturb_none_meanwhile", others_arenas_disturb_none_meanwhile, NULL, NULL},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
