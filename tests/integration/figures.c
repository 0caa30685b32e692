/* SPDX-License-Identifier: BSD-2-Clause */
/* Figures when the context, the size or the buffer changes in the middle of a call. Each case was once wrong. */
#define _GNU_SOURCE
#include <pthread.h>

#include <jespan/jespan.h>

#include "../support/cases.h"
#include "../support/ctl.h"

#define FLAG_TCACHE_NONE 0x100
#define FLAG_ARENA(a) ((int)(((a) + 1) << 20))

/* ---- A thread's name ---- */

#define RENAME_OBJECTS 500 /* more than enough: a new page is a slow event, and the name is looked at in the first 64 */

/* Renames the calling thread and allocates until that is noticed; frees. */
static void rename_and_allocate(const char *name)
{
    void *p[RENAME_OBJECTS];
    size_t n = 0;
    jespan_context_t old = jespan_current();
    CHECK_EQ(pthread_setname_np(pthread_self(), name), 0);
    while (n < RENAME_OBJECTS && jespan_current() == old)
        p[n++] = malloc(3000);
    while (n > 0)
        free(p[--n]);
}

static void *rename_once(void *unused)
{
    jespan_context_t old = jespan_current();
    uint64_t objects = ctl_span(old, "inuse_objects"), bytes = ctl_span(old, "inuse_bytes");
    rename_and_allocate("renamed");
    CHECK(strcmp(ctl_span_text(jespan_current(), "name"), "thread:renamed") == 0);
    CHECK_EQ(ctl_span(jespan_current(), "inuse_objects"), 0);
    CHECK_EQ(ctl_span(jespan_current(), "inuse_bytes"), 0);
    CHECK_EQ(ctl_span(old, "inuse_objects"), objects);
    CHECK_EQ(ctl_span(old, "inuse_bytes"), bytes);
    return unused;
}

/* A job that is attached when the thread is renamed; what was before it has another name then. */
static void *rename_in_a_job(void *creators)
{
    JESPAN_SITE(site, "job");
    jespan_span_t *job = jespan_open(&site, JESPAN_ROOT, NULL, 0);
    CHECK_EQ(jespan_enter(job), 0);
    jespan_context_t context = jespan_current();
    CHECK_EQ(jespan_exit(job), 0);
    jespan_context_t previous = jespan_attach(context);
    void *p[RENAME_OBJECTS];
    CHECK_EQ(pthread_setname_np(pthread_self(), "late name"), 0);
    for (size_t n = 0; n < RENAME_OBJECTS; n++)
        p[n] = malloc(3000);
    CHECK_EQ(jespan_current(), context);
    for (size_t n = 0; n < RENAME_OBJECTS; n++)
        free(p[n]);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(jespan_attach(previous), context);
        CHECK(strcmp(ctl_span_text(jespan_current(), "name"), "thread:late name") == 0);
        previous = jespan_attach(context);
    }
    CHECK_EQ(jespan_attach(JESPAN_BASE), context);
    jespan_close(job);
    /* The name that it had is others' too: of those that were not renamed. */
    jespan_context_t of_others = *(jespan_context_t *)creators, own = jespan_current();
    CHECK(of_others != own);
    CHECK_EQ(jespan_attach(of_others), own);
    CHECK_EQ(jespan_current(), of_others);
    CHECK_EQ(jespan_attach(own), of_others);
    CHECK_EQ(jespan_current(), own);
    return creators;
}

/* A dump makes another context current for a while. What comes after it is the context of the name that was noticed
 * meanwhile, and renames are noticed as before. */
static void *rename_in_dump(void *unused)
{
    char path[] = "/tmp/jespan-test.XXXXXX";
    const char *argument = path;
    jespan_context_t before = jespan_current();
    close(mkstemp(path));
    CHECK_EQ(pthread_setname_np(pthread_self(), "in dump"), 0);
    CHECK_EQ(jespan_current(), before);
    CHECK_EQ(mallctl("spans.dump", NULL, NULL, &argument, sizeof argument), 0);
    unlink(path);
    CHECK(strcmp(ctl_span_text(jespan_current(), "name"), "thread:in dump") == 0);
    return rename_once(unused);
}

