/* SPDX-License-Identifier: BSD-2-Clause */
/* Samplers: an unsampled span has no context of its own, and no byte is lost. Which sampler is asked, and what is
 * inherited. The rules are in tests/unit/span/test_sampler.c, many threads in tests/stress/samplers.c. */
#define _GNU_SOURCE
#include <time.h>

#include "../support/cases.h"
#include "../support/spans.h"

static void check_not_listed(jespan_context_t id)
{
    size_t n = spans_list();
    for (size_t i = 0; i < n; i++)
        CHECK(spans_ids[i] != id);
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
    CHECK_EQ(spans_named("request") + spans_named("parse") + spans_named("(unsampled)"), 0);
    check_not_listed(unsampled);
    CHECK(strcmp(ctl_span_text(unsampled, "kind"), "unsampled") == 0);
    CHECK_EQ(ctl_span(unsampled, "parent"), JESPAN_ROOT);
    CHECK_EQ(ctl_span(unsampled, "inuse_objects"), 2);
    spans_check_sums("held by unsampled spans");
    F(free)(p);
    q = F(realloc)(q, 6000); /* no longer in the span */
    CHECK_EQ(ctl_span(JESPAN_ROOT, "inuse_objects"), objects);
    F(free)(q);
    spans_check_sums("freed");
}

/* ---- Inheritance ---- */

/* With sampler:never, so that whoever is asked says no. A handle works as ever. */
static void handles_of_unsampled_spans(void)
{
    jespan_context_t base = jespan_current();
    uint64_t before = ctl_u64("spans.stats.unsampled");
    jespan_span_t *outer = spans_open("outer", 1, JESPAN_ROOT), *current = spans_open("current", 1, JESPAN_CURRENT);
    jespan_context_t unsampled = spans_context(outer);
    jespan_span_t *inner = spans_open("inner", 1, unsampled);
    CHECK_EQ(spans_context(current), unsampled);
    CHECK_EQ(spans_context(inner), unsampled);
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
        jespan_span_t *span = spans_open("opened on a worker", 1, JESPAN_CURRENT);
        CHECK_EQ(spans_context(span), id);
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
    jespan_span_t *left = spans_open("left out", 1, JESPAN_ROOT), *taken = spans_open("taken", 1, JESPAN_ROOT);
    jespan_context_t unsampled = spans_context(left), sampled = spans_context(taken), *seen;
    CHECK(unsampled != sampled);
    void *p = spans_on_thread(attached, &unsampled);
    CHECK_EQ(ctl_span(unsampled, "inuse_objects"), 1);
    F(free)(p);
    seen = spans_on_thread(enters, left);
    CHECK_EQ(*seen, unsampled);
    F(free)(seen);
    jespan_span_t *below = spans_open("left out, but of a sampled one", 1, sampled);
    CHECK(spans_context(below) != unsampled);
    CHECK_EQ(ctl_span(spans_context(below), "parent"), sampled);
    CHECK_EQ(jespan_enter(taken), 0);
    {
        JESPAN("left out, but in a sampled one");
        CHECK(jespan_current() != unsampled);
    }
    CHECK_EQ(jespan_exit(taken), 0);
    CHECK_EQ(spans_named("opened on a worker") + spans_named("on a worker") + spans_named("inside"), 0);
    jespan_close(below);
    jespan_close(left);
    jespan_close(taken);
    spans_check_sums("after all that");
}

/* ---- Rules, as configured ---- */

