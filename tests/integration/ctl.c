/* SPDX-License-Identifier: BSD-2-Clause */
/* Every spans.* name of mallctl follows jemalloc's calling rules: errors, sizes, MIBs, the epoch. */
#define _GNU_SOURCE
#include <jespan/jespan.h>

#include "../support/ctl.h"
#include "report/service.h"

static const char *const figures[] = {"alloc_objects", "alloc_bytes", "alloc_requested_bytes", "free_objects",
                                      "free_bytes", "inuse_objects", "inuse_bytes", "enters",
                                      "credited_in_objects", "credited_in_bytes", "credited_out_objects", "credited_out_bytes",
                                      "opens", "wall_ns", "busy_ns", "idle_ns", "cpu_ns", "outlived_objects",
                                      "outlived_bytes", NULL};
static const char *const texts[] = {"name", "target", "file", "kind", NULL};
static const char *const numbers[] = {"line", "parent", "closed_ns", NULL};
static const char *const stats[] = {"meta_bytes", "header_bytes", "header_held_bytes", "pending_bytes", "mapped_bytes",
                                    "committed_bytes", "contexts", "overflow", "recycled", "truncated", "dumps",
                                    "lost_dumps", "lost_messages", "threads", "reporters", "reporter_misses", "reporter_errors", NULL};
#define NAME(name) #name,
static const char *const push_stats[] = {PUSH_STATS(NAME) NULL};
static const char *const http_stats[] = {HTTP_STATS(NAME) NULL};
static const char *const last_error[] = {"last_error", NULL};

/* Reads by name and by MIB; anything but the right size, and any writing, is refused. */
static void check_read_only(const char *name, size_t size)
{
    char value[8] = {0}, again[8] = {0}, big[16];
    size_t length = size, mib[4], mib_length = 4;
    CHECK_EQ(mallctl(name, value, &length, NULL, 0), 0);
    CHECK_EQ(length, size);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), 0);
    length = size - 1;
    CHECK_EQ(mallctl(name, again, &length, NULL, 0), EINVAL);
    CHECK_EQ(length, size - 1);
    length = sizeof big;
    CHECK_EQ(mallctl(name, big, &length, NULL, 0), EINVAL);
    CHECK_EQ(mallctl(name, NULL, NULL, value, size), EPERM);
    length = size;
    CHECK_EQ(mallctl(name, again, &length, value, size), EPERM);
    CHECK_EQ(mallctlnametomib(name, mib, &mib_length), 0);
    length = size;
    CHECK_EQ(mallctlbymib(mib, mib_length, again, &length, NULL, 0), 0);
    CHECK_EQ(length, size);
    CHECK_EQ(mallctlbymib(mib, mib_length, again, &length, value, size), EPERM);
    if (check_failures)
        check_note("with %s", name);
}

static void each(const char *prefix, const char *const *leaves, size_t size)
{
    char name[96];
    for (; *leaves; leaves++) {
        snprintf(name, sizeof name, "spans.%s.%s", prefix, *leaves);
        check_read_only(name, size);
    }
}

static void every_name(void)
{
    char id[16];
    snprintf(id, sizeof id, "%u", jespan_current());
    ctl_refresh();
    each("1", figures, sizeof(uint64_t));
    each("1.total", figures, sizeof(uint64_t));
    each("1", numbers, sizeof(uint64_t));
    each("1", texts, sizeof(char *));
    each(id, figures, sizeof(uint64_t));
    each(id, numbers, sizeof(uint64_t));
    each(id, texts, sizeof(char *));
    each("all", figures, sizeof(uint64_t));
    each("retired", figures, sizeof(uint64_t));
    each("stats", stats, sizeof(uint64_t));
    each("stats.pyroscope", push_stats, sizeof(uint64_t));
    each("stats.otlp", push_stats, sizeof(uint64_t));
    each("stats.pyroscope", last_error, sizeof(char *));
    each("stats.otlp", last_error, sizeof(char *));
    each("stats.http", http_stats, sizeof(uint64_t));
    check_read_only("spans.count", sizeof(uint64_t));
}

