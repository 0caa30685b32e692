/* SPDX-License-Identifier: BSD-2-Clause */
/* /history: which contexts a sample has, events between samples, another program, and bounded memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../support/made_snapshot.h"
#include "exporters/http_answer.h"
#include "exporters/http_timeline.h"

#define SECOND_NS 1000000000u

/* ---- A host ---- */

static struct conf set;
static struct snapshot *made;
static uint64_t refusals, fired;

static struct snapshot *take(struct snapshot *old)
{
    (void)old;
    return made;
}

static int answer_name(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes)
{
    (void)old_bytes;
    (void)new_value;
    (void)new_bytes;
    if (strcmp(name, "spans.alerts.1.rule") == 0)
        *(const char **)old = "total > 1G";
    else if (strcmp(name, "spans.alerts.1.fired") == 0)
        *(uint64_t *)old = fired;
    else if (strcmp(name, "spans.alerts.count") == 0)
        *(uint64_t *)old = 1;
    else if (strcmp(name, "spans.stats.limit_refusals") == 0)
        *(uint64_t *)old = refusals;
    else
        return ENOENT;
    return 0;
}

static const struct service_host host = {.conf = &set, .snapshot = take, .mallctl = answer_name};
static struct http_source source;
static struct http_answer answer;
static uint64_t now_ns, due_ns;

static int set_up(void **state)
{
    (void)state;
    set = (struct conf){.http_history_s = 10};
    source = (struct http_source){.host = &host, .local = true, .pid = 7};
    now_ns = 1000 * (uint64_t)SECOND_NS;
    due_ns = refusals = fired = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    http_timeline_free(source.timeline);
    http_text_free(&answer.body);
    answer = (struct http_answer){0};
    return 0;
}

/* Takes a sample of the snapshot when it is due, and frees the snapshot. */
static void sample(struct snapshot *s)
{
    made = s;
    made->time_unix_ns = now_ns;
    now_ns = due_ns > now_ns ? due_ns : now_ns;
    http_history_tend(&source, now_ns, &due_ns);
    made_snapshot_free(made);
    now_ns += SECOND_NS;
}

static const char *ask(const char *since)
{
    http_text_free(&answer.body);
    answer = (struct http_answer){0};
    http_history_answer(&source, &(struct http_request){.method = "GET", .since = since}, &answer);
    http_text_bytes(&answer.body, "", 1);
    return answer.body.data;
}

static unsigned count(const char *text, const char *what)
{
    unsigned n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what))
        n++;
    return n;
}

/* ---- Tests ---- */

/* A small program has all its contexts in each sample, and each context once in the answer. */
static void test_samples(void **state)
{
    (void)state;
    assert_int_equal(count(ask(NULL), "\"time\":"), 0);
    for (int i = 0; i < 3; i++)
        sample(made_snapshot("small", 0));
    assert_int_equal(count(ask(NULL), "\"time\":"), 3);
    assert_non_null(strstr(answer.body.data, "\"figures\":[\"inuse_bytes\",\"inuse_objects\",\"outlived_bytes\",\"alloc_bytes\","));
    made = made_snapshot("small", 0);
    uint64_t all = 0;
    for (uint32_t i = 0; i < made->n_rows; i++)
        all += totals_inuse_bytes(&made->rows[i].totals);
    assert_int_equal(count(answer.body.data, "\"kind\":"), made->n_rows);
    char root[64]; /* the root comes first, and has everything */
    snprintf(root, sizeof root, "\"totals\":[[1,%llu,", (unsigned long long)all);
    assert_int_equal(count(answer.body.data, root), 3);
    made_snapshot_free(made);
}

/* A sample is taken when it is due, and not before. */
static void test_interval(void **state)
{
    (void)state;
    sample(made_snapshot("small", 0));
    assert_int_equal(due_ns, 1010 * (uint64_t)SECOND_NS);
    made = NULL; /* would be no memory */
    http_history_tend(&source, due_ns - 1, &due_ns);
    assert_int_equal(due_ns, 1010 * (uint64_t)SECOND_NS);
    set.http_history_s = 0;
    due_ns = 0;
    http_history_tend(&source, now_ns, &due_ns);
    assert_true(due_ns == UINT64_MAX);
    assert_int_equal(count(ask(NULL), "\"time\":"), 1);
}

