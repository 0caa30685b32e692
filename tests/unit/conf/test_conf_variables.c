/* SPDX-License-Identifier: BSD-2-Clause */
/* Environment variables that other projects defined: which key each one sets, how lists and times are read, and
 * hostile values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "conf/conf.h"

static const char *name_set, *value_set; /* the only variable */
static char complaints[8192];

static const char *one_variable(const char *name)
{
    return name_set && strcmp(name, name_set) == 0 ? value_set : NULL;
}

/* Calls conf_variables_read() with one variable. Returns the number of lines of its messages. */
static int read_variable(const char *name, const char *value)
{
    FILE *to = tmpfile();
    int saved = dup(STDERR_FILENO), lines = 0;
    assert_true(to && saved >= 0 && dup2(fileno(to), STDERR_FILENO) >= 0);
    name_set = name;
    value_set = value;
    conf_variables_read(one_variable);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    rewind(to);
    complaints[fread(complaints, 1, sizeof complaints - 1, to)] = '\0';
    fclose(to);
    for (const char *p = complaints; (p = strchr(p, '\n')); p++)
        lines++;
    return lines;
}

static int clear(void **state)
{
    (void)state;
    memset(&conf, 0, sizeof conf);
    return 0;
}

/* Checks that the variable sets this field and no other. */
static void check_sets(const char *name, const char *value, char *field, const char *expected)
{
    struct conf others;
    memset(&conf, 0, sizeof conf);
    assert_int_equal(read_variable(name, value), 0);
    assert_string_equal(field, expected);
    others = conf;
    memset((char *)&others + (field - (char *)&conf), 0, CONF_STRING_BYTES);
    for (size_t i = 0; i < sizeof others; i++)
        assert_int_equal(((const char *)&others)[i], 0);
}

static void check_refused(const char *name, const char *value, char *field)
{
    strcpy(field, "before");
    if (read_variable(name, value) != 1)
        fail_msg("%s=%s is taken as \"%s\"", name, value, field);
    assert_non_null(strstr(complaints, name));
    assert_string_equal(field, "before");
}

static void test_each_variable(void **state)
{
    (void)state;
    check_sets("PYROSCOPE_SERVER_ADDRESS", "http://a,b:4040", conf.pyroscope_url, "http://a,b:4040");
    check_sets("PYROSCOPE_APPLICATION_NAME", "an app", conf.pyroscope_app, "an app");
    check_sets("OTEL_SERVICE_NAME", "an app", conf.pyroscope_app, "an app");
    check_sets("PYROSCOPE_BASIC_AUTH_USER", "me", conf.pyroscope_user, "me");
    check_sets("PYROSCOPE_BASIC_AUTH_PASSWORD", "a,b:c", conf.pyroscope_password, "a,b:c");
    check_sets("PYROSCOPE_AUTH_TOKEN", "t", conf.pyroscope_token, "t");
    check_sets("PYROSCOPE_TENANT_ID", "7", conf.pyroscope_tenant, "7");
    check_sets("PYROSCOPE_LABELS", "a=1,b=2", conf.pyroscope_labels, "a=1|b=2");
    check_sets("PYROSCOPE_HTTP_HEADERS", "{\"X-A\":\"1\"}", conf.pyroscope_headers, "X-A=1");
    check_sets("OTEL_RESOURCE_ATTRIBUTES", "a=1,b=2", conf.resource_attributes, "a=1|b=2");
    check_sets("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", "http://a:4318", conf.otlp_url, "http://a:4318");
    check_sets("OTEL_EXPORTER_OTLP_PROFILES_HEADERS", "a=1, b=2,", conf.otlp_headers, "a=1|b=2");
    check_sets("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Basic%20YTpi", conf.otlp_headers, "Authorization=Basic YTpi");
    check_sets("OTEL_EXPORTER_OTLP_CERTIFICATE", "/ca", conf.otlp_ca_file, "/ca");
    check_sets("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE", "/cert", conf.otlp_cert_file, "/cert");
    check_sets("OTEL_EXPORTER_OTLP_CLIENT_KEY", "/key", conf.otlp_key_file, "/key");
    read_variable("OTEL_EXPORTER_OTLP_ENDPOINT", "http://a");
    assert_string_equal(conf.otlp_url, "");
    read_variable("PYROSCOPE_SERVER_ADDRESSES", "http://a");
    assert_string_equal(conf.pyroscope_url, "");
}