static void unknown_names(void)
{
    static const char *const names[] = {
        "spans", "spans.", "spans.x", "spans.all", "spans.all.", "spans.all.name", "spans.all.inuse_bytes.x",
        "spans.1", "spans.1.", "spans.1.x", "spans.1.name.x", "spans.0.name", "spans.-1.name", "spans.x.name",
        "spans.1x.name", "spans. 1.name", "spans.+1.name", "spans.4294967295.name", "spans.4294967297.name",
        "spans.99999999999999999999.name", "spans.77777.name", "spans.stats.x", "spans..name", "span.count", "spansx.count",
        "spans.retired.name", "spans.epoch.x", "SPANS.count", "spans.1.total", "spans.1.total.", "spans.1.total.name",
        "spans.1.total.enters.x", "spans.1.totals.enters", "spans.1.tota.enters", "spans.all.total.enters",
        "spans.stats.pyroscope", "spans.stats.pyroscope.", "spans.stats.pyroscope.x", "spans.stats.pyroscope.requests",
        "spans.stats.pyroscope.pushes.x", "spans.stats.pyroscopes.pushes", "spans.stats.pyro.pushes", "spans.stats.http",
        "spans.stats.http.pushes", "spans.stats.http.last_error", "spans.stats.http.requests.x", "spans.stats..requests",
        "spans.stats.1.requests", "spans.stats.total.enters", "spans.http.requests", "spans.1.http.requests",
        "spans.all.pyroscope.pushes",
        "spans.77777.total.enters", "spans.77777.wall_ns", "spans.1.ages",
        "spans.1.cpu_user_ns", "spans.all.cpu_system_ns"}; /* the last three: not with this configuration */
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        uint64_t value = 0;
        size_t length = sizeof value, mib[4], mib_length = 4;
        int error = mallctl(names[i], &value, &length, NULL, 0);
        if (error != ENOENT)
            check_fail("mallctl(%s) gives %d, not ENOENT", names[i], error);
        error = mallctlnametomib(names[i], mib, &mib_length);
        if (error == 0) /* the number of a context may be looked up only when it is read */
            error = mallctlbymib(mib, mib_length, &value, &length, NULL, 0);
        if (error != ENOENT)
            check_fail("by MIB, %s gives %d, not ENOENT", names[i], error);
    }
}

static void wrong_mibs(void)
{
    size_t mib[3], length = 3, bytes = sizeof(uint64_t);
    uint64_t value = 0;
    CHECK_EQ(mallctlnametomib("spans.1.inuse_bytes", mib, &length), 0);
    CHECK_EQ(length, 3);
    static const size_t ids[] = {0, 777777, UINT32_MAX, (size_t)UINT32_MAX + 2, SIZE_MAX};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        size_t wrong[3] = {mib[0], ids[i], mib[2]};
        CHECK_EQ(mallctlbymib(wrong, 3, &value, &bytes, NULL, 0), ENOENT);
    }
    for (size_t last = 100; last; last *= 3) { /* overflows to end */
        size_t wrong[3] = {mib[0], 1, last};
        if (mallctlbymib(wrong, 3, &value, &bytes, NULL, 0) != ENOENT)
            check_fail("a MIB with the last part %zu is accepted", last);
        if (last > SIZE_MAX / 3)
            break;
    }
    size_t total[4], total_length = 4;
    CHECK_EQ(mallctlnametomib("spans.1.total.inuse_bytes", total, &total_length), 0);
    CHECK_EQ(total_length, 4);
    CHECK_EQ(mallctlbymib(total, 4, &value, &bytes, NULL, 0), 0);
    CHECK_EQ(mallctlbymib(total, 3, &value, &bytes, NULL, 0), ENOENT);
    CHECK_EQ(mallctlbymib((size_t[4]){total[0], total[1], 3, total[3]}, 4, &value, &bytes, NULL, 0), ENOENT);
    CHECK_EQ(mallctlbymib((size_t[4]){total[0], (size_t)1 << 40, total[2], total[3]}, 4, &value, &bytes, NULL, 0), ENOENT);
    CHECK_EQ(mallctlbymib((size_t[4]){total[0], 1, total[2], 1000}, 4, &value, &bytes, NULL, 0), ENOENT);
    length = 3;
    size_t part[3];
    CHECK_EQ(mallctlnametomib("spans.1.total.inuse_bytes", part, &length), 0); /* a part, as of jemalloc's names */
    CHECK_EQ(length, 3);
    CHECK(memcmp(part, total, sizeof part) == 0);
    CHECK(mallctlbymib(mib, 1, &value, &bytes, NULL, 0) != 0);
    CHECK(mallctlbymib(mib, 0, &value, &bytes, NULL, 0) != 0);
}

