/* SPDX-License-Identifier: BSD-2-Clause */
/* The endpoints of the service http as functions: which requests get an answer, and what it says of snapshots that
 * are built by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../support/made_snapshot.h"
#include "exporters/http_answer.h"
#include "exporters/http_series.h"

/* ---- A host ---- */

static struct conf set;
static struct http_stats stats;
static struct snapshot *made; /* the snapshot that callers get; NULL: no memory */

static struct snapshot *take(struct snapshot *old)
{
    (void)old;
    return made;
}

static uint64_t n_arenas;

/* Each figure of an arena is the arena's number, except for one arena that jemalloc does not know. */
static int arenas_mallctl(const char *name, void *old, size_t bytes)
{
    unsigned arena;
    char leaf[32];
    if (strcmp(name, "spans.arenas.count") == 0)
        *(uint64_t *)old = n_arenas;
    if (sscanf(name, "spans.arenas.%u.%31s", &arena, leaf) != 2)
        return 0;
    if (strcmp(leaf, "name") == 0)
        *(const char **)old = arena == 1 ? "cache" : "ten\"ant";
    else if (strcmp(leaf, "value") == 0)
        snprintf(old, bytes, "%s", arena == 1 ? "" : "green\n");
    else
        *(uint64_t *)old = arena;
    return strcmp(leaf, "resident_bytes") == 0 ? ENOENT : 0;
}

static char mode[64], wanted_mode[64];
static bool is_asleep; /* the program takes changes later */

static int stacks_mallctl(void *old, void *new_value, size_t new_bytes)
{
    if (!new_value) {
        *(const char **)old = mode;
        return 0;
    }
    assert_int_equal(new_bytes, sizeof(const char *));
    snprintf(wanted_mode, sizeof wanted_mode, "%s", *(const char **)new_value);
    if (!is_asleep)
        strcpy(mode, wanted_mode);
    return strchr(wanted_mode, '*') ? EPERM : 0;
}

static int no_mallctl(const char *name, void *old, size_t *old_bytes, void *new_value, size_t new_bytes)
{
    if (strcmp(name, "spans.stacks") == 0)
        return stacks_mallctl(old, new_value, new_bytes);
    if (strncmp(name, "spans.arenas.", 13) == 0 || strcmp(name, "epoch") == 0)
        return arenas_mallctl(name, old, old_bytes != NULL ? *old_bytes : 0);
    if (strncmp(name, "spans.alerts.", 13) == 0)
        return ENOENT;
    assert_int_equal(*old_bytes, sizeof(uint64_t));
    *(uint64_t *)old = 42;
    return strstr(name, "pyroscope") != NULL ? ENOENT : 0;
}

static const struct service_host host = {.conf = &set, .http = &stats, .snapshot = take, .mallctl = no_mallctl};
static struct http_source source;

