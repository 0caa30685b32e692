/* SPDX-License-Identifier: BSD-2-Clause */
/* The configuration: every key of the table, and hostile strings. tests/integration/conf.sh checks the output word
 * for word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/conf.h"

#include "../../support/complaints.h"

extern const char *jespan_conf; /* weak in conf.c */
const char *jespan_conf;

static char complaints[8192];
static unsigned long secure; /* the kernel's answer for a setuid program */

/* This replaces libc's function. Only the configuration calls it here. */
unsigned long getauxval(unsigned long type)
{
    return type == AT_SECURE ? secure : 0;
}

/* Reads the text, or with NULL all that is read at start. The messages are in `complaints`. Returns their number of
 * lines. */
static int parse(const char *text)
{
    struct complaints c = complaints_begin();
    if (text)
        conf_parse(text, "HERE");
    else
        conf_boot();
    return complaints_end(&c, complaints, sizeof complaints);
}

static const void *value_of(const struct conf_key *key)
{
    return (const char *)&conf + key->offset;
}

/* Secrets and URLs are strings too. */
static bool is_text(const struct conf_key *key)
{
    return key->type == CONF_STRING || key->type == CONF_SECRET || key->type == CONF_URL;
}

static int parse_number(const struct conf_key *key, uint64_t n)
{
    char text[64];
    snprintf(text, sizeof text, "%s:%llu", key->name, (unsigned long long)n);
    return parse(text);
}

static int parse_text(const struct conf_key *key, const char *value)
{
    static char text[3 * CONF_STRING_BYTES];
    snprintf(text, sizeof text, "%s:%s", key->name, value);
    return parse(text);
}

static int defaults(void **state)
{
    (void)state;
    unsetenv("JESPAN_CONF");
    unsetenv("PYROSCOPE_SERVER_ADDRESS");
    jespan_conf = NULL;
    secure = 0;
    memset(&conf, 0x55, sizeof conf);
    conf_boot();
    return 0;
}

/* All bytes are 0x55 before, so a key without a default is noticed. */
static void test_defaults(void **state)
{
    (void)state;
    assert_int_equal(conf.max_contexts, 131072);
    assert_int_equal(conf.dump_interval_s, 0);
    assert_int_equal(conf.dump_keep, 0);
    assert_int_equal(conf.shutdown_timeout_ms, 10000);
    assert_int_equal(conf.reporter_interval_ms, 10000);
    assert_true(conf.thread_contexts);
    assert_int_equal(conf.track_time, TRACK_TIME_CPU);
    assert_int_equal(conf.cpu_clock, 0);
    assert_false(conf.dump_at_exit || conf.dump_time || conf.follow_fork || conf.confirm_conf);
    assert_string_equal(conf.dump_dir, "");
    assert_string_equal(conf.sampler, "always");
    assert_string_equal(conf.sampler_sites, "");
    assert_string_equal(conf.reporters, "");
    assert_string_equal(conf.module_dir, JESPAN_MODULE_DIR);
    assert_string_equal(conf.pyroscope_url, "");
    assert_string_equal(conf.http_listen, "");
    assert_int_equal(conf.pyroscope_api, PYROSCOPE_PUSH);
    assert_int_equal(conf.pyroscope_interval_ms, 15000);
    assert_false(conf.pyroscope_insecure);
}

static void check_number(const struct conf_key *key)
{
    const uint64_t right[] = {key->minimum, key->minimum + 1, key->maximum - 1, key->maximum};
    const uint64_t wrong[] = {key->maximum + 1, key->maximum < UINT32_MAX ? UINT32_MAX : key->maximum + 2, UINT64_MAX, key->minimum - 1};
    const char *const too_big[] = {"18446744073709551616", "18446744073709551716"}; /* 2^64, and 100 more */
    for (int i = 0; i < 4; i++) {
        assert_int_equal(parse_number(key, right[i]), 0);
        assert_int_equal(*(const uint64_t *)value_of(key), right[i]);
    }
    for (int i = 0; i < 2; i++)
        assert_int_equal(parse_text(key, too_big[i]), 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(parse_number(key, wrong[i]), 1);
        assert_int_equal(*(const uint64_t *)value_of(key), key->maximum);
    }
}