static const char *two_names(const char *name)
{
    return strcmp(name, "OTEL_SERVICE_NAME") == 0            ? "otel"
           : strcmp(name, "PYROSCOPE_APPLICATION_NAME") == 0 ? "pyroscope"
                                                             : NULL;
}

static void test_pyroscopes_own_name_wins(void **state)
{
    (void)state;
    conf_variables_read(two_names);
    assert_string_equal(conf.pyroscope_app, "pyroscope");
}

/* Headers for all signals may be those of another exporter, so nothing is said of them. */
static void test_headers(void **state)
{
    static const char *const wrong[] = {"a", "=1", "a=1,b", "a=1|2", "a=%7C", "a=1,%3D=2"};
    char long_value[CONF_STRING_BYTES + 1];
    (void)state;
    memset(long_value, 'x', sizeof long_value - 1);
    memcpy(long_value, "a=", 2);
    long_value[sizeof long_value - 1] = '\0';
    for (size_t i = 0; i <= sizeof wrong / sizeof *wrong; i++) {
        const char *value = i < sizeof wrong / sizeof *wrong ? wrong[i] : long_value;
        check_refused("OTEL_EXPORTER_OTLP_PROFILES_HEADERS", value, conf.otlp_headers);
        assert_int_equal(read_variable("OTEL_EXPORTER_OTLP_HEADERS", value), 0);
        assert_string_equal(conf.otlp_headers, "before");
    }
}

static void test_empty_is_unset(void **state)
{
    (void)state;
    strcpy(conf.pyroscope_app, "before");
    assert_int_equal(read_variable("PYROSCOPE_APPLICATION_NAME", ""), 0);
    assert_string_equal(conf.pyroscope_app, "before");
}

static void test_json(void **state)
{
    static const char *const right[][2] = {
        {"{}", ""},
        {" {\t} \n", ""},
        {"{ \"a\" : \"b\" , \"c\":\"d, e\" }", "a=b|c=d, e"},
        {"{\"a\":\"\\\"\\\\\\/\"}", "a=\"\\/"},
        {"{\"a\":\"\"}", "a="},
        {"{\"a\":\"\xc3\xbc}\"}", "a=\xc3\xbc}"},
    };
    static const char *const wrong[] = {
        "{", "}", "[]", "\"a\"", "a=b", "{\"a\"}", "{\"a\":}", "{\"a\":1}", "{\"a\":null}", "{\"a\":\"b\"",
        "{\"a\":\"b", "{\"a\":\"b\",}", "{,\"a\":\"b\"}", "{\"a\":\"b\"\"c\":\"d\"}", "{\"a\":\"b\"};", "{\"a\":\"b\\",
        "{\"a\":\"\\n\"}", "{\"a\":\"\\u0041\"}", "{\"a\":\"x|y\"}", "{\"a|b\":\"x\"}",
        "{\"a\":\"x\ny\"}", "{\"a\":{\"b\":\"c\"}}",
        "{a:\"b\"}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++)
        check_sets("PYROSCOPE_HTTP_HEADERS", right[i][0], conf.pyroscope_headers, right[i][1]);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        check_refused("PYROSCOPE_HTTP_HEADERS", wrong[i], conf.pyroscope_headers);
}

static void test_durations(void **state)
{
    static const struct {
        const char *text;
        uint64_t ms;
    } right[] = {{"15s", 15000}, {"15", 15000}, {"500ms", 500}, {"2m", 120000}, {"24h", 86400000}, {"10ms", 10},
                 {"00000001s", 1000}};
    static const char *const wrong[] = {"s", "-1s", "+1s", " 1s", "1 s", "1s ", "1.5s", "1m30s", "1d", "1S", "0", "9ms",
                                        "25h", "1000000000s", "99999999999999999999", "0x10", "soon", "1\n"};
    (void)state;
    for (size_t i = 0; i < sizeof right / sizeof right[0]; i++) {
        assert_int_equal(read_variable("PYROSCOPE_UPLOAD_INTERVAL", right[i].text), 0);
        assert_int_equal(conf.pyroscope_interval_ms, right[i].ms);
    }
    conf.pyroscope_interval_ms = 77;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(read_variable("PYROSCOPE_UPLOAD_INTERVAL", wrong[i]), 1);
        assert_non_null(strstr(complaints, "PYROSCOPE_UPLOAD_INTERVAL"));
        assert_int_equal(conf.pyroscope_interval_ms, 77);
    }
}