static int set_up(void **state)
{
    (void)state;
    set = (struct conf){.http_max_series = 1000};
    source = (struct http_source){.host = &host, .local = true};
    n_arenas = 2;
    strcpy(mode, "sampled@na\"me");
    wanted_mode[0] = '\0';
    is_asleep = false;
    made = made_snapshot("small", 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (made != NULL)
        made_snapshot_free(made);
    http_series_free(source.series);
    http_pprof_free(source.history);
    return 0;
}

/* The answer to a request, valid until the next request. */
static struct http_answer answer;

static unsigned ask(struct http_request request)
{
    unsigned seconds;
    http_text_free(&answer.body);
    answer = (struct http_answer){0};
    if (request.method == NULL)
        request.method = "GET";
    const struct http_route *route = http_routes_find(&source, &request, &answer);
    if (route != NULL && http_routes_seconds(route, &request, &seconds, &answer))
        (http_routes_is_change(route, &request) ? route->change : route->answer)(&source, &request, &answer);
    http_text_bytes(&answer.body, "", 1);
    return answer.status;
}
#define ASK(...) ask((struct http_request){__VA_ARGS__})

/* ---- Who may ask ---- */

static void test_host(void **state)
{
    static const char *const local[] = {"localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:6061", "10.1.2.3:80", "[::1]",
                                        "[::1]:6061", "[fe80::1]:"};
    static const char *const others[] = {
        "", ":80", "example.org", "localhost.example.org", "127.0.0.1.example.org", "127.0.0.1:80@example.org", "[::1",
        "[::1]x", "[]", "[127.0.0.1]", "::1", "127.1", "localhost:80x", "localhost ", "[localhost]", "2130706433",
        "0123456789012345678901234567890123456789012345678901234567890123456789"};
    (void)state;
    assert_true(http_access_host_is_local(NULL));
    for (size_t i = 0; i < sizeof local / sizeof local[0]; i++)
        if (!http_access_host_is_local(local[i]))
            fail_msg("\"%s\" is refused", local[i]);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (http_access_host_is_local(others[i]))
            fail_msg("\"%s\" is let in", others[i]);
}

static void test_token(void **state)
{
    (void)state;
    assert_true(http_access_has_token("Bearer secret", "secret"));
    assert_true(http_access_has_token("bearer secret", "secret"));
    assert_false(http_access_has_token(NULL, "secret"));
    assert_false(http_access_has_token("", "secret"));
    assert_false(http_access_has_token("secret", "secret"));
    assert_false(http_access_has_token("Bearer", "secret"));
    assert_false(http_access_has_token("Bearer ", "secret"));
    assert_false(http_access_has_token("Bearer secre", "secret"));
    assert_false(http_access_has_token("Bearer secreT", "secret"));
    assert_false(http_access_has_token("Bearer secret ", "secret"));
    assert_false(http_access_has_token("Basic secret", "secret"));
}

/* A caller may use a host name only with a token, or where the service is open to all. */
static void test_rebinding(void **state)
{
    (void)state;
    assert_int_equal(ASK(.path = "/spans", .host = "evil.example"), 403);
    assert_int_equal(ASK(.path = "/nothing", .host = "evil.example"), 403);
    assert_int_equal(ASK(.path = "/spans", .host = "localhost:6061"), 200);
    source.local = false;
    assert_int_equal(ASK(.path = "/spans", .host = "server.example"), 200);
    source.local = true;
    strcpy(set.http_token, "t");
    assert_int_equal(ASK(.path = "/spans", .host = "server.example", .authorization = "Bearer t"), 200);
}

static void test_without_the_token(void **state)
{
    static const char *const closed[] = {"/",       "/spans", "/metrics", "/debug/pprof/", "/debug/pprof/heap",
                                         "/nothing"};
    (void)state;
    strcpy(set.http_token, "secret");
    for (size_t i = 0; i < sizeof closed / sizeof closed[0]; i++) {
        assert_int_equal(ASK(.path = closed[i]), 401);
        assert_null(strstr(answer.body.data, "request"));
        assert_int_equal(ASK(.path = closed[i], .authorization = "Bearer wrong"), 401);
        assert_int_equal(ASK(.path = closed[i], .authorization = "Bearer secret"), i < 5 ? 200 : 404);
    }
    assert_int_equal(ASK(.path = "/healthz"), 200);
    assert_int_equal(ASK(.path = "/", .accept = "text/html"), 401); /* the page, which asks for it */
    assert_string_equal(answer.type, "text/html; charset=utf-8");
}

/* ---- What is asked ---- */

static void test_paths(void **state)
{
    static const char *const none[] = {"",         "//",           "/spans/",          "/SPANS", "/metrics/..",
                                       "/../",     "/etc/passwd",  "/debug/pprof",     "/debug/pprof/heap/",
                                       "/healthz ", "/debug/pprof/../../etc/passwd", "/debug/pprof/goroutine"};
    (void)state;
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        if (ASK(.path = none[i]) != 404)
            fail_msg("\"%s\" is answered with %u", none[i], answer.status);
}

static void test_target(void **state)
{
    static const struct {
        const char *target, *path, *host;
    } targets[] = {{"/spans", "/spans", "header"},
                   {"http://localhost/spans", "/spans", "localhost"},
                   {"HTTP://127.0.0.1:6061/debug/pprof/", "/debug/pprof/", "127.0.0.1:6061"},
                   {"http://[::1]:80", "/", "[::1]:80"},
                   {"http:///spans", "/spans", ""},
                   {"http://evil.example/http://localhost/spans", "/http://localhost/spans", "evil.example"},
                   {"http://0123456789012345678901234567890123456789012345678901234567890123456789/spans", "/spans", ""},
                   {"https://localhost/spans", "https://localhost/spans", "header"},
                   {"*", "*", "header"}};
    char place[HTTP_HOST_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
        struct http_request request = {.path = targets[i].target, .host = "header"};
        http_routes_split_target(&request, place);
        assert_string_equal(request.path, targets[i].path);
        assert_string_equal(request.host, targets[i].host);
    }
}

static void test_methods(void **state)
{
    static const char *const others[] = {"POST", "PUT", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get", "", "GETX"};
    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(ask((struct http_request){.path = "/spans", .method = others[i]}), 405);
    assert_int_equal(ASK(.path = "/spans", .method = "HEAD"), 200);
    assert_int_equal(ASK(.path = "/spans", .has_body = true), 413);
}

#define SWITCH(...) ASK(.path = "/stacks", .method = "POST", __VA_ARGS__)

/* Only who has a token, or may open the socket's file, may change something; and no page of another site. */
static void test_who_may_switch(void **state)
{
    (void)state;
    assert_int_equal(SWITCH(.mode = "all", .change = "1"), 403);
    source.is_unix = true;
    assert_int_equal(SWITCH(.mode = "all"), 403);
    assert_string_equal(wanted_mode, "");
    assert_int_equal(SWITCH(.mode = "all", .change = "1"), 200);
    assert_string_equal(mode, "all");
    source.is_unix = false;
    strcpy(set.http_token, "t");
    assert_int_equal(SWITCH(.mode = "off", .change = "1"), 401);
    assert_int_equal(SWITCH(.mode = "off", .change = "1", .authorization = "Bearer u"), 401);
    assert_int_equal(SWITCH(.mode = "off", .authorization = "Bearer t"), 403);
    assert_string_equal(mode, "all");
    assert_int_equal(SWITCH(.mode = "off", .change = "", .authorization = "Bearer t"), 200);
    assert_string_equal(mode, "off");
}

static void test_switch(void **state)
{
    static const char *const good[] = {"off", "all", "sampled", "all@cache*|thread:x", "sampled@a"};
    static const char *const bad[] = {"", "on", "ALL", "all@", "off@cache", "all ", "al", "sampled@"};
    (void)state;
    source.is_unix = true;
    assert_int_equal(SWITCH(.change = "1"), 400);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(SWITCH(.mode = bad[i], .change = "1"), 400);
    assert_string_equal(wanted_mode, "");
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(SWITCH(.mode = good[i], .change = "1"), strchr(good[i], '*') ? 403 : 200);
        assert_string_equal(wanted_mode, good[i]);
    }
    is_asleep = true;
    assert_int_equal(SWITCH(.mode = "all", .change = "1"), 202);
    assert_int_equal(SWITCH(.mode = "all", .change = "1", .has_body = true), 413);
    assert_int_equal(ASK(.path = "/spans", .method = "POST", .change = "1", .mode = "all"), 405);
    assert_int_equal(ASK(.path = "/stacks", .method = "PUT", .change = "1", .mode = "all"), 405);
    assert_true(answer.may_change);
    assert_int_equal(ASK(.path = "/stacks", .mode = "off"), 200); /* a GET changes nothing */
    assert_string_equal(wanted_mode, "all");
}

static void test_seconds(void **state)
{
    static const char *const wrong[] = {"", "0", "-1", "+1", "3601", "1.5", "1s", " 1", "99999999999999999999", "x"};
    unsigned seconds;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(ASK(.path = "/debug/pprof/heap", .seconds = wrong[i]), 400);
        assert_int_equal(ASK(.path = "/debug/pprof/profile", .seconds = wrong[i]), 400);
        assert_int_equal(ASK(.path = "/healthz", .seconds = wrong[i]), 200);
    }
    struct http_request request = {.method = "GET", .path = "/debug/pprof/profile"};
    answer.status = 0;
    const struct http_route *route = http_routes_find(&source, &request, &answer);
    assert_non_null(route);
    assert_true(http_routes_seconds(route, &request, &seconds, &answer));
    assert_int_equal(seconds, 30);
    request.seconds = "3600";
    assert_true(http_routes_seconds(route, &request, &seconds, &answer));
    assert_int_equal(seconds, 3600);
    request.method = "HEAD";
    assert_true(http_routes_seconds(route, &request, &seconds, &answer));
    assert_int_equal(seconds, 0);
}