static void check_bool(const struct conf_key *key)
{
    for (int i = 0; i < 4; i++) {
        assert_int_equal(parse_text(key, i % 2 ? "true" : "false"), 0);
        assert_int_equal(*(const bool *)value_of(key), i % 2);
    }
    assert_int_equal(parse_text(key, "false "), 1);
    assert_int_equal(parse_text(key, "0"), 1);
    assert_true(*(const bool *)value_of(key));
}

/* Each choice is set by its whole name, and by nothing else. */
static void check_choice(const struct conf_key *key)
{
    char names[128], *rest = names;
    uint64_t n = 0;
    strcpy(names, key->choices);
    for (char *name; (name = strsep(&rest, "|")); n++) {
        assert_int_equal(parse_text(key, name), 0);
        assert_int_equal(*(const uint64_t *)value_of(key), n);
    }
    assert_true(n > 1);
    const char *const wrong[] = {"", "0", "of", "offf", "au", "off|wall", key->choices};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(parse_text(key, wrong[i]), 1);
    assert_int_equal(*(const uint64_t *)value_of(key), n - 1);
}

static void check_string(const struct conf_key *key)
{
    char longest[CONF_STRING_BYTES + 1];
    memset(longest, 'x', sizeof longest);
    longest[CONF_STRING_BYTES] = '\0';
    assert_int_equal(parse_text(key, "/a: b:\xff"), 0);
    assert_string_equal(value_of(key), "/a: b:\xff");
    assert_int_equal(parse_text(key, longest), 1);
    assert_string_equal(value_of(key), "/a: b:\xff");
    longest[CONF_STRING_BYTES - 1] = '\0';
    assert_int_equal(parse_text(key, longest), 0);
    assert_string_equal(value_of(key), longest);
    assert_int_equal(parse_text(key, ""), 0);
    assert_string_equal(value_of(key), "");
}

/* Right and wrong values of each key. A wrong value is named, leaves the key's value as it is, and changes no other
 * key. */
static void test_every_key(void **state)
{
    (void)state;
    for (const struct conf_key *key = conf_keys; key->name; key++) {
        defaults(NULL);
        struct conf others = conf;
        if (key->type == CONF_NUMBER)
            check_number(key);
        else if (key->type == CONF_BOOL)
            check_bool(key);
        else if (key->type == CONF_CHOICE)
            check_choice(key);
        else
            check_string(key);
        assert_int_equal(parse_text(key, "\x01,"), is_text(key) ? 0 : 1);
        assert_true(is_text(key) || strstr(complaints, key->name));
        size_t bytes = is_text(key) ? CONF_STRING_BYTES : key->type == CONF_BOOL ? 1 : 8;
        memcpy((char *)&others + key->offset, value_of(key), bytes);
        assert_memory_equal(&others, &conf, sizeof conf);
        assert_true(key->help && key->help[0]);
    }
}

static void test_names_must_be_whole(void **state)
{
    static const char *const wrong[] = {
        "max_context:100",  "max_contextss:100", " max_contexts:100", "max_contexts :100",
        "MAX_CONTEXTS:100", "max_contexts=100",  ":100",              ":",
    };
    (void)state;
    struct conf before = conf;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(parse(wrong[i]), 1);
        assert_memory_equal(complaints, "jespan: HERE: ", 14);
        assert_memory_equal(&before, &conf, sizeof conf);
    }
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 16;
}

