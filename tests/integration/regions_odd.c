/* SPDX-License-Identifier: BSD-2-Clause */
/* Regions in unusual situations: errors, missing arenas, signals, wrong order. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>

#include <jespan/jespan.h>

#include "../support/arenas.h"
#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/entered.h"
#include "../support/family.h"

JESPAN_SITE(region_site, "region", .arena = {.flags = JESPAN_ARENA_REGION});
JESPAN_SITE(arena_site, "arena", .arena = {.flags = JESPAN_ARENA});
JESPAN_SITE(refusing_site, "refusing", .arena = {.flags = JESPAN_ARENA_REGION | JESPAN_ARENA_REFUSE});
JESPAN_SITE(other_site, "other");

#define OBJECTS 10

static void fill(void)
{
    for (int i = 0; i < OBJECTS; i++)
        memset(malloc(1000), 'x', 1000);
}

/* Whether it grew where it was, or only its owner changed, or it moved: it is the other's. */
static void what_another_resizes_stays(void)
{
    jespan_span_t *region = enter_new(&region_site);
    char *big = malloc(1 << 20), *small = malloc(100);
    CHECK_EQ(jespan_exit(region), 0);
    jespan_span_t *other = enter_new(&other_site);
    jespan_context_t id = jespan_current();
    big = realloc(big, (1 << 20) + 1);
    small = realloc(small, 101);
    CHECK_EQ(jespan_close(region), 0);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 2);
    memset(big, 'b', (1 << 20) + 1);
    memset(small, 's', 101);
    free(big);
    free(small);
    leave(other);
}

#define CACHE(index) (((int)(index) + 2) << 8) /* MALLOCX_TCACHE() */
#define ARENA(index) (((index) + 1) << 20)          /* MALLOCX_ARENA() */

/* Objects that the program puts into a cache of its own do not come out of it when they are gone. */
static void no_other_cache_has_them(void)
{
    unsigned cache;
    size_t bytes = sizeof cache;
    CHECK_EQ(mallctl("tcache.create", &cache, &bytes, NULL, 0), 0);
    void *in[OBJECTS];
    jespan_span_t *region = enter_new(&region_site);
    for (int i = 0; i < OBJECTS; i++)
        in[i] = malloc(64);
    CHECK_EQ(jespan_exit(region), 0);
    for (int i = 0; i < OBJECTS; i++)
        F(dallocx)(in[i], i & 1 ? CACHE(cache) : ARENA(0));
    CHECK_EQ(jespan_close(region), 0);
    region = enter_new(&region_site);
    for (int i = 0; i < OBJECTS; i++)
        in[i] = malloc(64);
    CHECK_EQ(jespan_exit(region), 0);
    for (int i = 0; i < OBJECTS; i++) {
        void *p = F(mallocx)(64, CACHE(cache)), *q = malloc(64);
        for (int j = 0; j < OBJECTS; j++)
            CHECK(p != in[j] && q != in[j]);
    }
    CHECK_EQ(jespan_close(region), 0);
}

#define SURVIVORS 4
static _Atomic(void *) handed[SURVIVORS];
static _Atomic int ended;

static void *free_survivors(void *unused)
{
    while (!ended)
        for (int i = 0; i < SURVIVORS; i++) {
            void *p = atomic_exchange(&handed[i], NULL);
            if (p)
                free(i & 1 ? realloc(p, 30000) : p);
        }
    return unused;
}

static void survivors_go_as_they_are_looked_for(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, free_survivors, NULL), 0);
    for (int i = 0; i < 50000; i++) {
        jespan_span_t *region = enter_new(&region_site);
        void *p = malloc(i & 2 ? 48 : 24000);
        fill();
        CHECK_EQ(jespan_credit(p, JESPAN_BASE), 0);
        CHECK_EQ(jespan_exit(region), 0);
        free(atomic_exchange(&handed[i % SURVIVORS], p));
        CHECK_EQ(jespan_close(region), 0);
    }
    ended = 1;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < SURVIVORS; i++)
        free(handed[i]);
    leave(enter_new(&region_site));
    CHECK_EQ(region_stat("set_aside"), 0);
}

static void only_the_last_reference_is_refused(void)
{
    jespan_span_t *region = enter_new(&refusing_site);
    void *kept = malloc(100);
    CHECK_EQ(jespan_exit(region), 0);
    CHECK_EQ(jespan_credit(kept, JESPAN_BASE), 0);
    CHECK_EQ(jespan_ref(region), 0);
    CHECK_EQ(jespan_unref(region), 0);
    CHECK_EQ(jespan_unref(region), EBUSY);
    CHECK_EQ(jespan_close(region), EBUSY);
    free(kept);
    CHECK_EQ(jespan_unref(region), 0);
    CHECK_EQ(jespan_unref(region), EINVAL);
}