static void test_no_memory(void **state)
{
    static const char *const paths[] = {"/spans", "/metrics", "/debug/pprof/heap"};
    (void)state;
    struct snapshot *kept = made;
    made = NULL;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        assert_int_equal(ASK(.path = paths[i]), 503);
    made = kept;
}

static void test_page(void **state)
{
    char nonce[33];
    (void)state;
    assert_int_equal(ASK(.path = "/", .accept = "text/html,*/*"), 200);
    assert_string_equal(answer.type, "text/html; charset=utf-8");
    assert_null(strstr(answer.body.data, "@NONCE@"));
    assert_int_equal(strlen(answer.nonce), 32);
    const char *first = strstr(answer.body.data, answer.nonce);
    assert_non_null(first);
    assert_non_null(strstr(first + 1, answer.nonce));
    strcpy(nonce, answer.nonce);
    assert_int_equal(ASK(.path = "/spans", .accept = "text/html"), 200);
    assert_true(answer.is_page);
    assert_string_not_equal(answer.nonce, nonce);
    assert_int_equal(ASK(.path = "/spans", .accept = "text/html", .format = "json"), 200);
    assert_string_equal(answer.type, "application/json; charset=utf-8");
    assert_int_equal(ASK(.path = "/spans", .format = "xml"), 400);
    assert_int_equal(ASK(.path = "/"), 200);
    assert_non_null(strstr(answer.body.data, "\n/debug/pprof/heap: "));
}

