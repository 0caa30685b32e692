/* SPDX-License-Identifier: BSD-2-Clause */
/* Which answers of a server may be printed: none that has a part of a credential in any spelling; all others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "exporters/push_send.h"

static struct push_settings configured;

static int set_up(void **state)
{
    (void)state;
    configured = (struct push_settings){.url = "", .headers = "", .user = "", .password = "", .token = "", .proxy = ""};
    unsetenv("http_proxy");
    unsetenv("https_proxy");
    return 0;
}

static void hides(const char *text)
{
    if (!push_secrets_are_in(&configured, text))
        fail_msg("it would be printed: %s", text);
}

static void shows(const char *text)
{
    if (push_secrets_are_in(&configured, text))
        fail_msg("it would not be printed: %s", text);
}

static void test_nothing_configured(void **state)
{
    (void)state;
    shows("");
    shows("{\"code\":\"resource_exhausted\",\"message\":\"push rate limit (4.0 MiB) exceeded while adding 5.0 MiB\"}");
    shows("Authorization: Basic am86czNjcmV0");
}

static void test_a_token(void **state)
{
    (void)state;
    configured.token = "glc_eyJvIjoi+Nzk/Q0xNzU=";
    shows("invalid token");
    shows("push series with index 0 failed: the profile exceeds the size limit");
    hides("glc_eyJvIjoi+Nzk/Q0xNzU=");
    hides("the token glc_eyJv is not known");    /* a beginning */
    hides("the token …NzU= is not known");       /* an end */
    hides("GLC_EYJVIJOI%2BNZK%2FQ0XNZU%3D");     /* other ways to spell it */
    hides("glc_eyJvIjoi\\u002bNzk\\/Q0xNzU\\u003d");
    hides("g l c _ e y J v I j o i");
    hides("%67%6c%63%5f%65");
    hides("\\u0067\\u006c\\u0063\\u005f\\u0065");
}

static void test_basic_authentication(void **state)
{
    (void)state;
    configured.user = "jo";
    configured.password = "s3cret!";
    hides("jo:s3cret!");
    hides("s3cr");
    hides("am86czNjcmV0IQ==");       /* without "Basic " before it */
    hides("\"am86czNjcmV0IQ\"");
    hides("IjoczNjcmV0");            /* a part of it */
    shows("jo is not known");
}

static void test_short_and_odd_secrets(void **state)
{
    (void)state;
    configured.token = "ab1";
    hides("no: ab1");
    shows("no: ab 1");
    configured.token = "!?$&#*";
    hides("no: ?$&#");
    shows("no!");
    configured.token = "a!b!c!d!";
    hides("a%21b%21c%21d%21");
}

static void test_urls(void **state)
{
    (void)state;
    configured.url = "http://jo:p%40ssword1@host:4040/";
    hides("p@ssword1");
    hides("p%40ssword1");
    hides("am86cEBzc3dvcmQx");
    shows("host:4040 is not there");
    configured.url = "http://t0kenonly@host";
    hides("t0ken");
    configured.url = "http://jo:s3/cr#et@host"; /* no URL */
    hides("Could not resolve host: s3cr");
    configured.url = "http://host";
    configured.proxy = "socks5h://jo:hunter2@proxy:1080";
    hides("hunter2");
    configured.proxy = "";
    setenv("https_proxy", "http://jo:fr0menv@proxy:3128", 1);
    hides("fr0menv");
    shows("proxy:3128 is not there");
}

static void test_headers(void **state)
{
    (void)state;
    configured.headers = "X-One=first=value|X-Two=Zweite|X-Three|X-Four=";
    hides("first=value");
    hides("zweite");
    shows("X-Three X-Four");
}

int main(void)
{
#define TEST(function) cmocka_unit_test_setup(function, set_up)
    const struct CMUnitTest tests[] = {TEST(test_nothing_configured), TEST(test_a_token), TEST(test_basic_authentication),
                                       TEST(test_short_and_odd_secrets), TEST(test_urls), TEST(test_headers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
