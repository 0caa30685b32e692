/* SPDX-License-Identifier: BSD-2-Clause */
/* A context keeps its identity as long as it lives. A number that is given to another context leaves nothing behind. */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>

#include <jespan/jespan.h>
#include <jespan/limit.h>
#include <jespan/reporter.h>

#include "../support/cases.h"
#include "../support/ctl.h"
#include "../support/spans.h"

#define OBJECTS 1000
#define ROUND_MS 20000

/* ---- A limit on one context, and what reporters are told of others ---- */

struct told {
    jespan_context_t id;
    uint64_t objects, closed;
};

static void tell_allocations(void *user, const struct jespan_span_info *span, const struct jespan_allocations *a)
{
    struct told *t = user;
    if ((uint32_t)span->id == t->id)
        t->objects += a->alloc_objects;
}

static void tell_closed(void *user, const struct jespan_span_info *span)
{
    struct told *t = user;
    t->closed += (uint32_t)span->id == t->id;
}

static void limited(void)
{
    jespan_span_t *watched = spans_open("watched", -1, JESPAN_ROOT), *other = spans_open("other", -1, JESPAN_ROOT);
    jespan_context_t id = spans_context(watched), other_id = spans_context(other);
    struct told told = {.id = id};
    const struct jespan_reporter reporter = {.size = sizeof reporter, .name = "told", .user = &told,
                                             .allocations = tell_allocations, .span_closed = tell_closed};
    CHECK_EQ(jespan_set_limit(id, 0, 1 << 30), 0);
    jespan_registration_t *registration = jespan_register_reporter(&reporter, 0);
    CHECK(registration != NULL);
    CHECK_EQ(jespan_enter(watched), 0);
    for (unsigned i = 0; i < OBJECTS; i++)
        F(free)(opaque_pointer(F(malloc)(100)));
    CHECK_EQ(jespan_exit(watched), 0);
    CHECK_EQ(jespan_flush_reporters(ROUND_MS), 0);
    for (uint64_t i = 1; i <= 5; i++) {
        CHECK_EQ(jespan_set_limit(other_id, 0, i << 20), 0);
        CHECK_EQ(jespan_flush_reporters(ROUND_MS), 0);
    }
    CHECK_EQ(told.objects, OBJECTS);
    CHECK_EQ(told.closed, 0);
    CHECK_EQ(jespan_unregister_reporter(registration), 0);
    jespan_close(watched);
    jespan_close(other);
}

/* ---- What a thread remembers of sites ---- */

struct guest {
    pthread_t thread;
    sem_t begun, may_end;
    jespan_context_t base;
};

static void *be_guest(void *argument)
{
    struct guest *g = argument;
    pthread_setname_np(pthread_self(), "guest");
    F(free)(opaque_pointer(F(malloc)(1)));
    g->base = jespan_current();
    sem_post(&g->begun);
    sem_wait(&g->may_end);
    return NULL;
}

static void guest_begin(struct guest *g)
{
    sem_init(&g->begun, 0, 0);
    sem_init(&g->may_end, 0, 0);
    CHECK_EQ(pthread_create(&g->thread, NULL, be_guest, g), 0);
    sem_wait(&g->begun);
}

static void guest_end(struct guest *g)
{
    sem_post(&g->may_end);
    CHECK_EQ(pthread_join(g->thread, NULL), 0);
}

static jespan_context_t in_task(void)
{
    JESPAN("task");
    return jespan_current();
}

/* Below another thread's context, which is no parent of what is opened there; whose number then is a span's. */
static void number_of_a_thread(void)
{
    struct guest g;
    F(free)(opaque_pointer(F(malloc)(1)));
    guest_begin(&g);
    jespan_context_t previous = jespan_attach(g.base);
    jespan_context_t task = in_task();
    CHECK_EQ(ctl_span(task, "parent"), JESPAN_ROOT);
    void *kept = opaque_pointer(F(malloc)(1)); /* so that it stays */
    CHECK_EQ(jespan_credit(kept, task), 0);
    jespan_attach(previous);
    guest_end(&g);
    bool found = false;
    jespan_span_t *span = NULL;
    for (long n = 0; n < 400 && !found; n++) {
        span = spans_open("request", n, JESPAN_ROOT);
        found = spans_context(span) == g.base;
        if (!found && n < 300)
            jespan_close(span);
    }
    CHECK(found);
    CHECK_EQ(jespan_enter(span), 0);
    jespan_context_t below = in_task();
    CHECK(below != task);
    CHECK(below == g.base || ctl_span(below, "parent") == g.base);
    CHECK_EQ(jespan_exit(span), 0);
    F(free)(kept);
}