/* Pieces of right texts in a wrong order. All values stay within the bounds of the table. */
static void test_hostile_strings(void **state)
{
    static const char *const pieces[] = {":", ",", "::", ",,", "true", "false", "0", "9999999999", "-", "\xff", "%s%n",
                                         "\n", "dump_dir", "x"};
    static char text[5000];
    uint32_t seed = 1;
    (void)state;
    for (int i = 0; i < 3000; i++) {
        size_t used = 0, limit = next_random(&seed) % (i % 50 ? 200 : sizeof text - 64);
        while (used < limit) {
            uint32_t n = next_random(&seed) % 24;
            const char *piece = n < 14 ? pieces[n] : conf_keys[n - 14].name;
            used += (size_t)sprintf(text + used, "%s", piece ? piece : "?");
        }
        text[used] = '\0';
        parse(text);
        for (const struct conf_key *key = conf_keys; key->name; key++)
            if (key->type == CONF_NUMBER)
                assert_in_range(*(const uint64_t *)value_of(key), key->minimum, key->maximum);
            else if (is_text(key))
                assert_true(strnlen(value_of(key), CONF_STRING_BYTES) < CONF_STRING_BYTES);
    }
}

/* Pairs around the longest one that is read. A sanitizer sees a write beside the buffer. */
static void test_lengths(void **state)
{
    static char text[CONF_STRING_BYTES + 200];
    (void)state;
    for (size_t n = CONF_STRING_BYTES - 5; n < CONF_STRING_BYTES + 100; n++) {
        memset(text, 'x', n);
        memcpy(text, "dump_dir:", 9);
        strcpy(text + n, ",dump_keep:7");
        conf.dump_keep = 0;
        assert_int_equal(parse(text), n - 9 < CONF_STRING_BYTES ? 0 : 1);
        assert_int_equal(strlen(conf.dump_dir), n - 9 < CONF_STRING_BYTES ? n - 9 : CONF_STRING_BYTES - 1);
        assert_int_equal(conf.dump_keep, 7);
    }
}

static void test_boot_reads_symbol_then_environment(void **state)
{
    (void)state;
    jespan_conf = "max_contexts:100,dump_keep:3";
    setenv("JESPAN_CONF", "dump_keep:4,dump_interval_s:5", 1);
    conf_boot();
    assert_int_equal(conf.max_contexts, 100);
    assert_int_equal(conf.dump_keep, 4);
    assert_int_equal(conf.dump_interval_s, 5);
}

/* The order is jespan_conf, then variables of other projects, then JESPAN_CONF. */
static void test_precedence_of_variables(void **state)
{
    (void)state;
    jespan_conf = "pyroscope_url:http://symbol";
    conf_boot();
    assert_string_equal(conf.pyroscope_url, "http://symbol");
    setenv("PYROSCOPE_SERVER_ADDRESS", "http://variable", 1);
    conf_boot();
    assert_string_equal(conf.pyroscope_url, "http://variable");
    setenv("JESPAN_CONF", "pyroscope_url:http://own", 1);
    conf_boot();
    assert_string_equal(conf.pyroscope_url, "http://own");
    setenv("JESPAN_CONF", "pyroscope_url:", 1);
    conf_boot();
    assert_string_equal(conf.pyroscope_url, "");
}

/* A setuid program writes and sends nothing, also if jespan_conf asks for it. It reads nothing from the environment. */
static void test_setuid(void **state)
{
    (void)state;
    secure = 1;
    jespan_conf = "dump_dir:/a,reporters:a,pyroscope_url:http://a,http_listen:127.0.0.1:1,dump_keep:3";
    setenv("JESPAN_CONF", "dump_keep:4,pyroscope_url:http://a", 1);
    setenv("PYROSCOPE_SERVER_ADDRESS", "http://a", 1);
    conf_boot();
    assert_string_equal(conf.dump_dir, "");
    assert_string_equal(conf.reporters, "");
    assert_string_equal(conf.pyroscope_url, "");
    assert_string_equal(conf.http_listen, "");
    assert_int_equal(conf.dump_keep, 3);
}

