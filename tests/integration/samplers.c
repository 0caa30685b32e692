/* SPDX-License-Identifier: BSD-2-Clause */
/* Samplers: an unsampled span has no context of its own, and no byte is lost for it. Who is asked, what is inherited
 * where, and a sampler of the program's that is replaced while other threads open spans. The rules themselves are tried
 * in tests/unit/test_sampler.c. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include <jespan/jespan.h>

#include "../support/cases.h"
#include "../support/ctl.h"

#define MEMBERS(array) (sizeof(array) / sizeof *(array))

static uint32_t ids[65536];

static size_t list_contexts(void)
{
    size_t bytes = sizeof ids;
    ctl_refresh();
    CHECK_EQ(F(mallctl)("spans.ids", ids, &bytes, NULL, 0), 0);
    return bytes / sizeof *ids;
}

/* Each figure of all contexts together is that of spans.all, and what they hold is what jemalloc says. */
static void check_sums(const char *where)
{
    static const char *const leaves[] = {"alloc_objects", "alloc_bytes", "alloc_requested_bytes", "free_objects",
                                         "free_bytes", "inuse_objects", "inuse_bytes", "enters"};
    size_t n = list_contexts();
    for (size_t l = 0; l < MEMBERS(leaves); l++) {
        char all[64], retired[64];
        snprintf(all, sizeof all, "spans.all.%s", leaves[l]);
        snprintf(retired, sizeof retired, "spans.retired.%s", leaves[l]);
        uint64_t sum = ctl_u64(retired);
        for (size_t i = 0; i < n; i++)
            sum += ctl_span(ids[i], leaves[l]);
        if (sum != ctl_u64(all))
            check_fail("%s: %s: contexts have %llu, all %llu", where, leaves[l], (unsigned long long)sum,
                       (unsigned long long)ctl_u64(all));
    }
    ctl_check_identity(where);
}

static void check_not_listed(jespan_context_t id)
{
    size_t n = list_contexts();
    for (size_t i = 0; i < n; i++)
        CHECK(ids[i] != id);
}

static size_t contexts_named(const char *name)
{
    size_t n = list_contexts(), found = 0;
    for (size_t i = 0; i < n; i++)
        found += strcmp(ctl_span_text(ids[i], "name"), name) == 0;
    return found;
}

static jespan_span_t *open_span(const char *name, jespan_context_t parent)
{
    const struct jespan_site site = {.name = name};
    const struct jespan_label label = {"key", "value"};
    jespan_span_t *span = jespan_open(&site, parent, &label, 1);
    CHECK(span != NULL);
    return span;
}

static jespan_context_t context_of(jespan_span_t *span)
{
    CHECK_EQ(jespan_enter(span), 0);
    jespan_context_t id = jespan_current();
    CHECK_EQ(jespan_exit(span), 0);
    return id;
}

static void *on_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    void *result = NULL;
    CHECK_EQ(pthread_create(&thread, NULL, run, argument), 0);
    pthread_join(thread, &result);
    return result;
}

/* ---- What becomes of the memory ---- */

/* With sampler:never. */
static void allocations_go_to_the_root(void)
{
    uint64_t objects = ctl_span(JESPAN_ROOT, "inuse_objects"), bytes = ctl_span(JESPAN_ROOT, "inuse_bytes");
    jespan_context_t base = jespan_current(), unsampled;
    void *p, *q;
    {
        JESPAN("request", "route", "/");
        unsampled = jespan_current();
        CHECK(unsampled != base);
        p = F(malloc)(1000);
        {
            JESPAN("parse");
            CHECK_EQ(jespan_current(), unsampled);
            q = F(malloc)(5000);
        }
        CHECK_EQ(jespan_current(), unsampled);
    }
    CHECK_EQ(jespan_current(), base);
    CHECK_EQ(ctl_span(JESPAN_ROOT, "inuse_objects"), objects + 2);
    CHECK_EQ(ctl_span(JESPAN_ROOT, "inuse_bytes"), bytes + F(malloc_usable_size)(p) + F(malloc_usable_size)(q));
    CHECK_EQ(contexts_named("request") + contexts_named("parse") + contexts_named("(unsampled)"), 0);
    check_not_listed(unsampled);
    CHECK(strcmp(ctl_span_text(unsampled, "kind"), "unsampled") == 0);
    CHECK_EQ(ctl_span(unsampled, "parent"), JESPAN_ROOT);
    CHECK_EQ(ctl_span(unsampled, "inuse_objects"), 2);
    check_sums("held by unsampled spans");
    F(free)(p);
    q = F(realloc)(q, 6000); /* no longer in the span */
    CHECK_EQ(ctl_span(JESPAN_ROOT, "inuse_objects"), objects);
    F(free)(q);
    check_sums("freed");
}

/* ---- Inheritance ---- */

