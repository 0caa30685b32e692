/* SPDX-License-Identifier: BSD-2-Clause */
/* However many spans pass, no figure is dropped, no number is given to another context while memory refers to it, and
 * no memory stays behind. After each phase an old leak is still credited to the span that made it.
 *
 * RETENTION_SPANS: spans in each phase (10,000,000; with a sanitizer 300,000). The program runs itself again with
 * max_contexts:256.
 */
#define _GNU_SOURCE
#include <fcntl.h>

#include "../support/cases.h"
#include "../support/maps.h"
#include "../support/spans.h"

#define LEAKS 20

static uint64_t n_spans;
static void *leaks[LEAKS];
static jespan_context_t leak_ids[LEAKS];

static void make_leaks(void)
{
    for (long i = 0; i < LEAKS; i++)
        leaks[i] = spans_leak("old leak", i, 1000 + (size_t)i, &leak_ids[i]);
}

static void check_leaks(const char *where)
{
    for (int i = 0; i < LEAKS; i++) {
        CHECK(strcmp(ctl_span_text(leak_ids[i], "name"), "old leak") == 0);
        CHECK_EQ(ctl_span(leak_ids[i], "alloc_requested_bytes"), 1000 + i);
        spans_check_inuse(leak_ids[i], 1, F(malloc_usable_size)(leaks[i]), where);
    }
}

static void is_no_leaks(jespan_context_t id, uint64_t n)
{
    if (id == leak_ids[n % LEAKS] || id == leak_ids[(n + 7) % LEAKS])
        check_fail("span %llu got the id of an old leak", (unsigned long long)n);
}

/* Memory that spans still hold when the next ones come. Each object is freed 100 spans later, in the span that is then
 * current. */
#define HELD 100
static void *held[HELD];

static uint64_t one_span(uint64_t n)
{
    size_t bytes = 16 + n % 2000;
    jespan_span_t *span = spans_open("short", (long)n, JESPAN_ROOT);
    CHECK_EQ(jespan_enter(span), 0);
    is_no_leaks(jespan_current(), n);
    F(free)(held[n % HELD]);
    held[n % HELD] = F(malloc)(bytes);
    CHECK_EQ(jespan_exit(span), 0);
    jespan_close(span);
    return bytes;
}

static void drop_held(void)
{
    for (int i = 0; i < HELD; i++) {
        F(free)(held[i]);
        held[i] = NULL;
    }
}

/* With max_contexts:256. The leaks take 20 contexts, and held memory takes 100. */
static void few_slots(void)
{
    uint64_t expected = 0, before = ctl_u64("spans.all.alloc_requested_bytes");
    make_leaks();
    for (int i = 0; i < LEAKS; i++)
        expected += 1000 + (uint64_t)i;
    for (uint64_t n = 0; n < n_spans; n++)
        expected += one_span(n);
    check_leaks("after short spans over few slots");
    CHECK_EQ(ctl_u64("spans.all.alloc_requested_bytes") - before, expected);
    CHECK(ctl_u64("spans.stats.recycled") > n_spans - 256);
    CHECK_EQ(ctl_u64("spans.stats.overflow"), 0);
    drop_held();
    CHECK_EQ(ctl_u64("spans.retired.inuse_bytes"), 0);
    ctl_check_identity("after short spans over few slots");
    check_note("retention: few slots: %llu spans, %llu contexts recycled", (unsigned long long)n_spans,
               (unsigned long long)ctl_u64("spans.stats.recycled"));
}

/* With the default max_contexts. When so many contexts were made, memory does not grow any more. */
static void own_memory_is_flat(void)
{
    const uint64_t warm = 200000;
    make_leaks();
    for (uint64_t n = 0; n < warm; n++)
        one_span(n);
    uint64_t meta = ctl_u64("spans.stats.meta_bytes"), map = ctl_u64("spans.stats.map_bytes"), rss = rss_bytes();
    for (uint64_t n = warm; n < warm + n_spans; n++)
        one_span(n);
    uint64_t meta_after = ctl_u64("spans.stats.meta_bytes"), map_after = ctl_u64("spans.stats.map_bytes"),
             rss_after = rss_bytes();
    /* jemalloc may go on in the next GiB of addresses, for which the page map needs a leaf of 2.75 MiB. */
    if (meta_after > meta + 65536 || map_after > map + ((uint64_t)3 << 20))
        check_fail("own memory grew from %llu to %llu, mappings from %llu to %llu", (unsigned long long)meta,
                   (unsigned long long)meta_after, (unsigned long long)map, (unsigned long long)map_after);
    if (FAMILY_INTERPOSED && rss_after > rss + ((uint64_t)2 << 20)) /* the memory of a sanitizer itself grows */
        check_fail("RSS grew from %llu to %llu", (unsigned long long)rss, (unsigned long long)rss_after);
    CHECK_EQ(ctl_u64("spans.stats.overflow"), 0);
    CHECK(ctl_u64("spans.stats.contexts") <= 131072);
    check_leaks("after distinct labelled spans");
    drop_held();
    ctl_check_identity("after distinct labelled spans");
    check_note("retention: distinct labels: %llu spans, own memory %llu to %llu bytes, RSS %llu to %llu",
               (unsigned long long)n_spans, (unsigned long long)meta, (unsigned long long)meta_after,
               (unsigned long long)rss, (unsigned long long)rss_after);
}

int main(int argc, char **argv)
{
    n_spans = check_rounds("RETENTION_SPANS", FAMILY_INTERPOSED ? 10000000 : 300000);
    if (argc > 1) {
        few_slots();
        return check_result();
    }
    own_memory_is_flat();
    pid_t pid = fork();
    if (pid == 0) {
        setenv("JESPAN_CONF", "max_contexts:256", 1);
        execl("/proc/self/exe", "retention", "few", NULL);
        _exit(127);
    }
    CHECK_CHILD(pid);
    (void)argv;
    return check_result();
}
