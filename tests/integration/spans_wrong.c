/* SPDX-License-Identifier: BSD-2-Clause */
/* Wrong, huge and stale arguments to each function of the span API: it returns an error, does not crash, and changes
 * nothing. */
#define _GNU_SOURCE
#include <pthread.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"

#define UNTOUCHED 12345
#define MEGABYTE ((size_t)1 << 20)

JESPAN_SITE(site, "right");

/* Handles that jespan_open() never returned: NULL, small and huge numbers, addresses of the stack, of code and of the
 * heap. */
static jespan_span_t *garbage(int i, void *heap)
{
    static int data[64];
    void *stack = opaque_pointer(&i);
    void *const all[] = {NULL, (void *)1, (void *)8, (void *)64, (void *)0x100000001, (void *)(UINTPTR_MAX / 2),
                         (void *)UINTPTR_MAX, (void *)0xffffffff00000000, data, (char *)data + 1, stack, heap,
                         (char *)heap + 3, (void *)(uintptr_t)garbage};
    return i < (int)(sizeof all / sizeof *all) ? all[i] : (jespan_span_t *)-2;
}

static void handles(void)
{
    void *heap = F(calloc)(1, 4096);
    jespan_context_t base = jespan_current();
    for (int i = 0; garbage(i, heap) != (jespan_span_t *)-2; i++) {
        jespan_span_t *wrong = garbage(i, heap);
        errno = UNTOUCHED;
        if (jespan_enter(wrong) != EINVAL)
            check_fail("jespan_enter(%p) is not EINVAL", (void *)wrong);
        int result = jespan_exit(wrong);
        if (result != EINVAL && result != EPERM)
            check_fail("jespan_exit(%p) is %d", (void *)wrong, result);
        jespan_close(wrong);
        CHECK_EQ(errno, UNTOUCHED);
        CHECK_EQ(jespan_current(), base);
    }
    F(free)(heap);
}

/* A handle that was closed never becomes another span's. */
static void stale_handles(void)
{
    enum { COUNT = 3000 };
    static jespan_span_t *old[COUNT];
    jespan_context_t base = jespan_current();
    for (int i = 0; i < COUNT; i++) {
        old[i] = jespan_open(&site, JESPAN_ROOT, NULL, 0);
        jespan_close(old[i]);
    }
    jespan_span_t *open = jespan_open(&site, JESPAN_ROOT, NULL, 0);
    errno = UNTOUCHED;
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQ(jespan_enter(old[i]), EINVAL);
        int result = jespan_exit(old[i]);
        CHECK(result == EPERM || result == EINVAL);
        jespan_close(old[i]);
    }
    CHECK_EQ(errno, UNTOUCHED);
    CHECK_EQ(jespan_exit(open), EPERM);
    CHECK_EQ(jespan_enter(open), 0);
    CHECK_EQ(jespan_exit(open), 0);
    jespan_close(open);
    CHECK_EQ(jespan_current(), base);
}

static void *exit_elsewhere(void *span)
{
    CHECK_EQ(jespan_exit(span), EPERM);
    return NULL;
}

/* A span that is entered on one thread is not entered on another. */
static void other_thread(void)
{
    pthread_t thread;
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, NULL, 0);
    CHECK_EQ(jespan_enter(span), 0);
    CHECK_EQ(pthread_create(&thread, NULL, exit_elsewhere, span), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(jespan_exit(span), 0);
    jespan_close(span);
}

#define OPEN_FAILS(...)                                                                                                \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        CHECK(jespan_open(__VA_ARGS__) == NULL);                                                                       \
        CHECK_EQ(errno, EINVAL);                                                                                       \
    } while (0)

static void sites_and_parents(void)
{
    struct jespan_site nameless = {NULL, "target", "file", 1};
    OPEN_FAILS(NULL, JESPAN_ROOT, NULL, 0);
    OPEN_FAILS(&nameless, JESPAN_ROOT, NULL, 0);
    OPEN_FAILS(&site, JESPAN_INVALID, NULL, 0);
    OPEN_FAILS(&site, 0x7fffffff, NULL, 0);
    OPEN_FAILS(&site, 131072 * 2, NULL, 0);
    OPEN_FAILS(&site, (jespan_context_t)ctl_u64("spans.count") + 100000, NULL, 0);
}