/* With sampler:never, so that whoever is asked says no. A handle works as ever. */
static void handles_of_unsampled_spans(void)
{
    jespan_context_t base = jespan_current();
    uint64_t before = ctl_u64("spans.stats.unsampled");
    jespan_span_t *outer = open_span("outer", JESPAN_ROOT), *current = open_span("current", JESPAN_CURRENT);
    jespan_context_t unsampled = context_of(outer);
    jespan_span_t *inner = open_span("inner", unsampled);
    CHECK_EQ(context_of(current), unsampled);
    CHECK_EQ(context_of(inner), unsampled);
    CHECK_EQ(ctl_u64("spans.stats.unsampled") - before, 3);
    CHECK_EQ(jespan_enter(outer), 0);
    CHECK_EQ(jespan_enter(inner), 0);
    CHECK_EQ(jespan_exit(outer), 0);
    CHECK_EQ(jespan_current(), unsampled);
    jespan_close(inner);
    CHECK_EQ(jespan_enter(inner), EINVAL);
    CHECK_EQ(jespan_exit(inner), 0);
    CHECK_EQ(jespan_exit(inner), EINVAL);
    CHECK_EQ(jespan_current(), base);
    jespan_close(outer);
    jespan_close(current);
    jespan_close(outer);
    const struct jespan_site site = {.name = "wrong"};
    const struct jespan_label label = {"key", NULL};
    CHECK(jespan_open(&site, JESPAN_ROOT, &label, 1) == NULL && errno == EINVAL);
    CHECK(jespan_open(&site, 60000, NULL, 0) == NULL && errno == EINVAL);
}

static void *attached(void *argument)
{
    jespan_context_t id = *(jespan_context_t *)argument, own = jespan_current();
    CHECK_EQ(jespan_attach(id), own);
    CHECK_EQ(jespan_current(), id);
    void *p = F(malloc)(300);
    {
        JESPAN("on a worker", "key", "value");
        CHECK_EQ(jespan_current(), id);
        jespan_span_t *span = open_span("opened on a worker", JESPAN_CURRENT);
        CHECK_EQ(context_of(span), id);
        jespan_close(span);
    }
    CHECK_EQ(jespan_attach(own), id);
    return p;
}

static void *enters(void *span)
{
    CHECK_EQ(jespan_enter(span), 0);
    void *p = F(malloc)(300);
    JESPAN("inside");
    jespan_context_t *id = F(malloc)(sizeof *id);
    *id = jespan_current();
    F(free)(p);
    CHECK_EQ(jespan_exit(span), 0);
    return id;
}

/* With sampler_sites:left*=never: once it is decided, no other name and no other sampler changes it. */
static void inherited_everywhere(void)
{
    jespan_span_t *left = open_span("left out", JESPAN_ROOT), *taken = open_span("taken", JESPAN_ROOT);
    jespan_context_t unsampled = context_of(left), sampled = context_of(taken), *seen;
    CHECK(unsampled != sampled);
    void *p = on_thread(attached, &unsampled);
    CHECK_EQ(ctl_span(unsampled, "inuse_objects"), 1);
    F(free)(p);
    seen = on_thread(enters, left);
    CHECK_EQ(*seen, unsampled);
    F(free)(seen);
    jespan_span_t *below = open_span("left out, but of a sampled one", sampled);
    CHECK(context_of(below) != unsampled);
    CHECK_EQ(ctl_span(context_of(below), "parent"), sampled);
    CHECK_EQ(jespan_enter(taken), 0);
    {
        JESPAN("left out, but in a sampled one");
        CHECK(jespan_current() != unsampled);
    }
    CHECK_EQ(jespan_exit(taken), 0);
    CHECK_EQ(contexts_named("opened on a worker") + contexts_named("on a worker") + contexts_named("inside"), 0);
    jespan_close(below);
    jespan_close(left);
    jespan_close(taken);
    check_sums("after all that");
}

/* ---- Rules, as configured ---- */

static unsigned sampled_of(unsigned n, const char *name)
{
    unsigned sampled = 0;
    for (unsigned i = 0; i < n; i++) {
        jespan_span_t *span = open_span(name, JESPAN_ROOT);
        sampled += strcmp(ctl_span_text(context_of(span), "kind"), "span") == 0;
        jespan_close(span);
    }
    return sampled;
}