/* Values around the longest one. A sanitizer sees a write beside the buffer. Pairs that fit are kept whole. */
static void test_lengths(void **state)
{
    static char text[3 * CONF_STRING_BYTES];
    (void)state;
    for (size_t n = CONF_STRING_BYTES - 12; n < CONF_STRING_BYTES + 12; n++) {
        memset(text, 'x', n);
        text[n] = '\0';
        memset(&conf, 0, sizeof conf);
        assert_int_equal(read_variable("PYROSCOPE_AUTH_TOKEN", text), n < CONF_STRING_BYTES ? 0 : 1);
        assert_int_equal(strlen(conf.pyroscope_token), n < CONF_STRING_BYTES ? n : 0);
        memcpy(text, "k=v,", 4);
        assert_int_equal(read_variable("PYROSCOPE_LABELS", text), 0);
        assert_int_equal(strlen(conf.pyroscope_labels), n < CONF_STRING_BYTES ? n : 3);
        memset(text, 'x', n);
        memcpy(text, "{\"a\":\"", 6);
        memcpy(text + n, "\"}", 3); /* n - 6 bytes after "a=" */
        assert_int_equal(read_variable("PYROSCOPE_HTTP_HEADERS", text), n - 4 < CONF_STRING_BYTES ? 0 : 1);
        assert_int_equal(strlen(conf.pyroscope_headers), n - 4 < CONF_STRING_BYTES ? n - 4 : 0);
    }
}

static void test_secrets_are_not_said(void **state)
{
    static char text[2 * CONF_STRING_BYTES];
    static const char *const variables[] = {"PYROSCOPE_SERVER_ADDRESS", "PYROSCOPE_BASIC_AUTH_PASSWORD",
                                            "PYROSCOPE_AUTH_TOKEN", "PYROSCOPE_HTTP_HEADERS"};
    (void)state;
    memset(text, 'x', sizeof text - 1);
    memcpy(text, "http://me:hunter2@", 18);
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        assert_int_equal(read_variable(variables[i], text), 1);
        assert_null(strstr(complaints, "hunter"));
        assert_null(strstr(complaints, "xxx"));
    }
}

/* Values of any bytes: nothing is written beside the buffer, and no list has a control character from JSON. */
static void test_hostile_values(void **state)
{
    static const char pieces[] = "{}\"\\:,=| \tab1s\n\xff/";
    static const char *const variables[] = {"PYROSCOPE_HTTP_HEADERS", "PYROSCOPE_LABELS", "PYROSCOPE_UPLOAD_INTERVAL",
                                            "OTEL_RESOURCE_ATTRIBUTES"};
    static char text[2 * CONF_STRING_BYTES];
    uint32_t seed = 1;
    (void)state;
    for (int i = 0; i < 20000; i++) {
        size_t n = i % 100 == 0 ? sizeof text - 1 : (size_t)i % 40;
        for (size_t j = 0; j < n; j++)
            text[j] = pieces[((seed = seed * 1664525u + 1013904223u) >> 16) % (sizeof pieces - 1)];
        text[n] = '\0';
        if (n > 2)
            memcpy(text, "{\"", 2);
        read_variable(variables[i % 4], text);
        assert_true(strlen(conf.pyroscope_headers) < CONF_STRING_BYTES);
        assert_true(strlen(conf.pyroscope_labels) < CONF_STRING_BYTES);
        assert_null(strpbrk(conf.pyroscope_headers, "\n\t"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_each_variable, clear),
        cmocka_unit_test_setup(test_pyroscopes_own_name_wins, clear),
        cmocka_unit_test_setup(test_headers, clear),
        cmocka_unit_test_setup(test_empty_is_unset, clear),
        cmocka_unit_test_setup(test_json, clear),
        cmocka_unit_test_setup(test_durations, clear),
        cmocka_unit_test_setup(test_lengths, clear),
        cmocka_unit_test_setup(test_secrets_are_not_said, clear),
        cmocka_unit_test_setup(test_hostile_values, clear),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