/* No message has a part of a secret in it, whatever is wrong with the secret or beside it. */
static void test_secrets_are_not_said(void **state)
{
    static char text[3 * CONF_STRING_BYTES], too_long[2 * CONF_STRING_BYTES];
    static const char *const keys[] = {"pyroscope_password", "pyroscope_token", "pyroscope_headers", "http_token",
                                       "pyroscope_url", "pyroscope_proxy"};
    static const char *const wrong[] = {
        "%s:a,hunter2", "%s:a,hunter2,hunter3", "%s:a,b:hunter2", "%s:a,hunter:b", "%s:a,=hunter", "%s:,hunter2",
        "%s=hunter2", "%s=hunter2:hunter3", "%s=hunter2,max_contexts:100", "%s:a,b=hunter2,c=hunter3:d",
        "%s hunter2", "%s\thunter2", "%s;hunter2", "%s = hunter2", "%shunter2", "%shunter", "%s-hunter2", " %s hunter",
        "%s hunter:a", "%shunter:a", "max_contexts:100 %s:hunter2", "max_contexts:100;%s=hunter2", "limit:a=1M %s hunter",
        "pyroscope_api:push;%s:hunter2", "confirm_conf:true;%s:hunter2", "dump_dir:/tmp;%s=hunter2"};
    static const char *const misspelled[] = {
        "pyroscope_tokn:hunter2", "pyroscope_tokn hunter2", "pyroscope_tokn=hunter", "pyroscope_tokn:a,hunter",
        "pyroscope_tokn:a,hunter:b", "PYROSCOPE_TOKEN:hunter2", "hunter2:pyroscope_token", "{\"pyroscope_token\":\"hunter2\"}",
        "--pyroscope_token=hunter2", "pyroscope.token:hunter2", "pyroscope_insecure:hunter2", "pyroscope_api:hunter2",
        "pyroscope_interval_ms:hunter2", "http_max_series:hunter2", "max_contexts:1;pyroscope_tokn:hunter2"};
    (void)state;
    memset(too_long, 'x', sizeof too_long - 1);
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        for (size_t j = 0; j < sizeof wrong / sizeof wrong[0]; j++) {
            snprintf(text, sizeof text, wrong[j], keys[i]);
            assert_true(parse(text) > 0);
            if (strstr(complaints, "hunter") || !strstr(complaints, keys[i]))
                fail_msg("of %s is said: %s", text, complaints);
        }
        snprintf(text, sizeof text, "%s:%s,hunter2", keys[i], too_long);
        assert_int_equal(parse(text), 2);
        assert_null(strstr(complaints, "hunter"));
        assert_null(strstr(complaints, "xxx"));
    }
    for (size_t i = 0; i < sizeof misspelled / sizeof misspelled[0]; i++) {
        assert_true(parse(misspelled[i]) > 0);
        if (strstr(complaints, "hunter"))
            fail_msg("of %s is said: %s", misspelled[i], complaints);
    }
}

/* How confirm_conf shows a URL, and a URL whose password has a comma. */
static void test_secrets_are_not_confirmed(void **state)
{
    static const char *const urls[][2] = {
        {"http://host:1/p?q=a@b#c@d", "http://***@d"}, /* more than need be */
        {"http://me:hunter2@host/@x", "http://***@x"},
        {"http:/me:hunter2@host", "***@host"},
        {"http:///me:hunter2@host", "http://***@host"},
        {"http://me:hun/hunter2@host", "http://***@host"},
        {"me:hunter://2@host", "***@host"},
        {"http://me@hunter@2@host", "http://***@host"},
        {"me:hunter2@host:80/x", "***@host:80/x"},
        {"http://me:hunter,2@host", ""},
        {"http://me:hunter,a:2@host", ""},
        {"://hunter@", "://***@"},
        {"http://host/?key=hunter2", "http://***"},
        {"http://me:hunter2%40host:1", "http://***"},
        {"http://me:hunter2", "http://***"},
        {"hunter2", "***"},
        {"host:80/x", "host:80/x"},
        {"http://[::1]:80/", "http://[::1]:80/"},
        {"", ""},
    };
    char conf_text[256], expected[256];
    (void)state;
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        snprintf(conf_text, sizeof conf_text, "confirm_conf:true,pyroscope_password:hunter2,http_token:hunter2,"
                 "pyroscope_token:hunter2,pyroscope_headers:A=hunter2,pyroscope_url:%s", urls[i][0]);
        setenv("JESPAN_CONF", conf_text, 1);
        parse(NULL);
        assert_null(strstr(complaints, "hunter"));
        snprintf(expected, sizeof expected, "jespan: pyroscope_url:%s\n", urls[i][1]);
        assert_non_null(strstr(complaints, expected));
        assert_non_null(strstr(complaints, "jespan: http_token:***\n"));
    }
    assert_string_equal(conf.http_token, "hunter2");
    assert_non_null(strstr(complaints, "jespan: pyroscope_user:\n"));
}