static void in_new_thread(void *(*function)(void *))
{
    pthread_t thread;
    jespan_context_t context = jespan_current();
    CHECK_EQ(pthread_create(&thread, NULL, function, &context), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void renamed_thread(void)
{
    in_new_thread(rename_once);
    in_new_thread(rename_in_a_job);
}

static void renamed_in_dump(void)
{
    if (case_has_exporter())
        in_new_thread(rename_in_dump);
}

/* ---- Sizes ---- */

/* As much as the extent allows, which is less than asked for. jemalloc 5.3.0 may then return the old size. */
static void grown_by_part_of_extra(void)
{
    for (int i = 0; i < 50; i++) {
        void *p = mallocx(20000, FLAG_TCACHE_NONE);
        CHECK_EQ(xallocx(p, 40000, (size_t)1 << 45, 0), sallocx(p, 0));
        ctl_check_identity("after xallocx");
    }
}

/* ---- Frees within a free ---- */

/* The head of jemalloc's extent_hooks_t: all that this looks at. */
struct extent_hooks {
    void *alloc;
    bool (*dalloc)(struct extent_hooks *, void *, size_t, bool, unsigned);
    void *others[7];
};

static struct extent_hooks *default_hooks;
static void *victim;
static int freed_by_hook;

static bool freeing_dalloc(struct extent_hooks *hooks, void *p, size_t bytes, bool committed, unsigned arena)
{
    (void)hooks;
    if (victim) {
        void *p_victim = victim;
        victim = NULL;
        free(p_victim);
        freed_by_hook++;
    }
    return default_hooks->dalloc(default_hooks, p, bytes, committed, arena);
}

static void arena_option(unsigned arena, const char *option, void *old, void *new_value)
{
    char name[64];
    size_t bytes = sizeof(void *);
    snprintf(name, sizeof name, "arena.%u.%s", arena, option);
    CHECK_EQ(mallctl(name, old, old ? &bytes : NULL, new_value, new_value ? sizeof(void *) : 0), 0);
}

static unsigned arena_with_hooks(struct extent_hooks *hooks)
{
    unsigned arena = 0;
    size_t bytes = sizeof arena;
    ssize_t at_once = 0;
    CHECK_EQ(mallctl("arenas.create", &arena, &bytes, NULL, 0), 0);
    arena_option(arena, "extent_hooks", &default_hooks, NULL);
    *hooks = *default_hooks;
    hooks->dalloc = freeing_dalloc;
    arena_option(arena, "extent_hooks", NULL, &hooks);
    arena_option(arena, "dirty_decay_ms", NULL, &at_once);
    arena_option(arena, "muzzy_decay_ms", NULL, &at_once);
    return arena;
}

/* The mappings of an arena that the program makes count from its first object on. */
static void own_arenas_are_mapped(void)
{
    unsigned arena = 0;
    size_t bytes = sizeof arena;
    CHECK_EQ(mallctl("arenas.create", &arena, &bytes, NULL, 0), 0);
    uint64_t before = ctl_u64("spans.stats.mapped_bytes"), extents = ctl_u64("spans.stats.extents");
    void *p = mallocx(1024, FLAG_ARENA(arena) | FLAG_TCACHE_NONE);
    CHECK(p && ctl_u64("spans.stats.mapped_bytes") > before);
    CHECK(ctl_u64("spans.stats.extents") > extents);
    free(p);
}

/* The query flushes the buffer; that empties a slab, which calls the hook, which frees. */
static void frees_in_extent_hooks(void)
{
    static struct extent_hooks hooks;
    unsigned arena = arena_with_hooks(&hooks);
    uint64_t before = ctl_u64("spans.all.inuse_objects");
    for (int round = 0; round < 50; round++) {
        void *p[8];
        for (int i = 0; i < 8; i++)
            p[i] = mallocx(1024, FLAG_ARENA(arena) | FLAG_TCACHE_NONE);
        victim = malloc(100);
        for (int i = 0; i < 8; i++)
            free(p[i]);
        ctl_u64("spans.all.inuse_objects");
        free(victim);
        victim = NULL;
    }
    CHECK(freed_by_hook > 10);
    CHECK_EQ(ctl_u64("spans.all.inuse_objects"), before);
    ctl_check_identity("after frees in extent hooks");
}

/* ---- Sites and recycled contexts ---- */

static jespan_context_t enter_hot(void)
{
    JESPAN("hot");
    return jespan_current();
}

/* The site cache remembers a context that has become another's. What is tried with it must leave no trace. */
static void enters_of_recycled(void)
{
    enum { COUNT = 62 };
    jespan_span_t *spans[COUNT];
    char values[COUNT][8];
    JESPAN_SITE(site, "labelled");
    jespan_context_t hot = enter_hot();
    CHECK_EQ(ctl_span(hot, "enters"), 1);
    for (int i = 0; i < COUNT; i++) { /* no room is left for contexts without a span */
        snprintf(values[i], sizeof values[i], "%d", i);
        struct jespan_label label = {"number", values[i]};
        spans[i] = jespan_open(&site, JESPAN_ROOT, &label, 1);
        CHECK(spans[i] != NULL);
    }
    CHECK(strcmp(ctl_span_text(hot, "name"), "labelled") == 0);
    for (int i = 0; i < 3; i++)
        CHECK(enter_hot() != hot);
    CHECK_EQ(ctl_span(hot, "enters"), 0);
    for (int i = 0; i < COUNT; i++)
        jespan_close(spans[i]);
}

static void check_name_at(const struct jespan_site *site, const char *name)
{
    struct jespan_block scope;
    jespan_enter_block(&scope, site, &site->name, 1);
    CHECK(strcmp(ctl_span_text(jespan_current(), "name"), name) == 0);
    jespan_exit_block(&scope);
}

/* As when a plugin is unloaded, and another loaded to the same address, with a span in the same place. */
static void site_overwritten(void)
{
    char name[] = "first";
    struct jespan_site site = {name, "", __FILE__, 1};
    check_name_at(&site, "first");
    check_name_at(&site, "first");
    strcpy(name, "other");
    check_name_at(&site, "other");
    strcpy(name, "first");
    check_name_at(&site, "first");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"renamed_thread", renamed_thread, NULL, NULL},
        {"renamed_in_dump", renamed_in_dump, NULL, NULL},
        {"grown_by_part_of_extra", grown_by_part_of_extra, NULL, NULL},
        {"own_arenas_are_mapped", own_arenas_are_mapped, NULL, NULL},
        {"frees_in_extent_hooks", frees_in_extent_hooks, "tcache:false", NULL},
        {"enters_of_recycled", enters_of_recycled, NULL, "max_contexts:64", CASE_SAYS_OVERFLOW(64)},
        {"site_overwritten", site_overwritten, NULL, NULL},
    };
    return cases_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