/* 0.25 of 20,000, within 7 standard deviations; scopes too. */
static void probability(void)
{
    enum { N = 20000 };
    unsigned spans = sampled_of(N, "request"), scopes = 0;
    jespan_context_t sampled = 0;
    for (int i = 0; i < N; i++) {
        JESPAN("scope");
        const char *kind = ctl_span_text(jespan_current(), "kind");
        scopes += strcmp(kind, "span") == 0;
        if (strcmp(kind, "span") == 0) {
            CHECK(!sampled || sampled == jespan_current());
            sampled = jespan_current();
        }
    }
    if (spans < 5000 - 429 || spans > 5000 + 429 || scopes < 5000 - 429 || scopes > 5000 + 429)
        check_fail("0.25 of %d: %u spans, %u scopes", N, spans, scopes);
    CHECK_EQ(ctl_u64("spans.stats.unsampled"), 2 * N - spans - scopes);
    CHECK_EQ(ctl_span(sampled, "enters"), scopes);
    check_sums("after a quarter");
}

/* The clock that rates go by. */
static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* With 200/s: of a flood over 1.5 seconds, 200 for each second of the clock that it touched. */
static void rate(void)
{
    uint64_t start = now_ns();
    unsigned sampled = 0;
    while (now_ns() - start < 1500000000u)
        sampled += sampled_of(50, "request");
    uint64_t seconds = now_ns() / 1000000000u - start / 1000000000u + 1; /* of which one may have been too short */
    if (sampled < 200 * (seconds - 1) || sampled > 200 * seconds)
        check_fail("%u sampled in %llu seconds", sampled, (unsigned long long)seconds);
}

static void by_site(void)
{
    CHECK_EQ(sampled_of(100, "health"), 0);
    CHECK_EQ(sampled_of(100, "db.query"), 0);
    CHECK_EQ(sampled_of(100, "request"), 100);
    CHECK_EQ(ctl_u64("spans.stats.unsampled"), 200);
}

static void nothing_configured(void)
{
    CHECK_EQ(sampled_of(100, "request"), 100);
    CHECK_EQ(ctl_u64("spans.stats.unsampled"), 0);
}

/* ---- The program's own ---- */

struct asked {
    unsigned times;
    jespan_context_t inside;
    void *allocated;
};

/* Looks at the route; opens spans and allocates, which nobody is asked about. */
static int by_route(const struct jespan_site *site, const struct jespan_label *labels, size_t n_labels, void *user)
{
    struct asked *asked = user;
    asked->times++;
    JESPAN("sampler", "of", site->name);
    jespan_span_t *span = open_span("inside the sampler", JESPAN_ROOT);
    asked->inside = context_of(span);
    jespan_close(span);
    F(free)(asked->allocated);
    asked->allocated = F(malloc)(100);
    for (size_t i = 0; i < n_labels; i++)
        if (strcmp(labels[i].key, "route") == 0)
            return strcmp(labels[i].value, "/health") != 0;
    return 1;
}

static jespan_context_t request(const char *route)
{
    JESPAN("request", "tenant", "blue", "route", route);
    JESPAN("parse", "route", "/health");
    return jespan_current();
}

static void callback(void)
{
    const struct jespan_site site = {.name = "opened"};
    const struct jespan_label health[] = {{"tenant", "blue"}, {"route", "/health"}}, doc[] = {{"a", "b"}, {"route", "/doc"}};
    struct asked asked = {0};
    jespan_set_sampler(by_route, &asked);
    jespan_context_t unsampled = request("/health"), sampled = request("/doc");
    CHECK_EQ(asked.times, 2);
    CHECK(strcmp(ctl_span_text(unsampled, "kind"), "unsampled") == 0);
    CHECK(strcmp(ctl_span_text(sampled, "name"), "parse") == 0);
    CHECK(strcmp(ctl_span_text(asked.inside, "name"), "inside the sampler") == 0);
    jespan_span_t *left = jespan_open(&site, JESPAN_CURRENT, health, 2), *taken = jespan_open(&site, JESPAN_ROOT, doc, 2),
                  *same = jespan_open(&site, JESPAN_ROOT, doc, 2);
    CHECK_EQ(asked.times, 5);
    CHECK_EQ(context_of(left), unsampled);
    CHECK_EQ(context_of(taken), context_of(same)); /* the labels are those of the call, whatever the sampler opened */
    CHECK(context_of(taken) != asked.inside && context_of(taken) != unsampled);
    CHECK_EQ(ctl_span(asked.inside, "inuse_objects"), 0);
    jespan_set_sampler(NULL, NULL);
    CHECK(request("/health") != unsampled);
    CHECK_EQ(asked.times, 5);
    CHECK_EQ(context_of(left), unsampled);
    jespan_close(left);
    jespan_close(taken);
    jespan_close(same);
    F(free)(asked.allocated);
    check_sums("with a sampler of our own");
}

/* Each is to be called with its own `user`: 1 samples, 2 does not. */
static int says_yes(const struct jespan_site *site, const struct jespan_label *labels, size_t n_labels, void *user)
{
    (void)site, (void)labels, (void)n_labels;
    CHECK_EQ((uintptr_t)user, 1);
    return 1;
}