static void labels(void)
{
    struct jespan_label keyless = {NULL, "v"}, valueless = {"k", NULL}, many[JESPAN_MAX_LABELS + 4];
    OPEN_FAILS(&site, JESPAN_ROOT, NULL, 1);
    OPEN_FAILS(&site, JESPAN_ROOT, NULL, SIZE_MAX);
    OPEN_FAILS(&site, JESPAN_ROOT, &keyless, 1);
    OPEN_FAILS(&site, JESPAN_ROOT, &valueless, 1);
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        many[i] = (struct jespan_label){"k", "v"};
    many[3] = valueless;
    OPEN_FAILS(&site, JESPAN_ROOT, many, JESPAN_MAX_LABELS + 4);
    many[3] = many[0];
    uint64_t truncated = ctl_u64("spans.stats.truncated");
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, many, JESPAN_MAX_LABELS + 4);
    CHECK(span != NULL);
    CHECK(ctl_u64("spans.stats.truncated") > truncated);
    jespan_close(span);
}

/* Counts of labels that are far too large. jespan reads only as many labels as it can keep. */
static void huge_counts(void)
{
    struct jespan_label many[JESPAN_MAX_LABELS];
    for (size_t i = 0; i < JESPAN_MAX_LABELS; i++)
        many[i] = (struct jespan_label){"k", "v"};
    static const size_t counts[] = {SIZE_MAX, SIZE_MAX / 2, SIZE_MAX / sizeof(struct jespan_label) + 2};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, many, counts[i]);
        CHECK(span || errno == EINVAL);
        jespan_close(span);
    }
}

static void long_strings(void)
{
    char *text = F(malloc)(MEGABYTE + 1);
    memset(text, 'x', MEGABYTE);
    text[MEGABYTE] = '\0';
    struct jespan_label label = {text, text};
    struct jespan_site long_site = {text, text, text, UINT32_MAX};
    uint64_t truncated = ctl_u64("spans.stats.truncated");
    jespan_span_t *span = jespan_open(&long_site, JESPAN_ROOT, &label, 1);
    CHECK(span != NULL);
    CHECK(ctl_u64("spans.stats.truncated") > truncated);
    CHECK_EQ(jespan_enter(span), 0);
    ctl_refresh();
    CHECK_EQ(strlen(ctl_span_text(jespan_current(), "name")), JESPAN_MAX_STRING_BYTES);
    CHECK_EQ(strlen(ctl_span_text(jespan_current(), "file")), JESPAN_MAX_STRING_BYTES);
    CHECK_EQ(jespan_exit(span), 0);
    jespan_close(span);
    F(free)(text);
}

static void empty_strings(void)
{
    struct jespan_site empty = {"", "", "", 0}, bare = {"bare", NULL, NULL, 0};
    struct jespan_label label = {"", ""};
    jespan_close(jespan_open(&empty, JESPAN_ROOT, &label, 1)); /* NULL with EINVAL and a span are both correct */
    jespan_span_t *span = jespan_open(&bare, JESPAN_ROOT, NULL, 0);
    CHECK(span != NULL);
    jespan_close(span);
}

static void attachments(void)
{
    static const jespan_context_t wrong[] = {JESPAN_INVALID, 0x7fffffff, 131072, 131072 * 3, 1u << 24};
    jespan_context_t base = jespan_current();
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        errno = 0;
        CHECK_EQ(jespan_attach(wrong[i]), JESPAN_INVALID);
        CHECK_EQ(errno, EINVAL);
        CHECK_EQ(jespan_current(), base);
    }
}

/* The functions behind JESPAN(), called with wrong arguments. */
static void scopes(void)
{
    jespan_context_t base = jespan_current();
    const char *odd[] = {"name", "key"}, *nothing[] = {"name", NULL, NULL}, *fine[] = {"name", "key", "value"};
    const struct {
        const struct jespan_site *site;
        const char *const *names;
        size_t count;
    } cases[] = {{NULL, fine, 3}, {&site, NULL, 3}, {&site, odd, 2}, {&site, nothing, 3}, {&site, fine, 0}, {NULL, NULL, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct jespan_block scope = {0};
        jespan_enter_block(&scope, cases[i].site, cases[i].names, cases[i].count);
        jespan_exit_block(&scope);
        CHECK_EQ(jespan_current(), base);
    }
    struct jespan_block never = {0};
    jespan_exit_block(&never);
    jespan_exit_block(NULL);
    jespan_enter_block(NULL, &site, fine, 3);
    jespan_exit_block(NULL);
    CHECK_EQ(jespan_current(), base);
}

int main(void)
{
    handles();
    stale_handles();
    other_thread();
    sites_and_parents();
    labels();
    huge_counts();
    long_strings();
    empty_strings();
    attachments();
    scopes();
    ctl_check_identity("the end");
    return check_result();
}