static void test_since(void **state)
{
    static const char *const wrong[] = {"", "x", "-1", "1x", "1.5.5", "1e3", "99999999999"};
    (void)state;
    sample(made_snapshot("small", 0)); /* at 1000 s */
    sample(made_snapshot("small", 0)); /* at 1001 s */
    assert_int_equal(count(ask("0"), "\"time\":"), 2);
    assert_int_equal(count(ask("999.999999999"), "\"time\":"), 2);
    assert_int_equal(count(ask("1000"), "\"time\":"), 1);
    assert_int_equal(count(ask("1000.5"), "\"time\":"), 1);
    assert_int_equal(count(ask("1001"), "\"time\":"), 0);
    assert_int_equal(count(answer.body.data, "\"kind\":"), 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ask(wrong[i]);
        if (answer.status != 400)
            fail_msg("since=%s is answered with %u", wrong[i], answer.status);
    }
}

/* What a limit refused and what an alert did before the first sample is no event. */
static void test_events(void **state)
{
    (void)state;
    refusals = 5;
    sample(made_snapshot("small", 0));
    assert_non_null(strstr(ask(NULL), "\"events\":[]"));
    refusals = 8;
    sample(made_snapshot("small", 0));
    fired = 1;
    sample(made_snapshot("small", 0));
    assert_int_equal(count(ask(NULL), "\"events\":[]"), 1);
    assert_non_null(strstr(answer.body.data, "\"events\":[{\"kind\":\"limit\",\"text\":\"\",\"count\":3}]"));
    assert_non_null(strstr(answer.body.data, "\"events\":[{\"kind\":\"alert\",\"text\":\"total > 1G\",\"count\":1}]"));
}

/* A process that executes another program begins anew, with an event. Its counts are not those of the program before. */
static void test_exec(void **state)
{
    static const struct program other = {.start = 0};
    (void)state;
    refusals = 5;
    sample(made_snapshot("small", 0));
    struct snapshot *s = made_snapshot("small", 0);
    s->program = &other;
    s->time_unix_ns = now_ns;
    refusals = 6;
    sample(s);
    assert_int_equal(count(ask(NULL), "\"time\":"), 1);
    assert_non_null(strstr(answer.body.data, "\"events\":[{\"kind\":\"program\",\"text\":\"\",\"count\":1}]"));
}

/* Its memory may be that of the program before. The time when it began tells them apart. */
static void test_exec_at_same_address(void **state)
{
    static const struct program program;
    static const uint64_t began_s[] = {5000, 5000, 5001, 5001, 5001};
    (void)state;
    for (size_t i = 0; i < sizeof began_s / sizeof began_s[0]; i++) {
        struct snapshot *s = made_snapshot("small", 0);
        s->program = &program;
        s->start_unix_ns = began_s[i] * SECOND_NS;
        sample(s);
        assert_int_equal(count(ask(NULL), "\"time\":"), i < 2 ? i + 1 : i - 1);
    }
}

/* The largest contexts are there, with those above them. */
static void test_largest(void **state)
{
    (void)state;
    sample(made_snapshot("rows", 5000));
    assert_int_equal(count(ask(NULL), "\"kind\":"), TIMELINE_ROWS);
    assert_int_equal(count(answer.body.data, "\"parent\":0,"), 1);
    sample(made_snapshot("chain", 5000)); /* a row far down has no room with all above it */
    assert_true(count(ask(NULL), "\"kind\":") <= 2 * TIMELINE_ROWS);
    assert_int_equal(count(answer.body.data, "\"parent\":0,"), 1); /* both samples have the same root */
}

/* Contexts that are new in each sample take memory, and the oldest samples go. */
static void test_bounds(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2 * TIMELINE_SAMPLES; i++)
        sample(made_snapshot("small", 0));
    assert_int_equal(count(ask(NULL), "\"time\":"), TIMELINE_SAMPLES);
    assert_true(http_timeline_bytes(source.timeline) <= TIMELINE_BYTES);
    for (uint32_t i = 1; i <= 2 * TIMELINE_SAMPLES; i++) {
        struct snapshot *s = made_snapshot("rows", 100);
        for (uint32_t k = 0; k < s->n_rows; k++)
            ((struct snapshot_row *)s->rows)[k].generation = i;
        sample(s);
        assert_true(http_timeline_bytes(source.timeline) <= TIMELINE_BYTES);
    }
    unsigned n = count(ask(NULL), "\"time\":");
    assert_true(n > TIMELINE_SAMPLES / 4 && n < TIMELINE_SAMPLES);
    assert_int_equal(count(answer.body.data, "\"kind\":"), n * TIMELINE_ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_samples, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_interval, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_since, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_events, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exec, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_exec_at_same_address, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_largest, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bounds, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
