/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that is credited to another context: jespan_credit() and JESPAN_CREDIT(), case by case. The oracle does it
 * at random. */
#define _GNU_SOURCE
#include <jespan/limit.h>

#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <string.h>

#include "../support/cases.h"
#include "../support/ctl.h"

JESPAN_SITE(cache_site, "cache");
JESPAN_SITE(request_site, "request");

static jespan_span_t *cache_span, *request_span;
static jespan_context_t cache, request;

static jespan_context_t open_context(const struct jespan_site *site, jespan_span_t **span)
{
    *span = jespan_open(site, JESPAN_ROOT, NULL, 0);
    CHECK_EQ(jespan_enter(*span), 0);
    jespan_context_t id = jespan_current();
    CHECK_EQ(jespan_exit(*span), 0);
    return id;
}

static void open_both(void)
{
    cache = open_context(&cache_site, &cache_span);
    request = open_context(&request_site, &request_span);
}

static void *allocate_in(jespan_span_t *span, size_t bytes)
{
    CHECK_EQ(jespan_enter(span), 0);
    void *p = malloc(bytes);
    CHECK_EQ(jespan_exit(span), 0);
    return p;
}

/* Small, one slot a page, whole pages, huge. */
static void an_object_of_any_size_is_credited(void)
{
    static const size_t sizes[] = {1, 100, 4096, 5000, 20000, 1 << 20, 40 << 20};
    open_both();
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *p = allocate_in(request_span, sizes[i]);
        uint64_t usable = malloc_usable_size(p), allocated = ctl_span(request, "alloc_bytes");
        memset(p, 7, sizes[i]);
        CHECK_EQ(jespan_credit(p, cache), 0);
        CHECK_EQ(ctl_span(request, "inuse_bytes"), 0);
        CHECK_EQ(ctl_span(request, "inuse_objects"), 0);
        CHECK_EQ(ctl_span(request, "credited_out_objects"), i + 1);
        CHECK_EQ(ctl_span(request, "alloc_bytes"), allocated);
        CHECK_EQ(ctl_span(cache, "inuse_bytes"), usable);
        CHECK_EQ(ctl_span(cache, "inuse_objects"), 1);
        CHECK_EQ(ctl_span(cache, "credited_in_objects"), i + 1);
        CHECK_EQ(ctl_span(cache, "alloc_objects"), 0);
        CHECK_EQ(ctl_span(cache, "total.inuse_bytes"), usable);
        CHECK_EQ(malloc_usable_size(p), usable);
        CHECK_EQ(((char *)p)[sizes[i] - 1], 7);
        CHECK_EQ(jespan_credit(p, cache), 0); /* is there already */
        CHECK_EQ(ctl_span(cache, "credited_in_objects"), i + 1);
        ctl_check_identity("credited");
        free(p);
        CHECK_EQ(ctl_span(cache, "inuse_bytes"), 0);
        CHECK_EQ(ctl_span(cache, "free_objects"), i + 1);
        CHECK_EQ(ctl_span(request, "free_objects"), 0);
    }
    CHECK_EQ(ctl_span(cache, "credited_in_bytes"), ctl_span(request, "credited_out_bytes"));
    ctl_check_identity("end");
}

static void numbers_with_a_meaning(void)
{
    open_both();
    void *p = allocate_in(request_span, 64);
    jespan_context_t here = jespan_current();
    uint64_t before = ctl_span(here, "credited_in_objects");
    CHECK_EQ(jespan_credit(p, JESPAN_CURRENT), 0);
    CHECK_EQ(ctl_span(here, "credited_in_objects"), before + 1);
    CHECK_EQ(jespan_credit(p, request), 0);
    CHECK_EQ(jespan_enter(request_span), 0);
    CHECK_EQ(jespan_credit(p, JESPAN_BASE), 0);
    CHECK_EQ(jespan_exit(request_span), 0);
    CHECK_EQ(ctl_span(here, "credited_in_objects"), before + 2);
    before = ctl_span(JESPAN_ROOT, "credited_in_objects");
    CHECK_EQ(jespan_credit(p, JESPAN_ROOT), 0);
    CHECK_EQ(ctl_span(JESPAN_ROOT, "credited_in_objects"), before + 1);
    CHECK_EQ(ctl_span(here, "credited_out_objects"), 2);
    free(p);
}

