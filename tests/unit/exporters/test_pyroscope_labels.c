/* SPDX-License-Identifier: BSD-2-Clause */
/* The labels of a process's series: sources, precedence, and labels that servers would refuse. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "exporters/pyroscope_labels.h"

static struct conf configured;
static struct pyroscope_labels labels;

static int set_up(void **state)
{
    (void)state;
    memset(&configured, 0, sizeof configured);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    pyroscope_labels_free(&labels);
    return 0;
}

static void make(const char *app, const char *own, const char *attributes)
{
    strcpy(configured.pyroscope_app, app);
    strcpy(configured.pyroscope_labels, own);
    strcpy(configured.resource_attributes, attributes);
    pyroscope_labels_make(&labels, &(struct service_host){.conf = &configured, .pid = getpid(), .program = program_invocation_short_name});
}

static void expect(const char *name, const char *value)
{
    assert_string_equal(pyroscope_labels_get(&labels, name), value);
}

static void test_defaults(void **state)
{
    (void)state;
    char host[256] = "", pid[16];
    gethostname(host, sizeof host - 1);
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    make("", "", "");
    expect("service_name", program_invocation_short_name);
    expect("hostname", host);
    expect("pid", pid);
    assert_int_equal(labels.n, 3);
    assert_int_equal(labels.left_out, 0);
    assert_false(labels.malformed);
}

static void test_precedence(void **state)
{
    (void)state;
    make("", "region=eu|service_name=mine", "service.name=theirs|region=us|host.name=box");
    expect("service_name", "mine");
    expect("region", "eu");
    expect("hostname", "box");
    pyroscope_labels_free(&labels);
    make("app", "service_name=mine", "service.name=theirs");
    expect("service_name", "app");
}

static void test_attributes(void **state)
{
    (void)state;
    make("", "",
         "service.name=a%20b%2Cc|deployment.environment=prod|vcs.repository.url.full=https://x/y|vcs.ref.head.revision=abc");
    expect("service_name", "a b,c");
    expect("deployment_environment", "prod");
    expect("service_repository", "https://x/y");
    expect("service_git_ref", "abc");
    pyroscope_labels_free(&labels);
    make("", "percent=50%25", "");
    expect("percent", "50%25"); /* only attributes are encoded */
}

static void test_hostile(void **state)
{
    (void)state;
    make("", "=x|novalue|empty=|9lives=cat|a-b.c=d|__name__=evil|__session_id__=evil||k=v=w|bytes=\xff\xfe|%=p",
         "bad=%zz%4|nul=%00x");
    assert_true(labels.malformed);
    expect("_9lives", "cat");
    expect("a_b_c", "d");
    expect("__name__", "");
    expect("__session_id__", "");
    expect("k", "v=w");
    expect("empty", "");
    expect("bytes", "\xEF\xBF\xBD\xEF\xBF\xBD");
    expect("bad", "%zz%4");
    expect("nul", "x");
    for (size_t i = 0; i < labels.n; i++) {
        assert_int_equal(strspn(labels.pairs[i].name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789"),
                         strlen(labels.pairs[i].name));
        assert_true(i == 0 || strcmp(labels.pairs[i - 1].name, labels.pairs[i].name) < 0);
        assert_true(labels.pairs[i].value[0] != '\0');
    }
}

static void test_too_many(void **state)
{
    (void)state;
    char many[1024] = "";
    for (int i = 0; i < 60; i++)
        sprintf(many + strlen(many), "l%d=%d|", i, i);
    make("", many, "");
    assert_int_equal(labels.n, PYROSCOPE_MAX_LABELS);
    assert_int_equal(labels.left_out, 60 - (PYROSCOPE_MAX_LABELS - 3));
    expect("service_name", program_invocation_short_name);
    assert_true(pyroscope_labels_get(&labels, "pid")[0] != '\0');
}

/* Servers count the labels of samples too. With one label too many, they refuse the whole profile. */
static void test_places_for_series_labels(void **state)
{
    (void)state;
    char many[1024] = "";
    for (int i = 0; i < 60; i++)
        sprintf(many + strlen(many), "l%d=%d|", i, i);
    strcpy(configured.series_labels, "|route|tenant||");
    make("", many, "");
    assert_int_equal(labels.n, PYROSCOPE_MAX_LABELS - 2);
    pyroscope_labels_free(&labels);
    memset(configured.series_labels, '|', sizeof configured.series_labels - 1);
    for (size_t i = 0; i < sizeof configured.series_labels - 1; i += 2)
        configured.series_labels[i] = 'a';
    make("", many, "");
    assert_int_equal(labels.n, 3);
    expect("service_name", program_invocation_short_name);
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
    const struct CMUnitTest tests[] = {TEST(test_defaults), TEST(test_precedence), TEST(test_attributes),
                                       TEST(test_hostile), TEST(test_too_many),
                                       TEST(test_places_for_series_labels)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