/* Each service's figures are its own, by whatever way they are asked for; of one that does not run they are 0. */
static void mibs_of_services(void)
{
    size_t pushes[4], requests[4], length = 4, bytes = sizeof(uint64_t);
    uint64_t value = 99;
    CHECK_EQ(mallctlnametomib("spans.stats.pyroscope.pushes", pushes, &length), 0);
    CHECK_EQ(length, 4);
    CHECK_EQ(mallctlnametomib("spans.stats.http.requests", requests, &length), 0);
    CHECK_EQ(length, 4);
    CHECK(pushes[2] != requests[2]);
    CHECK_EQ(mallctlbymib(pushes, 4, &value, &bytes, NULL, 0), 0);
    CHECK_EQ(value, 0);
    CHECK_EQ(mallctlbymib((size_t[4]){pushes[0], pushes[1], 2, pushes[3]}, 4, &value, &bytes, NULL, 0), ENOENT);
    CHECK_EQ(mallctlbymib((size_t[4]){pushes[0], pushes[1], SIZE_MAX, pushes[3]}, 4, &value, &bytes, NULL, 0), ENOENT);
    CHECK_EQ(mallctlbymib((size_t[4]){pushes[0], pushes[1], pushes[2], 14}, 4, &value, &bytes, NULL, 0), ENOENT);
    CHECK_EQ(mallctlbymib((size_t[4]){pushes[0], pushes[1], requests[2], 4}, 4, &value, &bytes, NULL, 0), ENOENT);
    CHECK(strcmp(ctl_text("spans.stats.pyroscope.last_error"), "") == 0);
}

/* As with jemalloc's arena indices: one MIB, any context. */
static void mib_of_any_context(void)
{
    JESPAN("mib");
    void *p = malloc(777);
    size_t mib[3], length = 3, bytes = sizeof(uint64_t);
    uint64_t value = 0;
    CHECK_EQ(mallctlnametomib("spans.1.inuse_bytes", mib, &length), 0);
    mib[1] = jespan_current();
    CHECK_EQ(mallctlbymib(mib, 3, &value, &bytes, NULL, 0), 0);
    CHECK_EQ(value, malloc_usable_size(p));
    CHECK_EQ(value, ctl_span(jespan_current(), "inuse_bytes"));
    free(p);
}

/* Its own, without those of its parents; what fits, and how much there is. */
static void labels(void)
{
    static const char expected[] = "route\0/a b\0shard\0-7";
    const struct jespan_label integer = JESPAN_LABEL_INT("shard", -7);
    char name[64], text[64] = "", few[8];
    size_t bytes = sizeof text;
    JESPAN("labelled", "route", "/a b");
    CHECK_EQ(jespan_add_label(NULL, &integer), 0);
    ctl_span_name(name, sizeof name, jespan_current(), "labels");
    CHECK_EQ(mallctl(name, text, &bytes, NULL, 0), 0);
    CHECK_EQ(bytes, sizeof expected);
    CHECK(memcmp(text, expected, sizeof expected) == 0);
    CHECK_EQ(mallctl(name, NULL, &bytes, NULL, 0), 0);
    CHECK_EQ(bytes, sizeof expected);
    bytes = sizeof few;
    CHECK_EQ(mallctl(name, few, &bytes, NULL, 0), 0);
    CHECK_EQ(bytes, sizeof few);
    CHECK(memcmp(few, expected, sizeof few) == 0);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), EINVAL);
    CHECK_EQ(mallctl(name, text, &bytes, text, 1), EPERM);
    JESPAN("plain");
    bytes = sizeof text;
    CHECK_EQ(mallctl(ctl_span_name(name, sizeof name, jespan_current(), "labels"), text, &bytes, NULL, 0), 0);
    CHECK_EQ(bytes, 0);
}