/* JESPAN_BASE is the thread's context outside any span, JESPAN_ROOT the root of all contexts, in whatever call. */
static void base_and_root_everywhere(void)
{
    open_both();
    jespan_context_t base = jespan_current();
    CHECK(base != JESPAN_ROOT);
    CHECK_EQ(ctl_span(base, "parent"), JESPAN_ROOT);
    CHECK_EQ(jespan_enter(request_span), 0);
    jespan_span_t *below_base = jespan_open(&cache_site, JESPAN_BASE, NULL, 0); /* as outside any span */
    CHECK_EQ(jespan_enter(below_base), 0);
    CHECK_EQ(jespan_current(), cache);
    CHECK_EQ(ctl_span(cache, "parent"), JESPAN_ROOT);
    CHECK_EQ(jespan_exit(below_base), 0);
    CHECK_EQ(jespan_close(below_base), 0);
    CHECK_EQ(jespan_attach(JESPAN_ROOT), request);
    CHECK_EQ(jespan_current(), JESPAN_ROOT);
    uint64_t objects = ctl_span(JESPAN_ROOT, "inuse_objects");
    void *p = malloc(100);
    CHECK_EQ(ctl_span(JESPAN_ROOT, "inuse_objects"), objects + 1);
    CHECK_EQ(jespan_attach(JESPAN_BASE), JESPAN_ROOT);
    CHECK_EQ(jespan_current(), base);
    free(p);
    {
        JESPAN_CREDIT(JESPAN_ROOT);
        CHECK_EQ(jespan_current(), JESPAN_ROOT);
    }
    CHECK_EQ(jespan_exit(request_span), 0);
    CHECK_EQ(jespan_set_limit(JESPAN_BASE, 0, 1 << 30), 0);
    CHECK_EQ(ctl_span(base, "limit_hard"), 1 << 30);
    CHECK_EQ(ctl_span(JESPAN_ROOT, "limit_hard"), 0);
    CHECK_EQ(jespan_set_limit(JESPAN_BASE, 0, 0), 0);
    CHECK_EQ(jespan_set_limit(JESPAN_ROOT, 0, 1 << 30), 0);
    CHECK_EQ(ctl_span(base, "limit_hard"), 0);
    CHECK_EQ(ctl_span(JESPAN_ROOT, "limit_hard"), 1 << 30);
    CHECK_EQ(jespan_set_limit(JESPAN_ROOT, 0, 0), 0);
}

static void what_is_wrong_changes_nothing(void)
{
    static char ours;
    open_both();
    char on_stack, *p = allocate_in(request_span, 100), *gone = allocate_in(request_span, 3 << 20);
    errno = 77;
    CHECK_EQ(jespan_credit(NULL, cache), 0);
    CHECK_EQ(jespan_credit(&ours, cache), EINVAL);
    CHECK_EQ(jespan_credit(&on_stack, cache), EINVAL);
    CHECK_EQ(jespan_credit((void *)-1, cache), EINVAL);
    CHECK_EQ(jespan_credit((void *)8, cache), EINVAL);
    CHECK_EQ(jespan_credit(p, 77777), EINVAL);
    CHECK_EQ(jespan_credit(p, JESPAN_INVALID), EINVAL);
    CHECK_EQ(jespan_credit(NULL, 77777), 0);
    free(gone);
    CHECK_EQ(jespan_credit(gone, cache), EINVAL);
    CHECK_EQ(errno, 77);
    CHECK_EQ(ctl_span(cache, "credited_in_objects"), 0);
    CHECK_EQ(ctl_span(request, "credited_out_objects"), 0);
    CHECK_EQ(ctl_span(request, "inuse_objects"), 1);
    free(p);
}

/* Memory keeps the context that it is credited to from being recycled, though that was closed. */
static void credited_memory_keeps_its_context(void)
{
    open_both();
    void *p = allocate_in(request_span, 1000);
    struct jespan_label label = {"entry", "1"};
    jespan_span_t *span = jespan_open(&cache_site, JESPAN_ROOT, &label, 1);
    CHECK_EQ(jespan_enter(span), 0);
    jespan_context_t id = jespan_current();
    CHECK_EQ(jespan_credit(p, JESPAN_CURRENT), 0);
    CHECK_EQ(jespan_exit(span), 0);
    CHECK_EQ(jespan_close(span), 0);
    for (int i = 0; i < 1000; i++) {
        char text[16];
        snprintf(text, sizeof text, "%d", i);
        struct jespan_label other = {"other", text};
        CHECK_EQ(jespan_close(jespan_open(&cache_site, JESPAN_ROOT, &other, 1)), 0);
    }
    CHECK(ctl_u64("spans.stats.recycled") > 0);
    CHECK_EQ(ctl_span(id, "inuse_bytes"), 1024);
    CHECK_EQ(ctl_span(id, "outlived_bytes"), 1024);
    free(p);
}

