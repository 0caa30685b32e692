/* SPDX-License-Identifier: BSD-2-Clause */
/* Samplers: the configuration, how often each rule keeps a span, and which sampler is asked. Their effects are in
 * tests/integration/samplers.c. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/lock.h"
#include "conf/conf.h"
#include "malloc/track.h"
#include "span/sampler.h"
#include "span/tree.h"

#include "../../support/complaints.h"

#define DRAWS 1000000

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf = "thread_contexts:false";

static struct thread *self;

static int boot(void **state)
{
    (void)state;
    self = track_thread();
    return self ? 0 : -1;
}

static int nothing_configured(void **state)
{
    (void)state;
    strcpy(conf.sampler, "always");
    conf.sampler_sites[0] = '\0';
    sampler_set(NULL, NULL);
    sampler_boot();
    return 0;
}

/* Configures. Returns how many lines were written to stderr. */
static int configure(const char *all, const char *sites)
{
    char complaints[8192];
    struct complaints c = complaints_begin();
    strcpy(conf.sampler, all);
    strcpy(conf.sampler_sites, sites);
    sampler_boot();
    return complaints_end(&c, complaints, sizeof complaints);
}

static void test_what_can_be_written(void **state)
{
    static const struct {
        const char *text;
        enum sampler_kind kind;
        uint64_t threshold, per_second;
    } right[] = {
        {"always", SAMPLER_ALWAYS, 0, 0},
        {"never", SAMPLER_NEVER, 0, 0},
        {"1", SAMPLER_ALWAYS, 0, 0},
        {"1.000", SAMPLER_ALWAYS, 0, 0},
        {"0", SAMPLER_PROBABILITY, 0, 0},
        {"0.5", SAMPLER_PROBABILITY, (uint64_t)1 << 63, 0},
        {"0.25", SAMPLER_PROBABILITY, (uint64_t)1 << 62, 0},
        {"0.000000000000000001", SAMPLER_PROBABILITY, 18, 0},
        {"0.9999999999999999999999999", SAMPLER_PROBABILITY, UINT64_MAX - 18, 0},
        {"0/s", SAMPLER_RATE, 0, 0},
        {"100/s", SAMPLER_RATE, 0, 100},
        {"4294967295/s", SAMPLER_RATE, 0, UINT32_MAX},
    };
    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        struct sampler_rule rule = {.kind = SAMPLER_ALWAYS};
        assert_int_equal(sampler_parse(&rule, right[i].text), 0);
        assert_int_equal(rule.kind, right[i].kind);
        if (rule.kind == SAMPLER_PROBABILITY)
            assert_int_equal(rule.threshold, right[i].threshold);
        if (rule.kind == SAMPLER_RATE)
            assert_int_equal(rule.per_second, right[i].per_second);
    }
}

static void test_what_cannot(void **state)
{
    static const char *const wrong[] = {"", " ", "Always", "always ", "sometimes", "1.1", "2", "19", "0.5x",
                                        "-0.5", "+0.5", ".5",
                                        "0.", "0,5", "1e-3", "50%", "/s", "10/", "10/m", "10/ss", "0.5/s",
                                        "4294967296/s",
                                        "18446744073709551616/s", "-1/s", "1.0000000000000000001x", "inf", "nan"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct sampler_rule rule = {.kind = SAMPLER_NEVER, .threshold = 1, .per_second = 1};
        if (sampler_parse(&rule, wrong[i]) != -EINVAL || rule.kind != SAMPLER_NEVER)
            fail_msg("\"%s\" is taken", wrong[i]);
        assert_int_equal(configure(wrong[i], ""), 1);
    }
}

static unsigned yes(struct sampler_rule *rule, unsigned draws)
{
    unsigned n = 0;
    for (unsigned i = 0; i < draws; i++)
        n += sampler_rule_decides(rule, self, 0);
    return n;
}