static void epoch(void)
{
    uint64_t first = 0, second = 0, any = 99;
    size_t length = sizeof first;
    ctl_refresh();
    CHECK_EQ(mallctl("spans.epoch", &first, &length, NULL, 0), 0);
    CHECK_EQ(mallctl("spans.epoch", &second, &length, NULL, 0), 0);
    CHECK_EQ(first, second); /* reading makes no snapshot */
    CHECK_EQ(mallctl("spans.epoch", &second, &length, &any, sizeof any), 0);
    CHECK(second > first);
    CHECK_EQ(mallctl("spans.epoch", NULL, NULL, &any, 4), EINVAL);
    CHECK_EQ(mallctl("spans.epoch", NULL, NULL, NULL, 0), 0);
    length = 4;
    CHECK_EQ(mallctl("spans.epoch", &first, &length, NULL, 0), EINVAL);
}

/* Enumeration is as of the epoch; figures are live. */
static void live_and_as_of_epoch(void)
{
    ctl_refresh();
    uint64_t count = ctl_u64("spans.count");
    JESPAN("new since the epoch");
    void *p = malloc(50);
    CHECK_EQ(ctl_u64("spans.count"), count);
    CHECK_EQ(ctl_span(jespan_current(), "inuse_objects"), 1);
    ctl_refresh();
    CHECK_EQ(ctl_u64("spans.count"), count + 1);
    CHECK(strcmp(ctl_span_text(jespan_current(), "name"), "new since the epoch") == 0);
    free(p);
    CHECK_EQ(ctl_span(jespan_current(), "inuse_objects"), 0);
}

static bool contains(const uint32_t *ids, size_t n, uint32_t id)
{
    while (n > 0 && ids[n - 1] != id)
        n--;
    return n > 0;
}

static void identifiers(void)
{
    uint32_t ids[64] = {0};
    size_t bytes = sizeof ids, few = 2 * sizeof *ids;
    ctl_refresh();
    uint64_t count = ctl_u64("spans.count");
    CHECK_EQ(mallctl("spans.ids", ids, &bytes, NULL, 0), 0);
    CHECK_EQ(bytes, count * sizeof *ids);
    CHECK(contains(ids, count, JESPAN_ROOT));
    CHECK(contains(ids, count, jespan_current()));
    for (uint64_t i = 1; i < count; i++)
        CHECK(ids[i] > ids[i - 1]);
    uint32_t two[3] = {0, 0, 0xabcd};
    CHECK_EQ(mallctl("spans.ids", two, &few, NULL, 0), 0);
    CHECK_EQ(few, 2 * sizeof *ids);
    CHECK(two[0] == ids[0] && two[1] == ids[1] && two[2] == 0xabcd);
    CHECK_EQ(mallctl("spans.ids", NULL, NULL, ids, bytes), EPERM);
}

static uint64_t sum(const char *figure, const char *path)
{
    char name[64];
    uint64_t value = UINT64_MAX;
    size_t bytes = sizeof value;
    snprintf(name, sizeof name, "spans.sum.%s", figure);
    CHECK_EQ(mallctl(name, &value, &bytes, &path, sizeof path), 0);
    return value;
}

static size_t find(const char *path, uint32_t ids[8])
{
    size_t bytes = 8 * sizeof *ids;
    CHECK_EQ(mallctl("spans.find", ids, &bytes, &path, sizeof path), 0);
    return bytes / sizeof *ids;
}