static int says_no(const struct jespan_site *site, const struct jespan_label *labels, size_t n_labels, void *user)
{
    (void)site, (void)labels, (void)n_labels;
    CHECK_EQ((uintptr_t)user, 2);
    return 0;
}

static _Atomic bool stop;

static void *opens_spans(void *unused)
{
    (void)unused;
    while (!stop) {
        JESPAN("flood", "key", "value");
        void *p = F(malloc)(64);
        jespan_span_t *span = open_span("flood", JESPAN_ROOT);
        CHECK_EQ(jespan_enter(span), 0);
        F(free)(p);
        CHECK_EQ(jespan_exit(span), 0);
        jespan_close(span);
    }
    return NULL;
}

static void replaced_while_spans_open(void)
{
    pthread_t threads[4];
    for (size_t i = 0; i < MEMBERS(threads); i++)
        CHECK_EQ(pthread_create(&threads[i], NULL, opens_spans, NULL), 0);
    for (uint64_t i = 0, n = check_env("REPLACEMENTS", 50000); i < n; i++) {
        jespan_set_sampler(i % 3 == 0 ? says_yes : i % 3 == 1 ? says_no : NULL, (void *)(uintptr_t)(i % 3 + 1));
        if (i % 100 == 0)
            nanosleep(&(struct timespec){0, 10000}, NULL);
    }
    stop = true;
    for (size_t i = 0; i < MEMBERS(threads); i++)
        pthread_join(threads[i], NULL);
    CHECK(ctl_u64("spans.stats.unsampled") > 0);
    CHECK_EQ(contexts_named("flood"), 2);
    check_sums("after replacements");
}

/* ---- At random ---- */

/* What each thread holds, in sampled and unsampled spans, some of it freed by the others. */
#define SLOTS 512
static void *_Atomic held[SLOTS];

static void *at_random(void *argument)
{
    uint64_t random = (uintptr_t)argument * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 20000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        JESPAN("outer");
        jespan_span_t *span = open_span("opened", random >> 60 & 1 ? JESPAN_CURRENT : JESPAN_ROOT);
        CHECK_EQ(jespan_enter(span), 0);
        JESPAN("inner", "parity", i % 2 ? "odd" : "even");
        void *p = F(malloc)(random >> 40 & 0x3fff);
        F(free)(atomic_exchange(&held[random >> 33 & (SLOTS - 1)], random >> 61 & 1 ? F(realloc)(p, 100) : p));
        CHECK_EQ(jespan_exit(span), 0);
        jespan_close(span);
    }
    return NULL;
}

/* With max_contexts:64 and half of all spans sampled: to the byte, also while contexts are recycled. */
static void nothing_is_lost(void)
{
    pthread_t threads[4];
    for (int round = 0; round < 3; round++) {
        for (uintptr_t i = 0; i < MEMBERS(threads); i++)
            CHECK_EQ(pthread_create(&threads[i], NULL, at_random, (void *)(i + 1)), 0);
        for (size_t i = 0; i < MEMBERS(threads); i++)
            pthread_join(threads[i], NULL);
        check_sums("at random");
    }
    CHECK(ctl_u64("spans.stats.unsampled") > 10000);
    for (int i = 0; i < SLOTS; i++)
        F(free)(held[i]);
    check_sums("all freed");
}

/* A recycled id would take the unsampled bytes along. */
static void never_recycled(void)
{
    jespan_context_t unsampled;
    {
        JESPAN("first");
        unsampled = jespan_current();
    }
    jespan_set_sampler(says_yes, (void *)1);
    for (unsigned i = 0; i < 1000; i++) {
        char text[16];
        snprintf(text, sizeof text, "%u", i);
        JESPAN("passing", "number", text);
        CHECK(jespan_current() != unsampled);
    }
    CHECK(ctl_u64("spans.stats.recycled") > 500);
    CHECK(strcmp(ctl_span_text(unsampled, "kind"), "unsampled") == 0);
    check_sums("after recycling");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"allocations_go_to_the_root", allocations_go_to_the_root, NULL, "sampler:never"},
        {"handles_of_unsampled_spans", handles_of_unsampled_spans, NULL, "sampler:never"},
        {"inherited_everywhere", inherited_everywhere, NULL, "sampler_sites:left*=never"},
        {"probability", probability, NULL, "sampler:0.25"},
        {"rate", rate, NULL, "sampler:200/s"},
        {"by_site", by_site, NULL, "sampler:always,sampler_sites:health=never|db.*=0/s"},
        {"nothing_configured", nothing_configured, NULL, NULL},
        {"callback", callback, NULL, NULL},
        {"replaced_while_spans_open", replaced_while_spans_open, NULL, NULL},
        {"nothing_is_lost", nothing_is_lost, NULL, "sampler:0.5,max_contexts:64"},
        {"never_recycled", never_recycled, NULL, "sampler:never,max_contexts:64"},
    };
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