/* ---- JSON ---- */

/* Returns the text after a JSON value, or NULL if there is no value (RFC 8259). */
static const char *skip_value(const char *p, int depth);

static const char *skip_string(const char *p)
{
    if (*p++ != '"')
        return NULL;
    for (; *p != '"'; p++) {
        if ((unsigned char)*p < ' ')
            return NULL;
        if (*p == '\\' && *++p == 'u') {
            if (strspn(p + 1, "0123456789abcdefABCDEF") < 4)
                return NULL;
            p += 4;
        } else if (p[-1] == '\\' && strchr("\"\\/bfnrt", *p) == NULL) {
            return NULL;
        }
    }
    return p + 1;
}

static const char *skip_space(const char *p)
{
    return p + strspn(p, " \n\r\t");
}

static const char *skip_members(const char *p, char end, int depth)
{
    bool pairs = end == '}';
    p = skip_space(p + 1);
    for (bool first = true; *p != end; first = false) {
        if (!first && *p++ != ',')
            return NULL;
        p = skip_space(p);
        if (pairs && ((p = skip_string(p)) == NULL || *(p = skip_space(p)) != ':'))
            return NULL;
        p = skip_value(p + pairs, depth + 1);
        if (p == NULL)
            return NULL;
    }
    return p + 1;
}

