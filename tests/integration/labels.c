/* SPDX-License-Identifier: BSD-2-Clause */
/* Labels: values of all types, labels that are added to open spans, and labels that record_labels leaves out. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdbool.h>

#include <jespan/jespan.h>

#include "../support/cases.h"
#include "../support/ctl.h"

JESPAN_SITE(site, "request");

static const struct jespan_label blue = JESPAN_LABEL("tenant", "blue");

static jespan_context_t context_of(const struct jespan_label *labels, size_t n)
{
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, labels, n);
    CHECK_EQ(jespan_enter(span), 0);
    jespan_context_t id = jespan_current();
    CHECK_EQ(jespan_exit(span), 0);
    jespan_close(span);
    return id;
}

static void *free_it(void *p)
{
    free(p);
    return NULL;
}

static void free_elsewhere(void *p)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, free_it, p), 0);
    pthread_join(thread, NULL);
}

/* Another profiler forgets them. Here, what comes later is credited to the span with its label, and what came before
 * stays where it was, until it is freed by whomever. */
static void labels_set_later_are_lost(void)
{
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, NULL, 0);
    CHECK_EQ(jespan_enter(span), 0);
    jespan_context_t before = jespan_current();
    void *early = malloc(100);
    CHECK_EQ(jespan_add_label(span, &blue), 0);
    jespan_context_t after = jespan_current();
    void *late = malloc(3000), *later = malloc(50);
    CHECK_EQ(jespan_exit(span), 0);
    CHECK(after != before);
    CHECK_EQ(after, context_of(&blue, 1));
    CHECK_EQ(ctl_span(before, "inuse_objects"), 1);
    CHECK_EQ(ctl_span(after, "inuse_objects"), 2);
    CHECK_EQ(ctl_span(after, "inuse_bytes"), malloc_usable_size(late) + malloc_usable_size(later));
    CHECK_EQ(ctl_span(before, "parent"), ctl_span(after, "parent"));
    CHECK(strcmp(ctl_span_text(after, "name"), "request") == 0);
    jespan_close(span);
    free_elsewhere(early);
    free_elsewhere(late);
    free(later);
    CHECK_EQ(ctl_span(before, "inuse_objects"), 0);
    CHECK_EQ(ctl_span(after, "inuse_objects"), 0);
    ctl_check_identity("after labels set later");
}

/* The same in a block, below which there is another. */
static void in_blocks(void)
{
    void *p[3];
    jespan_context_t ids[3];
    {
        JESPAN("outer");
        CHECK_EQ(jespan_add_label(NULL, &blue), 0);
        ids[0] = jespan_current();
        p[0] = malloc(10);
        {
            JESPAN_WITH("inner", JESPAN_LABEL("route", "/"), JESPAN_LABEL_INT("shard", 7));
            ids[1] = jespan_current();
            p[1] = malloc(20);
            const struct jespan_label retries = JESPAN_LABEL_INT("retries", 1);
            CHECK_EQ(jespan_add_label(NULL, &retries), 0);
            ids[2] = jespan_current();
            p[2] = malloc(30);
        }
        CHECK_EQ(jespan_current(), ids[0]);
    }
    CHECK(ids[1] != ids[2]);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(ctl_span(ids[i], "inuse_objects"), 1);
        CHECK_EQ(ctl_span(ids[i], "parent"), i ? ids[0] : JESPAN_ROOT);
        free(p[i]);
    }
    CHECK_EQ(jespan_add_label(NULL, &blue), EPERM);
}

/* With age_period_s:1, and record_labels, which must not touch the periods. The thread is still inside when one ends. */
static void across_periods(void)
{
    jespan_context_t before, after;
    void *p[3];
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, NULL, 0);
    CHECK_EQ(jespan_enter(span), 0);
    {
        JESPAN("block");
        before = jespan_current();
        p[0] = malloc(100);
        usleep(1100000);
        for (int i = 0; i < 100000; i++)
            free(malloc(1 << 16)); /* now and then it looks at the clock */
        p[1] = malloc(200);
        CHECK_EQ(jespan_add_label(NULL, &blue), 0);
        after = jespan_current();
        p[2] = malloc(300);
        CHECK(after != before);
    }
    CHECK_EQ(jespan_add_label(span, &blue), 0);
    CHECK_EQ(jespan_current(), context_of(&blue, 1));
    CHECK_EQ(jespan_exit(span), 0);
    jespan_close(span);
    ctl_refresh();
    CHECK_EQ(ctl_span(before, "inuse_objects"), 2);
    CHECK_EQ(ctl_span(after, "inuse_objects"), 1);
    CHECK_EQ(ctl_span(before, "parent"), ctl_span(after, "parent"));
    for (int i = 0; i < 3; i++)
        free(p[i]);
    CHECK_EQ(ctl_span(before, "inuse_objects"), 0);
    CHECK_EQ(ctl_span(after, "inuse_objects"), 0);
    ctl_check_identity("after periods");
}