/* Three tenants, of which each has a cache; and a cache in a cache. */
static void by_path(void)
{
    static const char *const tenants[] = {"blue", "red", "black"};
    void *request[3], *cache[3], *inner;
    uint32_t ids[8], cache_id[3], inner_id;
    size_t usable[3], bytes = 0;
    for (int i = 0; i < 3; i++) {
        JESPAN("asked", "tenant", tenants[i]);
        request[i] = malloc(1000);
        JESPAN("cached");
        cache[i] = malloc(2000 * (size_t)(i + 1));
        usable[i] = malloc_usable_size(cache[i]);
        cache_id[i] = jespan_current();
        if (i == 2) {
            JESPAN("cached");
            inner = malloc(100000);
            inner_id = jespan_current();
        }
    }
    size_t all = usable[0] + usable[1] + usable[2] + malloc_usable_size(inner), own = malloc_usable_size(request[0]);
    CHECK_EQ(find("asked{tenant=red} > cached", ids), 1);
    CHECK_EQ(ids[0], cache_id[1]);
    CHECK_EQ(find("cached", ids), 4);
    CHECK(contains(ids, 4, cache_id[0]) && contains(ids, 4, cache_id[2]) && contains(ids, 4, inner_id));
    CHECK_EQ(find("cached > cached", ids), 1);
    CHECK_EQ(ids[0], inner_id);
    CHECK_EQ(find("asked{tenant=bl*}", ids), 2);
    CHECK_EQ(find("asked{tenant=green}", ids), 0);
    CHECK_EQ(find("cached > asked", ids), 0);
    CHECK_EQ(sum("inuse_bytes", "cached"), all); /* the inner one counts once */
    CHECK_EQ(sum("inuse_bytes", "*{tenant=red}"), own + usable[1]);
    CHECK_EQ(sum("inuse_objects", "*{tenant=bl*}"), 5);
    CHECK_EQ(sum("inuse_bytes", "cached > cached"), malloc_usable_size(inner));
    CHECK_EQ(sum("enters", "asked"), 7);
    CHECK_EQ(sum("inuse_bytes", "nobody"), 0);
    CHECK_EQ(sum("opens", "asked {tenant=red} > cached"), 1);
    for (int i = 0; i < 3; i++) {
        free(request[i]);
        free(cache[i]);
    }
    free(inner);
    CHECK_EQ(sum("inuse_bytes", "asked"), 0);
    char longest[4096];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    const char *too_long = longest, *empty = "", *null = NULL, *some = "cached";
    uint64_t value;
    CHECK_EQ(mallctl("spans.find", NULL, &bytes, &some, sizeof some), 0);
    CHECK_EQ(bytes, 4 * sizeof *ids);
    bytes = 2 * sizeof *ids;
    ids[2] = 0xabcd;
    CHECK_EQ(mallctl("spans.find", ids, &bytes, &some, sizeof some), 0);
    CHECK(bytes == 2 * sizeof *ids && ids[2] == 0xabcd);
    CHECK_EQ(mallctl("spans.find", NULL, NULL, &some, sizeof some), EINVAL);
    CHECK_EQ(mallctl("spans.find", ids, &bytes, &some, 4), EINVAL);
    CHECK_EQ(mallctl("spans.find", ids, &bytes, NULL, 0), EINVAL);
    bytes = sizeof value;
    CHECK_EQ(mallctl("spans.sum.inuse_bytes", &value, &bytes, NULL, 0), EINVAL);
    CHECK_EQ(mallctl("spans.sum.inuse_bytes", &value, &bytes, &too_long, sizeof too_long), EINVAL);
    CHECK_EQ(mallctl("spans.sum.inuse_bytes", &value, &bytes, &empty, sizeof empty), EINVAL);
    CHECK_EQ(mallctl("spans.sum.inuse_bytes", &value, &bytes, &null, sizeof null), EINVAL);
    const char *malformed[] = {"asked{", "asked{b", "asked{tenant}", "asked{tenant=red", "asked}", "asked{tenant=red}x", "asked{}",
                                            "asked{=red}", "asked{tenant=red,}", "asked >", "> asked", "asked >> cached", " ", ">",
                                            "{tenant=red}", "asked{tenant=a>b}"};
    for (size_t i = 0; i < sizeof malformed / sizeof malformed[0]; i++) {
        CHECK_EQ(mallctl("spans.sum.inuse_bytes", &value, &bytes, &malformed[i], sizeof malformed[i]), EINVAL);
        CHECK_EQ(mallctl("spans.find", NULL, &bytes, &malformed[i], sizeof malformed[i]), EINVAL);
    }
    bytes = 4;
    CHECK_EQ(mallctl("spans.sum.inuse_bytes", &value, &bytes, &some, sizeof some), EINVAL);
    CHECK_EQ(mallctl("spans.sum.peak_bytes", &value, &bytes, &some, sizeof some), ENOENT);
}