static const char *skip_value(const char *p, int depth)
{
    size_t digits;
    p = skip_space(p);
    if (depth > 10)
        return NULL;
    if (*p == '{' || *p == '[')
        p = skip_members(p, *p == '{' ? '}' : ']', depth);
    else if (*p == '"')
        p = skip_string(p);
    else if ((digits = strspn(p, "0123456789.")) > 0)
        p += digits;
    else if (strncmp(p, "true", 4) == 0)
        p += 4;
    else
        p = strncmp(p, "false", 5) == 0 ? p + 5 : NULL;
    return p != NULL ? skip_space(p) : NULL;
}

static void assert_json(const char *text)
{
    const char *end = skip_value(text, 0);
    if (end == NULL || *end != '\0')
        fail_msg("no JSON: %s", text);
}

static void replace(struct snapshot *s)
{
    made_snapshot_free(made);
    made = s;
}

static void test_spans(void **state)
{
    (void)state;
    assert_int_equal(ASK(.path = "/spans"), 200);
    assert_json(answer.body.data);
    const char *row = strstr(answer.body.data, "\n{\"id\":4,\"parent\":1,\"kind\":\"span\",\"name\":\"request\",\"target\":"
                             "\"server\",\"file\":\"server.c\",\"line\":100,\"labels\":{\"route\":\"/doc\",\"tenant\":"
                             "\"blue\"},\"inuse_bytes\":300,\"inuse_objects\":3,\"alloc_bytes\":10000,\"alloc_objects\":"
                             "100,\"opens\":100,\"wall_ns\":3000000000,\"busy_ns\":250000000,\"cpu_ns\":200000000,");
    assert_non_null(row);
    const char *total = strstr(row, "\"total\":{\"inuse_bytes\":1048876,\"inuse_objects\":53,\"alloc_bytes\":3155728,"
                               "\"alloc_objects\":160,\"opens\":160,");
    assert_non_null(total);
    assert_true(total < strstr(row + 1, "\n{\"id\""));
    const char *root = strstr(answer.body.data, "\n{\"id\":1,\"parent\":0,\"kind\":\"root\",");
    assert_non_null(root);
    total = strstr(root, "\"total\":{\"inuse_bytes\":1054036,\"inuse_objects\":66,");
    assert_non_null(total);
    assert_true(total < strstr(root + 1, "\n{\"id\""));
    assert_non_null(strstr(answer.body.data, "],\"left_out\":0}"));
    assert_non_null(strstr(answer.body.data, "\"pid\":4242,"));
    assert_non_null(strstr(answer.body.data, "{\"time\":1795000012.345000000,"));
}

static unsigned count_rows(void)
{
    unsigned n = 0;
    for (const char *p = answer.body.data; (p = strstr(p, "\n{\"id\":")) != NULL; p++)
        n++;
    return n;
}

/* The spans that hold the most, and their ancestors. */
static void test_limit(void **state)
{
    static const char *const wrong[] = {"", "-1", "x", "1x", "100001", "99999999999999999999"};
    (void)state;
    assert_int_equal(ASK(.path = "/spans", .limit = "0"), 200);
    assert_json(answer.body.data);
    assert_int_equal(count_rows(), 0);
    assert_non_null(strstr(answer.body.data, "\"left_out\":8}"));
    assert_int_equal(ASK(.path = "/spans", .limit = "3"), 200);
    assert_int_equal(count_rows(), 3);
    assert_non_null(strstr(answer.body.data, "{\"id\":5,\"parent\":4,"));
    assert_non_null(strstr(answer.body.data, "{\"id\":4,"));
    assert_non_null(strstr(answer.body.data, "\"left_out\":5}"));
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(ASK(.path = "/spans", .limit = wrong[i]), 400);
    replace(made_snapshot("rows", 5000));
    assert_int_equal(ASK(.path = "/spans"), 200);
    assert_json(answer.body.data);
    assert_true(count_rows() >= 1000 && count_rows() < 1010);
}