static void types_are_told_apart(void)
{
    const struct jespan_label text = JESPAN_LABEL("shard", "7"), number = JESPAN_LABEL_INT("shard", 7),
                              plain = {"shard", "7"}, other = JESPAN_LABEL_INT("shard", -7);
    CHECK_EQ(context_of(&text, 1), context_of(&plain, 1));
    CHECK(context_of(&text, 1) != context_of(&number, 1));
    CHECK(context_of(&other, 1) != context_of(&number, 1));
}

/* With record_labels:route|shard, nothing else is part of what a context is. */
static void recorded_ones_count(void)
{
    const struct jespan_label all[] = {JESPAN_LABEL("user", "joe"), JESPAN_LABEL("route", "/"),
                                       JESPAN_LABEL_INT("request", 1), JESPAN_LABEL_INT("shard", 7)};
    const struct jespan_label listed[] = {all[1], all[3]};
    uint64_t made = ctl_u64("spans.stats.contexts");
    jespan_context_t id = context_of(listed, 2);
    CHECK_EQ(context_of(all, 4), id);
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, &all[1], 1);
    CHECK_EQ(jespan_enter(span), 0);
    CHECK_EQ(jespan_add_label(span, &all[0]), 0);
    CHECK_EQ(jespan_current(), context_of(&all[1], 1));
    CHECK_EQ(jespan_add_label(span, &(struct jespan_label){"user", NULL}), 0);
    CHECK_EQ(jespan_add_label(span, &(struct jespan_label){"route", NULL}), EINVAL);
    CHECK_EQ(jespan_add_label(span, &all[3]), 0);
    CHECK_EQ(jespan_current(), id);
    CHECK_EQ(jespan_exit(span), 0);
    jespan_close(span);
    for (int i = 0; i < 1000; i++) {
        char user[16];
        snprintf(user, sizeof user, "%d", i);
        JESPAN("served", "user", user);
        CHECK_EQ(jespan_add_label(NULL, &(struct jespan_label)JESPAN_LABEL_INT("request", i)), 0);
    }
    CHECK_EQ(ctl_u64("spans.stats.contexts"), made + 3);
}

static void from_a_header(void)
{
    struct jespan_traceparent t;
    CHECK_EQ(jespan_parse_traceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", &t), 0);
    const struct jespan_label expected[] = {{"trace_id", "4bf92f3577b34da6a3ce929d0e0e4736"},
                                            {"span_id", "00f067aa0ba902b7"}};
    const struct jespan_label labels[] = {JESPAN_TRACE_LABELS(t)};
    CHECK_EQ(context_of(labels, 2), context_of(expected, 2));
    JESPAN_WITH("traced", JESPAN_LABEL("route", "/"), JESPAN_TRACE_LABELS(t));
    CHECK(jespan_current() != JESPAN_ROOT);
}

/* With limit:request{tenant=blue}=64K, which must hold whenever the block is entered. */
static void blocks_keep_their_limit(void)
{
    void *held[100];
    for (int round = 0; round < 6; round++) {
        JESPAN("request", "tenant", round % 3 ? "blue" : "red");
        int refused = 0;
        for (int i = 0; i < 100; i++)
            refused += !(held[i] = malloc(1000));
        CHECK_EQ(refused, round % 3 ? 36 : 0); /* 64 usable sizes of 1024 */
        for (int i = 0; i < 100; i++)
            free(held[i]);
    }
}

static uint32_t next_random(uint32_t n)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}

/* Writes one of few values, all of them to the same few buffers. Many differ only in the middle, or in where they end. */
static const char *random_value(char *buffer)
{
    static const int lengths[] = {0, 1, 2, 3, 4, 7, 8, 9, 17, 40, 130, 152, 300};
    int n = lengths[next_random(sizeof lengths / sizeof *lengths)];
    memset(buffer, 'a', (size_t)n);
    buffer[n] = '\0';
    if (n)
        buffer[n / 2] = (char)('b' + next_random(3));
    return buffer;
}

static const char *random_key(void)
{
    static const char *const keys[] = {"tenant", "tenan", "t", "aa", "a"};
    return keys[next_random(sizeof keys / sizeof *keys)];
}