static unsigned sampled_of(unsigned n, const char *name)
{
    unsigned sampled = 0;
    for (unsigned i = 0; i < n; i++) {
        jespan_span_t *span = spans_open(name, 1, JESPAN_ROOT);
        sampled += strcmp(ctl_span_text(spans_context(span), "kind"), "span") == 0;
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
    spans_check_sums("after a quarter");
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
    jespan_span_t *span = spans_open("inside the sampler", 1, JESPAN_ROOT);
    asked->inside = spans_context(span);
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

/* It reads all that it gets. */
static int adds_up(const struct jespan_site *site, const struct jespan_label *labels, size_t n, void *user)
{
    size_t *sum = user;
    *sum += strlen(site->name);
    for (size_t i = 0; i < n; i++)
        *sum += strlen(labels[i].key) + strlen(labels[i].value);
    return 1;
}

/* With record_labels:kept. Spans take no label without a value, nor more than JESPAN_MAX_LABELS; what else they are given is not
 * looked at. */
static void callback_gets_valid_labels(void)
{
    const struct jespan_site site = {.name = "site"};
    struct jespan_label labels[JESPAN_MAX_LABELS + 2] = {{"user", NULL}};
    size_t sum = 0;
    for (int i = 1; i < JESPAN_MAX_LABELS + 2; i++)
        labels[i] = (struct jespan_label){i <= JESPAN_MAX_LABELS ? "kept" : NULL, "v"};
    jespan_set_sampler(adds_up, &sum);
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, labels, JESPAN_MAX_LABELS + 2);
    CHECK(span != NULL);
    CHECK_EQ(sum, 4 + JESPAN_MAX_LABELS * 5);
    jespan_set_sampler(NULL, NULL);
    jespan_close(span);
}

static void callback(void)
{
    const struct jespan_site site = {.name = "opened"};
    const struct jespan_label health[] = {{"tenant", "blue"}, {"route", "/health"}},
                              doc[] = {{"a", "b"}, {"route", "/doc"}};
    struct asked asked = {0};
    jespan_set_sampler(by_route, &asked);
    jespan_context_t unsampled = request("/health"), sampled = request("/doc");
    CHECK_EQ(asked.times, 2);
    CHECK(strcmp(ctl_span_text(unsampled, "kind"), "unsampled") == 0);
    CHECK(strcmp(ctl_span_text(sampled, "name"), "parse") == 0);
    CHECK(strcmp(ctl_span_text(asked.inside, "name"), "inside the sampler") == 0);
    jespan_span_t *left = jespan_open(&site, JESPAN_CURRENT, health, 2),
                  *taken = jespan_open(&site, JESPAN_ROOT, doc, 2);
    CHECK_EQ(asked.times, 4);
    CHECK_EQ(spans_context(left), unsampled);
    CHECK(spans_context(taken) != asked.inside && spans_context(taken) != unsampled);
    CHECK_EQ(ctl_span(asked.inside, "inuse_objects"), 0);
    jespan_set_sampler(NULL, NULL);
    jespan_span_t *same = jespan_open(&site, JESPAN_ROOT, doc, 2);
    /* The labels were those of the call, whatever the sampler opened. */
    CHECK_EQ(spans_context(taken), spans_context(same));
    CHECK(request("/health") != unsampled);
    CHECK_EQ(asked.times, 4);
    CHECK_EQ(spans_context(left), unsampled);
    jespan_close(left);
    jespan_close(taken);
    jespan_close(same);
    F(free)(asked.allocated);
    spans_check_sums("with a sampler of our own");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"allocations_go_to_the_root", allocations_go_to_the_root, NULL, "sampler:never"},
        {"handles_of_unsampled_spans", handles_of_unsampled_spans, NULL, "sampler:never"},
        {"inherited_everywhere", inherited_everywhere, NULL, "sampler_sites:left*=never"},
        {"to_the_root_with_ages", allocations_go_to_the_root, NULL, "sampler:never,age_period_s:1"},
        {"inherited_with_ages", inherited_everywhere, NULL, "sampler_sites:left*=never,age_period_s:1"},
        {"probability", probability, NULL, "sampler:0.25"},
        {"rate", rate, NULL, "sampler:200/s"},
        {"by_site", by_site, NULL, "sampler:always,sampler_sites:health=never|db.*=0/s"},
        {"nothing_configured", nothing_configured, NULL, NULL},
        {"callback", callback, NULL, NULL},
        {"callback_gets_valid_labels", callback_gets_valid_labels, NULL, "record_labels:kept"},
    };
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