/* Within 7 standard deviations, so it fails by chance once in 10^11 runs. */
static void test_probability(void **state)
{
    static const struct {
        const char *text;
        double expected, deviation;
    } cases[] = {{"0.5", 500000, 500},
                 {"0.01", 10000, 99.5}, {"0.999", 999000, 31.6}, {"0.0001", 100, 10}, {"0", 0, 0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sampler_rule rule;
        assert_int_equal(sampler_parse(&rule, cases[i].text), 0);
        double off = yes(&rule, DRAWS) - cases[i].expected;
        if (off > 7 * cases[i].deviation || off < -7 * cases[i].deviation)
            fail_msg("%s: off by %.0f of %d", cases[i].text, off, DRAWS);
    }
}

/* Runs of the same answer would keep the sum right. So this counts how often two neighbours are both sampled. */
static void test_draws_do_not_follow_from_each_other(void **state)
{
    struct sampler_rule rule;
    unsigned pairs = 0;
    (void)state;
    assert_int_equal(sampler_parse(&rule, "0.5"), 0);
    for (int i = 0; i < DRAWS; i++)
        pairs += yes(&rule, 2) == 2;
    assert_in_range(pairs, 250000 - 7 * 433, 250000 + 7 * 433);
}

/* With a block that is handed on, and with two threads. */
static void test_threads_draw_different_numbers(void **state)
{
    static struct thread other;
    struct sampler_rule rule;
    unsigned equal = 0;
    (void)state;
    assert_int_equal(sampler_parse(&rule, "0.5"), 0);
    other.sampler_draws = self->sampler_draws;
    for (int i = 0; i < 10000; i++)
        equal += sampler_rule_decides(&rule, self, 0) == sampler_rule_decides(&rule, &other, 0);
    assert_in_range(equal, 5000 - 7 * 50, 5000 + 7 * 50);
}

/* A forked child has the parent's block and so its place in the sequence. */
static void test_a_forked_child_draws_different_numbers(void **state)
{
    struct sampler_rule rule;
    bool before[1000];
    unsigned equal = 0;
    (void)state;
    assert_int_equal(sampler_parse(&rule, "0.5"), 0);
    uint64_t place = self->sampler_draws;
    for (int i = 0; i < 1000; i++)
        before[i] = sampler_rule_decides(&rule, self, 0);
    self->sampler_draws = place;
    sampler_after_fork();
    for (int i = 0; i < 1000; i++)
        equal += before[i] == sampler_rule_decides(&rule, self, 0);
    assert_in_range(equal, 500 - 7 * 16, 500 + 7 * 16);
}

static void test_rate_is_exact_in_each_second(void **state)
{
    struct sampler_rule rule = {.budget = (uint64_t)(UINT32_MAX - 4) << 32};
    (void)state;
    assert_int_equal(sampler_parse(&rule, "100/s"), 0);
    for (uint32_t second = UINT32_MAX - 3; second != 5; second++) { /* the seconds wrap around after 136 years */
        unsigned n = 0;
        for (int i = 0; i < 1000; i++)
            n += sampler_rule_decides(&rule, self, second);
        assert_int_equal(n, 100);
    }
    assert_false(sampler_rule_decides(&rule, self, 3)); /* this thread read the clock earlier */
    assert_int_equal(sampler_parse(&rule, "0/s"), 0);
    assert_false(sampler_rule_decides(&rule, self, 10));
}

static struct sampler_rule shared_rule;

static void *spend(void *unused)
{
    uintptr_t n = 0;
    (void)unused;
    for (uint32_t i = 0; i < 100000; i++)
        n += sampler_rule_decides(&shared_rule, NULL, 1 + i / 10000);
    return (void *)n;
}

/* Threads that see ten different seconds get at most ten budgets. */
static void test_rate_is_shared_by_threads(void **state)
{
    pthread_t threads[4];
    uintptr_t sum = 0;
    (void)state;
    assert_int_equal(sampler_parse(&shared_rule, "5000/s"), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, spend, NULL), 0);
    for (int i = 0; i < 4; i++) {
        void *n;
        pthread_join(threads[i], &n);
        sum += (uintptr_t)n;
    }
    assert_int_equal(sum, 50000); /* all of each budget: one thread alone asks for twice as many */
}

static bool declines(const char *name, jespan_context_t parent)
{
    const struct jespan_site site = {.name = name};
    return sampler_declines(self, parent, &site, NULL, 0);
}

static void test_sites_by_name(void **state)
{
    (void)state;
    assert_int_equal(configure("never", "db.query=never|db.*=always|x=y=always|exact=always|z*=0|*=never"), 0);
    assert_true(declines("db.query", JESPAN_ROOT));
    assert_false(declines("db.queryx", JESPAN_ROOT));
    assert_false(declines("db.", JESPAN_ROOT));
    assert_true(declines("db", JESPAN_ROOT));
    assert_false(declines("x=y", JESPAN_ROOT));
    assert_false(declines("exact", JESPAN_ROOT));
    assert_true(declines("exac", JESPAN_ROOT));
    assert_true(declines("exactly", JESPAN_ROOT));
    assert_true(declines("zzz", JESPAN_ROOT));
    assert_true(declines("", JESPAN_ROOT));
    assert_int_equal(configure("always", "a=never"), 0);
    assert_true(declines("a", JESPAN_CURRENT));
    assert_false(declines("ab", JESPAN_CURRENT));
}