static void dump(const char *name)
{
    char path[64], value[8];
    const char *argument = path, *empty = "", *missing = "/nonexistent/directory/x.pb.gz", *null = NULL;
    size_t length = sizeof value;
    uint64_t lost = ctl_u64("spans.stats.lost_dumps");
    CHECK_EQ(mallctl(name, value, &length, NULL, 0), EPERM);
    CHECK_EQ(mallctl(name, NULL, NULL, NULL, 0), EINVAL);
    CHECK_EQ(mallctl(name, NULL, NULL, &argument, 4), EINVAL);
    CHECK_EQ(mallctl(name, NULL, NULL, &null, sizeof null), EINVAL);
    CHECK_EQ(mallctl(name, NULL, NULL, &empty, sizeof empty), EINVAL);
    CHECK(mallctl(name, NULL, NULL, &missing, sizeof missing) != 0);
    CHECK_EQ(ctl_u64("spans.stats.lost_dumps"), lost + 1);
}

/* A name belongs to the caller for good, whatever happens to the context. */
static void text_stays(void)
{
    const char *name, *file;
    {
        JESPAN("passing");
        ctl_refresh();
        name = ctl_span_text(jespan_current(), "name");
        file = ctl_span_text(jespan_current(), "file");
    }
    for (int i = 0; i < 10; i++)
        ctl_refresh();
    CHECK(strcmp(name, "passing") == 0);
    CHECK(strcmp(file, __FILE__) == 0);
}

static void what_the_root_is(void)
{
    CHECK(strcmp(ctl_span_text(JESPAN_ROOT, "name"), "(root)") == 0);
    CHECK(strcmp(ctl_span_text(JESPAN_ROOT, "kind"), "root") == 0);
    CHECK_EQ(ctl_span(JESPAN_ROOT, "parent"), JESPAN_ROOT);
    CHECK(ctl_u64("spans.stats.threads") >= 1);
    CHECK(ctl_u64("spans.stats.contexts") >= 3);
    CHECK(ctl_u64("spans.stats.meta_bytes") > 0);
    CHECK(ctl_u64("spans.stats.header_bytes") > 0);
    CHECK(ctl_u64("spans.stats.mapped_bytes") >= ctl_u64("spans.all.inuse_bytes"));
    CHECK(ctl_u64("spans.stats.committed_bytes") > 0);
    CHECK(ctl_u64("spans.stats.committed_bytes") <= ctl_u64("spans.stats.mapped_bytes"));
}

static void null_arguments(void)
{
    static const char *const names[] = {"epoch", "spans.count", "thread.allocated", NULL};
    size_t mib[4], length = 4;
    CHECK_EQ(mallctl(NULL, NULL, NULL, NULL, 0), EINVAL);
    CHECK_EQ(mallctlnametomib(NULL, mib, &length), EINVAL);
    CHECK_EQ(mallctlbymib(NULL, 2, NULL, NULL, NULL, 0), EINVAL);
    for (const char *const *name = names; *name; name++) {
        CHECK_EQ(mallctlnametomib(*name, NULL, &length), EINVAL);
        CHECK_EQ(mallctlnametomib(*name, mib, NULL), EINVAL);
    }
    CHECK_EQ(length, 4);
    CHECK_EQ(mallctl("arenas.create", NULL, NULL, NULL, 0), EINVAL);
    CHECK_EQ(mallctl("tcache.create", &length, NULL, NULL, 0), EINVAL);
}

int main(void)
{
    every_name();
    null_arguments();
    unknown_names();
    wrong_mibs();
    mibs_of_services();
    mib_of_any_context();
    labels();
    epoch();
    live_and_as_of_epoch();
    identifiers();
    by_path();
    dump("spans.dump");
    dump("spans.dump_time");
    text_stays();
    what_the_root_is();
    return check_result();
}