/* Small numbers, and some whose bytes are those of a value of 8 characters. */
static int64_t random_integer(void)
{
    char text[9] = "aaaaaaaa";
    int64_t n = (int64_t)next_random(4);
    text[4] = (char)('b' + next_random(3));
    if (next_random(2))
        memcpy(&n, text, sizeof n);
    return n;
}

/* The context of a block must not depend on the blocks that its thread entered before. */
static void blocks_are_in_the_context_of_spans(void)
{
    static char buffers[18][301];
    for (int round = 0; round < 20000; round++) {
        struct jespan_label labels[18];
        const char *pairs[37] = {"request"};
        size_t n = next_random(8) ? next_random(3) : next_random(19);
        bool integers = next_random(2);
        for (size_t i = 0; i < n; i++) {
            labels[i] = (struct jespan_label)JESPAN_LABEL(random_key(), random_value(buffers[i]));
            if (integers && next_random(2))
                labels[i] = (struct jespan_label)JESPAN_LABEL_INT(random_key(), random_integer());
            pairs[1 + 2 * i] = labels[i].key;
            pairs[2 + 2 * i] = labels[i].value;
        }
        struct jespan_block block;
        if (integers)
            jespan_enter_block_labels(&block, &site, labels, n);
        else
            jespan_enter_block(&block, &site, pairs, 1 + 2 * n);
        jespan_context_t id = jespan_current();
        void *p = malloc(100);
        jespan_exit_block(&block);
        CHECK_EQ(id, context_of(labels, n));
        free(p);
    }
    ctl_check_identity("after blocks");
}

static jespan_context_t context_of_block(const struct jespan_site *where, const char *const *pairs, size_t count)
{
    struct jespan_block block;
    jespan_enter_block(&block, where, pairs, count);
    jespan_context_t id = jespan_current();
    jespan_exit_block(&block);
    return id;
}

/* A site may lie in memory that is used again, and so may its texts. Constants of the program do not change. */
static void sites_are_known_by_their_contents(void)
{
    static char texts[3][301];
    const char *pairs[] = {"reused", "tenant", "blue"};
    struct jespan_site reused = {texts[0], texts[1], texts[2], 0}, constant = {"reused", "labels", "labels.c", 0};
    for (int round = 0; round < 3000; round++) {
        static char other[3][301]; /* at another place than `texts`, so no cache has it by address */
        for (int i = 0; i < 3; i++)
            strcpy(other[i], random_value(texts[i]));
        reused.line = next_random(2);
        struct jespan_site copy = {other[0], other[1], other[2], reused.line};
        size_t count = next_random(2) ? 1 : 3;
        jespan_span_t *span = jespan_open(&copy, JESPAN_ROOT, &blue, count / 3);
        CHECK_EQ(jespan_enter(span), 0);
        jespan_context_t expected = jespan_current();
        CHECK_EQ(jespan_exit(span), 0);
        jespan_close(span);
        CHECK_EQ(context_of_block(&reused, pairs, count), expected);
    }
    jespan_context_t id = context_of_block(&constant, pairs, 1);
    constant.name = "another";
    CHECK(context_of_block(&constant, pairs, 1) != id);
    constant.name = "reused";
    CHECK_EQ(context_of_block(&constant, pairs, 1), id);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"labels_set_later_are_lost", labels_set_later_are_lost, NULL, NULL},
        {"in_blocks", in_blocks, NULL, NULL},
        {"labels_set_later_with_ages", labels_set_later_are_lost, NULL, "age_period_s:1"},
        {"in_blocks_with_ages", in_blocks, NULL, "age_period_s:1"},
        {"across_periods", across_periods, NULL, "age_period_s:1,record_labels:tenant"},
        {"types_are_told_apart", types_are_told_apart, NULL, NULL},
        {"recorded_ones_count", recorded_ones_count, NULL, "record_labels:route|shard"},
        {"from_a_header", from_a_header, NULL, NULL},
        {"blocks", blocks_are_in_the_context_of_spans, NULL, NULL},
        {"blocks_recycled", blocks_are_in_the_context_of_spans, NULL, "contexts_kept:300"},
        {"blocks_recorded", blocks_are_in_the_context_of_spans, NULL, "record_labels:tenant|a"},
        {"blocks_of_limits", blocks_are_in_the_context_of_spans, NULL, "limit:request{tenant=a*}=1G"},
        {"sites", sites_are_known_by_their_contents, NULL, NULL},
        {"blocks_limited", blocks_keep_their_limit, NULL, "limit:request{tenant=blue}=64K"},
    };
    return cases_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