static void a_block_credits_another_context(void)
{
    open_both();
    void *p, *q, *r;
    CHECK_EQ(jespan_enter(request_span), 0);
    {
        JESPAN_CREDIT(cache);
        CHECK_EQ(jespan_current(), cache);
        p = malloc(100);
        {
            JESPAN_CREDIT(JESPAN_BASE);
            q = malloc(100);
        }
        CHECK_EQ(jespan_current(), cache);
        JESPAN("inside"); /* a span below the cache */
        CHECK_EQ(ctl_span(jespan_current(), "parent"), cache);
        r = malloc(200);
    }
    CHECK_EQ(jespan_current(), request);
    CHECK_EQ(jespan_exit(request_span), 0);
    CHECK_EQ(ctl_span(cache, "inuse_objects"), 1);
    CHECK_EQ(ctl_span(cache, "total.inuse_objects"), 2);
    CHECK_EQ(ctl_span(request, "alloc_objects"), 0);
    CHECK_EQ(ctl_span(cache, "alloc_bytes"), malloc_usable_size(p));
    CHECK_EQ(ctl_span(cache, "opens"), 1);
    free(p);
    free(q);
    free(r);
}

static void a_context_that_does_not_exist(void)
{
    open_both();
    CHECK_EQ(jespan_enter(request_span), 0);
    {
        JESPAN_CREDIT(77777);
        CHECK_EQ(jespan_current(), request);
        free(malloc(64));
    }
    {
        JESPAN_CREDIT(JESPAN_INVALID);
        CHECK_EQ(jespan_current(), request);
    }
    CHECK_EQ(jespan_current(), request);
    CHECK_EQ(jespan_exit(request_span), 0);
    CHECK_EQ(jespan_exit(request_span), EPERM);
}

static jmp_buf outside;

static void jump_out(void)
{
    JESPAN_CREDIT(cache);
    longjmp(outside, 1);
}

/* As with JESPAN(): what was jumped out of ends with the enclosing block. */
static void a_jump_out_of_the_block(void)
{
    open_both();
    jespan_context_t before = jespan_current();
    {
        JESPAN("enclosing");
        if (!setjmp(outside))
            jump_out();
    }
    CHECK_EQ(jespan_current(), before);
    free(malloc(10));
    CHECK_EQ(ctl_span(cache, "inuse_objects"), 0);
}

/* Spans entered inside the block and left outside, and the other way round. */
static void blocks_and_spans_that_cross(void)
{
    open_both();
    jespan_context_t before = jespan_current();
    CHECK_EQ(jespan_enter(request_span), 0);
    {
        JESPAN_CREDIT(cache);
        CHECK_EQ(jespan_exit(request_span), 0);
        CHECK_EQ(jespan_current(), cache);
        CHECK_EQ(jespan_enter(request_span), 0);
        CHECK_EQ(jespan_current(), request);
    }
    CHECK_EQ(jespan_current(), request);
    CHECK_EQ(jespan_exit(request_span), 0);
    CHECK_EQ(jespan_current(), before);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"an_object_of_any_size_is_credited", an_object_of_any_size_is_credited, NULL, NULL},
        {"numbers_with_a_meaning", numbers_with_a_meaning, NULL, NULL},
        {"base_and_root_everywhere", base_and_root_everywhere, NULL, NULL},
        {"what_is_wrong_changes_nothing", what_is_wrong_changes_nothing, NULL, NULL},
        {"credited_memory_keeps_its_context", credited_memory_keeps_its_context, NULL, "max_contexts:64"},
        {"a_block_credits_another_context", a_block_credits_another_context, NULL, NULL},
        {"a_context_that_does_not_exist", a_context_that_does_not_exist, NULL, NULL},
        {"a_jump_out_of_the_block", a_jump_out_of_the_block, NULL, NULL},
        {"blocks_and_spans_that_cross", blocks_and_spans_that_cross, NULL, NULL},
        {"an_object_of_any_size_is_credited, with ages", an_object_of_any_size_is_credited, NULL, "age_period_s:1"},
    };
    return cases_main(argc, argv, cases, sizeof cases / sizeof cases[0]);
}