/* With ages too. */
static void spans_opened_inside_are_of_it(void)
{
    jespan_span_t *region = enter_new(&region_site), *inner = enter_new(&other_site);
    fill();
    leave(inner);
    jespan_span_t *arena = enter_new(&arena_site);
    void *kept = malloc(1000);
    leave(arena);
    leave(region);
    CHECK_EQ(region_stat("released_objects"), OBJECTS);
    free(kept);
}

/* With sampler:never. */
static void samplers_leave_none_out(void)
{
    JESPAN("request");
    {
        JESPAN_REGION("parse");
        fill();
        JESPAN("nested");
        fill();
    }
    CHECK_EQ(region_stat("released"), 1);
    CHECK_EQ(region_stat("released_objects"), 2 * OBJECTS);
}

static int asked(const struct jespan_site *site, const struct jespan_label *labels, size_t n, void *times)
{
    (void)site, (void)labels, (void)n;
    return ++*(int *)times, 0;
}

static void no_sampler_is_asked(void)
{
    int times = 0;
    jespan_set_sampler(asked, &times);
    {
        JESPAN_REGION("parse");
        fill();
    }
    CHECK_EQ(times, 0);
    CHECK_EQ(region_stat("released_objects"), OBJECTS);
    JESPAN("request");
    CHECK_EQ(times, 1);
}

static void use_up_contexts(void)
{
    for (int i = 0; i < 5000; i++) {
        const struct jespan_label label = JESPAN_LABEL_INT("i", i);
        CHECK(jespan_open(&other_site, JESPAN_ROOT, &label, 1) != NULL);
    }
}

/* With max_contexts:4096. What has an ancestor's context, as others outside have, is the region's all the same, unless it
 * was credited to that context, or made in a span that was opened below it by number: then it stays. */
static void there_is_one_without_a_context(void)
{
    use_up_contexts();
    jespan_context_t thread = jespan_current();
    jespan_span_t *region = enter_new(&region_site);
    CHECK_EQ(jespan_current(), JESPAN_ROOT);
    fill();
    jespan_span_t *inner = enter_new(&other_site);
    fill();
    leave(inner);
    void *kept = malloc(1000);
    CHECK_EQ(jespan_credit(kept, thread), 0);
    char *credited = strcpy(malloc(1000), "kept");
    CHECK_EQ(jespan_credit(credited, JESPAN_ROOT), 0);
    jespan_span_t *outer = jespan_open(&other_site, JESPAN_ROOT, NULL, 0);
    CHECK_EQ(jespan_enter(outer), 0);
    char *outside = strcpy(malloc(1000), "kept");
    leave(outer);
    leave(region);
    CHECK_EQ(region_stat("survivors"), 2);
    CHECK(strcmp(credited, "kept") == 0 && strcmp(outside, "kept") == 0);
    free(outside);
    free(kept);
    free(credited);
    leave(enter_new(&region_site));
    CHECK_EQ(region_stat("set_aside"), 0);
    CHECK_EQ(region_stat("released_objects"), 2 * OBJECTS);
}

/* jespan tries out functions of libc in the first region. */
static void the_first_pays_for_nothing(void)
{
    jespan_span_t *region = enter_new(&region_site);
    jespan_context_t id = jespan_current();
    CHECK_EQ(ctl_span(id, "alloc_objects"), 0);
    char *text = strdup("text"), *line = NULL;
    CHECK(asprintf(&line, "%500d", 1) == 500);
    CHECK(arena_of_object(line) == arena_of_object(text) && arena_of_object(text) > 0);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 2);
    leave(region);
    ctl_check_identity("after a region");
}

static const struct test_case cases[] = {
    {"what another resizes stays", what_another_resizes_stays, NULL, NULL},
    {"no other cache has them", no_other_cache_has_them, NULL, NULL},
    {"survivors go as they are looked for", survivors_go_as_they_are_looked_for, NULL, NULL},
    {"spans opened inside are of it", spans_opened_inside_are_of_it, NULL, NULL},
    {"spans opened inside are of it, with ages", spans_opened_inside_are_of_it, NULL, "age_period_s:1"},
    {"only the last reference is refused", only_the_last_reference_is_refused, NULL, NULL},
    {"samplers leave none out", samplers_leave_none_out, NULL, "sampler:never"},
    {"the first pays for nothing", the_first_pays_for_nothing, NULL, NULL},
    {"the first needs no room", the_first_pays_for_nothing, NULL, "limit:region=4K,on_limit:abort"},
    {"the first pays for nothing, with stacks", the_first_pays_for_nothing, NULL, "stacks:all"},
    {"no sampler is asked", no_sampler_is_asked, NULL, NULL},
    {"there is one without a context", there_is_one_without_a_context, NULL, "max_contexts:4096",
     CASE_SAYS_OVERFLOW(4096)},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