/* The place of a site is used again, by one with the same name and line. */
static void same_address(void)
{
    static struct jespan_site site;
    static char target[8], file[300];
    static const struct {
        const char *target, *file;
    } texts[] = {{"one", "a.c"}, {"two", "a.c"}, {"two", "b.c"}, {NULL, "b.c"}, {NULL, NULL}, {"one", NULL}, {"one", "a.c"}};
    jespan_context_t id[MEMBERS(texts)];
    struct jespan_block scope;
    const char *const name[] = {"plugin"};
    for (size_t i = 0; i < MEMBERS(texts); i++) {
        const char *t = texts[i].target, *f = texts[i].file;
        site = (struct jespan_site){.name = "plugin", .target = t ? strcpy(target, t) : NULL,
                                    .file = f ? strcpy(file, f) : NULL, .line = 7};
        for (int k = 0; k < 2; k++) {
            jespan_enter_block(&scope, &site, name, 1);
            id[i] = jespan_current();
            CHECK(strcmp(ctl_span_text(id[i], "target"), t ? t : "") == 0);
            CHECK(strcmp(ctl_span_text(id[i], "file"), f ? f : "") == 0);
            jespan_exit_block(&scope);
        }
        for (size_t k = 0; k < i; k++)
            CHECK_EQ(id[k] == id[i], k == 0 && i == MEMBERS(texts) - 1);
    }
    memset(file, 'x', sizeof file - 1); /* cut, but the same each time */
    site.file = file;
    for (int k = 0; k < 2; k++) {
        jespan_enter_block(&scope, &site, name, 1);
        CHECK_EQ(strlen(ctl_span_text(jespan_current(), "file")), JESPAN_MAX_STRING_BYTES);
        jespan_exit_block(&scope);
    }
}

/* ---- A parent that making room for its child takes away ---- */

/* The thread's context is the only one that nobody needs: what is opened in it gets its number, and is a span all the same. */
static void parent_recycled(void)
{
    enum { FILLERS = 100 };
    struct guest g;
    const struct jespan_label label = JESPAN_LABEL("added", "yes");
    jespan_span_t *fillers[FILLERS], *span = NULL;
    char labels[64];
    size_t bytes = sizeof labels;
    char name[96];
    F(free)(opaque_pointer(F(malloc)(1)));
    guest_begin(&g);
    for (long n = 0; n < FILLERS; n++)
        fillers[n] = spans_open("filler", n, JESPAN_ROOT);
    guest_end(&g);
    for (unsigned i = 0; i < 16; i++) { /* recycling is not tried each time */
        span = spans_open("child", -1, g.base);
        if (spans_context(span) == g.base)
            break;
        jespan_close(span);
    }
    CHECK_EQ(spans_context(span), g.base);
    CHECK_EQ(ctl_span(g.base, "parent"), JESPAN_ROOT);
    for (long n = 0; n < FILLERS; n++) /* now there is room for the one with the label */
        jespan_close(fillers[n]);
    for (long n = 0; n < 16; n++)
        jespan_close(spans_open("another", n, JESPAN_ROOT));
    CHECK_EQ(jespan_add_label(span, &label), 0);
    CHECK_EQ(F(mallctl)(ctl_span_name(name, sizeof name, spans_context(span), "labels"), labels, &bytes, NULL, 0), 0);
    CHECK(bytes == sizeof "added\0yes" && !memcmp(labels, "added\0yes", bytes));
    jespan_close(span);
}

static const struct test_case cases[] = {
    {"limited", limited, NULL, NULL},
    {"number_of_a_thread", number_of_a_thread, NULL, "max_contexts:64", CASE_SAYS_OVERFLOW(64)},
    {"same_address", same_address, NULL, NULL},
    {"parent_recycled", parent_recycled, NULL, "max_contexts:64", CASE_SAYS_OVERFLOW(64)},
};

int main(int argc, char **argv)
{
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