/* Lists are read when something uses them, but their errors are named at the start. */
static void test_lists_are_checked_at_the_start(void **state)
{
    (void)state;
    setenv("JESPAN_CONF", "pyroscope_labels:a=b|c,resource_attributes:=d||e=f,pyroscope_headers:A hunter2|B c=d", 1);
    assert_int_equal(parse(NULL), 4);
    assert_string_equal(complaints, "jespan: pyroscope_labels: item 2 is not NAME=VALUE and is ignored\n"
                                    "jespan: resource_attributes: item 1 is not NAME=VALUE and is ignored\n"
                                    "jespan: pyroscope_headers: item 1 is not NAME=VALUE; nothing can be pushed with it\n"
                                    "jespan: pyroscope_headers: item 2 is not NAME=VALUE; nothing can be pushed with it\n");
}

/* A program may change its directory later. */
static void test_a_relative_dump_dir_becomes_absolute(void **state)
{
    char here[CONF_STRING_BYTES], absolute[CONF_STRING_BYTES + 16];
    (void)state;
    assert_non_null(getcwd(here, sizeof here));
    snprintf(absolute, sizeof absolute, "%s/some/dir", here);
    setenv("JESPAN_CONF", "dump_dir:some/dir", 1);
    conf_boot();
    assert_string_equal(conf.dump_dir, absolute);
    setenv("JESPAN_CONF", "dump_dir:/some/dir", 1);
    conf_boot();
    assert_string_equal(conf.dump_dir, "/some/dir");
}

/* A program may change its directory before the socket exists. A path that gets too long for a socket stays relative. */
static void test_a_relative_socket_becomes_absolute(void **state)
{
    char directory[1024], expected[2048], conf_text[2100], before[1024];
    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir("/tmp"), 0);
    assert_non_null(getcwd(directory, sizeof directory));
    snprintf(expected, sizeof expected, "unix:%s/some/socket", directory);
    setenv("JESPAN_CONF", "http_listen:unix:some/socket", 1);
    conf_boot();
    assert_string_equal(conf.http_listen, expected);
    setenv("JESPAN_CONF", "http_listen:unix:/some/socket", 1);
    conf_boot();
    assert_string_equal(conf.http_listen, "unix:/some/socket");
    setenv("JESPAN_CONF", "http_listen:unix:", 1);
    conf_boot();
    assert_string_equal(conf.http_listen, "unix:");
    snprintf(expected, sizeof expected, "unix:%0105d", 1); /* with "/tmp/" in front 110 bytes */
    snprintf(conf_text, sizeof conf_text, "http_listen:%s", expected);
    setenv("JESPAN_CONF", conf_text, 1);
    conf_boot();
    assert_string_equal(conf.http_listen, expected);
    assert_int_equal(chdir(before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_defaults, defaults),
        cmocka_unit_test_setup(test_every_key, defaults),
        cmocka_unit_test_setup(test_names_must_be_whole, defaults),
        cmocka_unit_test_setup(test_hostile_strings, defaults),
        cmocka_unit_test_setup(test_lengths, defaults),
        cmocka_unit_test_setup(test_boot_reads_symbol_then_environment, defaults),
        cmocka_unit_test_setup(test_precedence_of_variables, defaults),
        cmocka_unit_test_setup(test_setuid, defaults),
        cmocka_unit_test_setup(test_secrets_are_not_said, defaults),
        cmocka_unit_test_setup(test_secrets_are_not_confirmed, defaults),
        cmocka_unit_test_setup(test_lists_are_checked_at_the_start, defaults),
        cmocka_unit_test_setup(test_a_relative_dump_dir_becomes_absolute, defaults),
        cmocka_unit_test_setup(test_a_relative_socket_becomes_absolute, defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