static void test_hostile(void **state)
{
    (void)state;
    replace(made_snapshot("hostile", 0));
    assert_int_equal(ASK(.path = "/spans"), 200);
    assert_json(answer.body.data);
    assert_int_equal(count_rows(), 12);
    ((struct snapshot_row *)made->rows)[9].parent_row = 9; /* periods know no circles */
    assert_int_equal(ASK(.path = "/metrics"), 200);
    assert_non_null(strstr(answer.body.data, "{span=\"new\\nline\ttab\x1b]0;title\x07\"} "));
    assert_non_null(strstr(answer.body.data, "{span=\"no such parent\"} 128\n"));
    replace(made_snapshot("empty", 0));
    assert_int_equal(ASK(.path = "/spans"), 200);
    assert_json(answer.body.data);
    replace(made_snapshot("chain", 100000)); /* neither recursion nor time for paths */
    assert_int_equal(ASK(.path = "/spans", .limit = "10"), 200);
    assert_json(answer.body.data);
    assert_int_equal(ASK(.path = "/metrics"), 200);
}

/* ---- Metrics ---- */

static void test_metrics(void **state)
{
    (void)state;
    strcpy(set.series_labels, "tenant");
    assert_int_equal(ASK(.path = "/metrics"), 200);
    assert_string_equal(answer.type, "text/plain; version=0.0.4; charset=utf-8");
    assert_non_null(strstr(answer.body.data, "\njespan_span_alloc_bytes_total{span=\"parse\",tenant=\"green\"} 3145728\n"));
    assert_non_null(strstr(answer.body.data, "\njespan_span_alloc_bytes_total{span=\"parse\"} 64000\n"));
    assert_non_null(strstr(answer.body.data, "\njespan_meta_bytes 42\n"));
    assert_non_null(strstr(answer.body.data, "\njespan_http_requests_total 42\n"));
    assert_null(strstr(answer.body.data, "jespan_pyroscope_"));
}

static void test_arenas(void **state)
{
    (void)state;
    assert_int_equal(ASK(.path = "/arenas"), 200);
    assert_non_null(strstr(answer.body.data, " in use "));
    assert_non_null(strstr(answer.body.data, "            2  \"ten\\\"ant\" \"green\\u000a\"\n"));
    assert_int_equal(ASK(.path = "/arenas", .format = "json"), 200);
    assert_ptr_equal(strstr(answer.body.data, "{\"arenas\":[\n{\"number\":1,\"name\":\"cache\",\"value\":\"\",\"inuse_bytes\":1,"),
                     answer.body.data);
    assert_null(strstr(answer.body.data, "resident_bytes"));
    assert_int_equal(ASK(.path = "/arenas", .format = "xml"), 400);
    assert_int_equal(ASK(.path = "/metrics"), 200);
    assert_non_null(strstr(answer.body.data, "\njespan_arena_inuse_bytes{arena=\"cache\",value=\"\",number=\"1\"} 1\n"
                                             "jespan_arena_inuse_bytes{arena=\"ten\\\"ant\",value=\"green\\n\",number=\"2\"} 2\n"));
    n_arenas = 3; /* the third has the second's name and value */
    assert_int_equal(ASK(.path = "/metrics"), 200);
    assert_non_null(strstr(answer.body.data, "\njespan_arena_inuse_bytes{arena=\"ten\\\"ant\",value=\"green\\n\",number=\"3\"} 3\n"));
    n_arenas = 0;
    assert_int_equal(ASK(.path = "/arenas", .format = "json"), 200);
    assert_string_equal(answer.body.data, "{\"arenas\":[]}\n");
    assert_int_equal(ASK(.path = "/metrics"), 200);
    assert_null(strstr(answer.body.data, "jespan_arena_"));
}

/* ---- Differences ---- */