/* Each wrong rule is named. The rules beside it apply. */
static void test_wrong_site_rules(void **state)
{
    (void)state;
    assert_int_equal(configure("always", "a=sometimes|b=never|c|=never||d=|e=never"), 4);
    assert_false(declines("a", JESPAN_ROOT));
    assert_true(declines("b", JESPAN_ROOT));
    assert_false(declines("c", JESPAN_ROOT));
    assert_false(declines("d", JESPAN_ROOT));
    assert_true(declines("e", JESPAN_ROOT));
    assert_int_equal(configure("rarely", "a=never"), 1);
    assert_false(declines("b", JESPAN_ROOT));
}

static void test_as_many_rules_as_fit(void **state)
{
    char text[CONF_STRING_BYTES] = "";
    (void)state;
    for (size_t n = 0; n + 5 < sizeof text; n += 4)
        strcpy(text + n, "a=0|");
    strcpy(text + sizeof text - 4, "b=0");
    assert_int_equal(configure("always", text), 0);
    assert_true(declines("a", JESPAN_ROOT));
    assert_true(declines("b", JESPAN_ROOT));
    assert_false(declines("c", JESPAN_ROOT));
}

static uint32_t intern(enum context_kind kind, const char *name)
{
    const struct jespan_site site = {.name = name};
    lock(LOCK_TREE);
    uint32_t id = tree_intern(CONTEXT_ID_ROOT, kind, &site, NULL);
    unlock(LOCK_TREE);
    return id;
}

/* With a sampler that declines everything. */
static void test_only_roots_are_decided(void **state)
{
    (void)state;
    assert_int_equal(configure("never", ""), 0);
    assert_true(declines("a", JESPAN_ROOT));
    assert_true(declines("a", JESPAN_CURRENT));
    assert_true(declines("a", intern(CONTEXT_THREAD, "thread:of another")));
    assert_true(declines("a", CONTEXT_ID_UNSAMPLED));
    assert_false(declines("a", intern(CONTEXT_SPAN, "a span")));
    assert_false(declines("a", CONTEXT_ID_SELF));
    assert_false(declines("a", 1000)); /* the caller finds out by itself */
    assert_false(declines("a", JESPAN_INVALID));
    assert_int_equal(configure("always", ""), 0);
    assert_true(declines("a", CONTEXT_ID_UNSAMPLED)); /* whatever the sampler would say */
}

struct asked {
    unsigned times;
    int answer;
    const char *name;
    size_t n_labels;
    bool again;
};

static int ask(const struct jespan_site *site, const struct jespan_label *labels, size_t n_labels, void *user)
{
    struct asked *asked = user;
    asked->times++;
    asked->name = site->name;
    asked->n_labels = n_labels;
    if (n_labels)
        assert_string_equal(labels[n_labels - 1].value, "last");
    asked->again = declines("inside", JESPAN_ROOT);
    errno = 12345;
    return asked->answer;
}

static void test_the_callback_comes_first(void **state)
{
    const struct jespan_site site = {.name = "site"};
    const struct jespan_label labels[] = {{"a", "first"}, {"b", "last"}};
    struct asked asked = {.answer = 0}, other = {.answer = -1};
    (void)state;
    assert_int_equal(configure("always", "site=always"), 0);
    sampler_set(ask, &asked);
    errno = 1;
    assert_true(sampler_declines(self, JESPAN_ROOT, &site, labels, 2));
    assert_int_equal(errno, 1);
    assert_int_equal(asked.times, 1); /* it is not asked for the inner span, which is sampled */
    assert_false(asked.again);
    assert_string_equal(asked.name, "site");
    assert_int_equal(asked.n_labels, 2);
    sampler_set(ask, &other);
    assert_false(sampler_declines(self, JESPAN_ROOT, &site, labels, 2));
    assert_int_equal(other.times, 1);
    sampler_set(NULL, NULL);
    assert_false(declines("site", JESPAN_ROOT));
    assert_int_equal(asked.times + other.times, 2);
}

#define SAMPLER_TEST(function) cmocka_unit_test_setup(function, nothing_configured)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SAMPLER_TEST(test_what_can_be_written),
        SAMPLER_TEST(test_what_cannot),
        SAMPLER_TEST(test_probability),
        SAMPLER_TEST(test_draws_do_not_follow_from_each_other),
        SAMPLER_TEST(test_threads_draw_different_numbers),
        SAMPLER_TEST(test_a_forked_child_draws_different_numbers),
        SAMPLER_TEST(test_rate_is_exact_in_each_second),
        SAMPLER_TEST(test_rate_is_shared_by_threads),
        SAMPLER_TEST(test_sites_by_name),
        SAMPLER_TEST(test_wrong_site_rules),
        SAMPLER_TEST(test_as_many_rules_as_fit),
        SAMPLER_TEST(test_only_roots_are_decided),
        SAMPLER_TEST(test_the_callback_comes_first),
    };
    return cmocka_run_group_tests(tests, boot, NULL);
}