static void add_all(struct totals *sum, const struct snapshot *s)
{
    totals_add(sum, &s->retired);
    for (uint32_t i = 0; i < s->n_rows; i++)
        totals_add(sum, &s->rows[i].totals);
}

/* Checks each row and the sum: nothing from before the start is told. */
static void test_difference(void **state)
{
    struct totals sum = {0}, expected = {0}, before = {0};
    (void)state;
    struct snapshot *end = made_snapshot("small", 0);
    struct snapshot_row *rows = (struct snapshot_row *)end->rows;
    rows[3].totals.free_bytes += 300;       /* all bytes that it held */
    rows[4].totals.alloc_bytes += 7;
    rows[4].totals.cpu -= 1;                /* taken back */
    rows[7].generation++;                   /* another context now has this number */
    rows[7].totals = (struct totals){.alloc_bytes = 5};
    end->retired.alloc_bytes += 164;        /* the 64 and 100 bytes that were added meanwhile */
    end->retired.free_bytes += 164;
    end->time_unix_ns -= 5000000000; /* a second later, after the clock was set back by 6 */
    end->start_unix_ns -= 6000000000;
    add_all(&expected, end);
    struct http_start *start = http_start_make(made);
    assert_non_null(start);
    assert_int_equal(http_start_bytes(made), sizeof *start + start->n_rows * sizeof start->rows[0]);
    struct snapshot *d = end;
    http_start_subtract(start, d);
    assert_int_equal(totals_inuse_bytes(&d->rows[0].totals), 0);
    assert_int_equal((int64_t)totals_inuse_bytes(&d->rows[3].totals), -300);
    assert_int_equal(d->rows[3].totals.alloc_bytes, 0);
    assert_int_equal(d->rows[4].totals.alloc_bytes, 7);
    assert_int_equal(totals_inuse_bytes(&d->rows[4].totals), 7);
    assert_int_equal(d->rows[4].totals.cpu, 0);
    assert_int_equal(d->rows[7].totals.alloc_bytes, 5);
    assert_int_equal(d->retired.alloc_bytes, 100);
    assert_int_equal((int64_t)totals_inuse_bytes(&d->retired), -64);
    assert_int_equal(d->time_unix_ns - d->start_unix_ns, 1000000000);
    add_all(&sum, d);
    add_all(&before, made);
    totals_subtract(&expected, &before);
    assert_int_equal(sum.alloc_bytes, expected.alloc_bytes);
    assert_int_equal(totals_inuse_bytes(&sum), totals_inuse_bytes(&expected));
    free(start);
    made_snapshot_free(end);
}

/* Rows that were added, and rows that went, in both snapshots. */
static void test_difference_of_others(void **state)
{
    (void)state;
    struct snapshot *empty = made_snapshot("empty", 0);
    struct snapshot *end = made_snapshot("small", 0);
    struct http_start *start = http_start_make(empty);
    assert_int_equal(start->n_rows, 0);
    http_start_subtract(start, end);
    assert_int_equal(end->n_rows, made->n_rows);
    assert_memory_equal(end->rows, made->rows, made->n_rows * sizeof *made->rows);
    free(start);
    start = http_start_make(made);
    http_start_subtract(start, empty);
    assert_int_equal(empty->n_rows, 0);
    assert_int_equal((int64_t)totals_inuse_bytes(&empty->retired), -(1000 + 4096 + 300 + 1048576 + 64));
    free(start);
    made_snapshot_free(end);
    made_snapshot_free(empty);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_host),    TEST(test_token),     TEST(test_rebinding), TEST(test_without_the_token),
        TEST(test_paths),   TEST(test_target),    TEST(test_methods),   TEST(test_who_may_switch), TEST(test_switch),
        TEST(test_seconds), TEST(test_no_memory),
        TEST(test_page),    TEST(test_spans),     TEST(test_limit),     TEST(test_hostile),
        TEST(test_metrics), TEST(test_arenas),    TEST(test_difference), TEST(test_difference_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
