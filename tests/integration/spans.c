/* SPDX-License-Identifier: BSD-2-Clause */
/* The span API: nesting, order, blocks, attachment, and credit. Wrong arguments are in spans_wrong.c, limits and
 * recycling in spans_bounded.c. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>

#include <jespan/jespan.h>

#include "../support/ctl.h"
#include "../support/spans.h"

#define DEEP 100000

JESPAN_SITE(site_a, "a");
JESPAN_SITE(site_b, "b");
JESPAN_SITE(site_c, "c");

#define CURRENT_IS(id) CHECK_EQ(jespan_current(), (id))

static jespan_span_t *open_at(const struct jespan_site *site, jespan_context_t parent)
{
    jespan_span_t *span = jespan_open(site, parent, NULL, 0);
    if (!span)
        check_fail("jespan_open(%s, %u): %s", site->name, parent, strerror(errno));
    return span;
}

/* Each level is a context of its own, below the level before. */
static void deep_nesting(void)
{
    static jespan_span_t *spans[DEEP];
    static jespan_context_t ids[DEEP + 1];
    ids[0] = jespan_current();
    for (int i = 0; i < DEEP; i++) {
        spans[i] = open_at(&site_a, JESPAN_CURRENT);
        CHECK_EQ(jespan_enter(spans[i]), 0);
        ids[i + 1] = jespan_current();
    }
    CHECK_EQ(ctl_u64("spans.stats.overflow"), 0);
    void *p = F(malloc)(100);
    CHECK_EQ(ctl_span(ids[DEEP], "inuse_objects"), 1);
    ctl_refresh();
    CHECK_EQ(ctl_span(ids[DEEP], "parent"), ids[DEEP - 1]);
    for (int i = DEEP; i-- > 0;) {
        CURRENT_IS(ids[i + 1]);
        CHECK_EQ(jespan_exit(spans[i]), 0);
        jespan_close(spans[i]);
    }
    CURRENT_IS(ids[0]);
    F(free)(p);
    CHECK_EQ(ctl_span(ids[DEEP], "inuse_objects"), 0);
}

static void nested_with_itself(void)
{
    jespan_context_t base = jespan_current();
    jespan_span_t *span = open_at(&site_a, JESPAN_ROOT);
    jespan_context_t id = spans_context(span);
    uint64_t enters = ctl_span(id, "enters");
    for (int i = 0; i < DEEP; i++)
        CHECK_EQ(jespan_enter(span), 0);
    CHECK_EQ(ctl_span(id, "enters"), enters + DEEP);
    for (int i = 0; i < DEEP; i++) {
        CURRENT_IS(id);
        CHECK_EQ(jespan_exit(span), 0);
    }
    CURRENT_IS(base);
    CHECK_EQ(jespan_exit(span), EPERM);
    jespan_close(span);
}

/* Enters a, b, c, and exits them in every order: current is the last of those still entered. */
static void exit_in_any_order(void)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    const struct jespan_site *sites[3] = {&site_a, &site_b, &site_c};
    jespan_context_t base = jespan_current(), ids[3];
    jespan_span_t *spans[3];
    for (int i = 0; i < 3; i++) {
        spans[i] = open_at(sites[i], JESPAN_ROOT);
        ids[i] = spans_context(spans[i]);
    }
    for (int o = 0; o < 6; o++) {
        bool in[3] = {true, true, true};
        for (int i = 0; i < 3; i++)
            CHECK_EQ(jespan_enter(spans[i]), 0);
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(jespan_exit(spans[orders[o][i]]), 0);
            in[orders[o][i]] = false;
            CURRENT_IS(in[2] ? ids[2] : in[1] ? ids[1] : in[0] ? ids[0] : base);
        }
    }
    for (int i = 0; i < 3; i++)
        jespan_close(spans[i]);
}

/* a b a, then exit a: the second enter of a is undone, so b is current. */
static void re_entry(void)
{
    jespan_context_t base = jespan_current();
    jespan_span_t *a = open_at(&site_a, JESPAN_ROOT), *b = open_at(&site_b, JESPAN_ROOT);
    jespan_context_t in_a = spans_context(a), in_b = spans_context(b);
    jespan_enter(a);
    jespan_enter(b);
    jespan_enter(a);
    CURRENT_IS(in_a);
    jespan_exit(a);
    CURRENT_IS(in_b);
    jespan_exit(a);
    CURRENT_IS(in_b);
    CHECK_EQ(jespan_exit(a), EPERM);
    jespan_exit(b);
    CURRENT_IS(base);
    jespan_close(a);
    jespan_close(b);
}

static void closed_while_entered(void)
{
    jespan_context_t base = jespan_current();
    jespan_span_t *span = open_at(&site_c, JESPAN_ROOT);
    jespan_enter(span);
    jespan_context_t id = jespan_current();
    jespan_close(span);
    CURRENT_IS(id);
    CHECK_EQ(jespan_enter(span), EINVAL);
    void *p = F(malloc)(64);
    CHECK_EQ(jespan_exit(span), 0);
    CURRENT_IS(base);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 1); /* objects that a closed span left still belong to it */
    F(free)(p);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 0);
}

static void what_is_credited(void)
{
    jespan_span_t *a = open_at(&site_a, JESPAN_ROOT), *b = open_at(&site_b, JESPAN_ROOT);
    jespan_context_t in_a = spans_context(a), in_b = spans_context(b);
    uint64_t requested = ctl_span(in_a, "alloc_requested_bytes"), freed = ctl_span(in_a, "free_objects");
    jespan_enter(a);
    void *p = F(malloc)(100), *q = F(malloc)(3000);
    jespan_exit(a);
    CHECK_EQ(ctl_span(in_a, "inuse_objects"), 2);
    CHECK_EQ(ctl_span(in_a, "inuse_bytes"), F(malloc_usable_size)(p) + F(malloc_usable_size)(q));
    CHECK_EQ(ctl_span(in_a, "alloc_requested_bytes"), requested + 3100);
    jespan_enter(b);
    F(free)(p);
    CHECK_EQ(ctl_span(in_a, "inuse_objects"), 1);
    CHECK_EQ(ctl_span(in_b, "free_objects"), 0);
    q = F(realloc)(q, 6000); /* counts as a free for a and as an allocation for b */
    jespan_exit(b);
    CHECK_EQ(ctl_span(in_a, "inuse_objects"), 0);
    CHECK_EQ(ctl_span(in_a, "free_objects"), freed + 2);
    CHECK_EQ(ctl_span(in_b, "inuse_objects"), 1);
    CHECK_EQ(ctl_span(in_b, "inuse_bytes"), F(malloc_usable_size)(q));
    F(free)(q);
    jespan_enter(a);
    p = F(malloc)(100000);
    jespan_exit(a);
    jespan_enter(b);
    CHECK_EQ(F(xallocx)(p, 100000, 0, 0), F(malloc_usable_size)(p)); /* keeps the size, and so the context */
    CHECK_EQ(ctl_span(in_a, "inuse_objects"), 1);
    F(xallocx)(p, 60000, 0, 0); /* changes the size: as realloc */
    CHECK_EQ(ctl_span(in_a, "inuse_objects"), 0);
    CHECK_EQ(ctl_span(in_b, "inuse_bytes"), F(malloc_usable_size)(p));
    jespan_exit(b);
    F(free)(p);
    jespan_close(a);
    jespan_close(b);
}

/* The same path is the same context. Other labels, another site or another parent make another context. */
static void interning(void)
{
    struct jespan_label x = {"k", "x"}, y = {"k", "y"}, both[2] = {x, {"l", "x"}};
    const struct jespan_site twin = site_a;
    jespan_span_t *s[6] = {
        open_at(&site_a, JESPAN_ROOT),
        open_at(&twin, JESPAN_ROOT),
        jespan_open(&site_a, JESPAN_ROOT, &x, 1),
        jespan_open(&site_a, JESPAN_ROOT, &y, 1),
        jespan_open(&site_a, JESPAN_ROOT, both, 2),
        open_at(&site_b, JESPAN_ROOT),
    };
    for (int i = 0; i < 6; i++)
        for (int j = 0; j < i; j++)
            CHECK_EQ(spans_context(s[i]) == spans_context(s[j]), i == 1 && j == 0);
    jespan_span_t *below = open_at(&site_b, spans_context(s[0]));
    CHECK(spans_context(below) != spans_context(s[5]));
    ctl_refresh();
    CHECK_EQ(ctl_span(spans_context(below), "parent"), spans_context(s[0]));
    CHECK_EQ(ctl_span(spans_context(s[0]), "parent"), JESPAN_ROOT);
    CHECK(strcmp(ctl_span_text(spans_context(s[0]), "kind"), "span") == 0);
    jespan_close(below);
    for (int i = 0; i < 6; i++)
        jespan_close(s[i]);
}

static jespan_context_t scope_return(void)
{
    JESPAN("returns");
    return jespan_current();
}

/* A block's span ends with the block, in whatever way the block is left. */
static void scopes(void)
{
    jespan_context_t base = jespan_current(), first = 0;
    for (int i = 0; i < 1000; i++) {
        JESPAN("loop", "parity", i % 2 ? "odd" : "even");
        CHECK(jespan_current() != base);
        first = i == 0 ? jespan_current() : first;
        CHECK_EQ(jespan_current() == first, i % 2 == 0);
        if (i % 3 == 0)
            continue;
        if (i == 998)
            break;
    }
    CURRENT_IS(base);
    CHECK(scope_return() != base);
    CURRENT_IS(base);
    for (int i = 0; i < 3; i++) {
        JESPAN("outer");
        jespan_context_t outer = jespan_current();
        {
            JESPAN("inner");
            CHECK(jespan_current() != outer);
            if (i == 1)
                goto out;
        }
        CURRENT_IS(outer);
    }
out:
    CURRENT_IS(base);
}

static void scope_is_described(void)
{
    JESPAN("described", "key", "value");
    uint32_t line = __LINE__ - 1;
    jespan_context_t id = jespan_current();
    ctl_refresh();
    CHECK(strcmp(ctl_span_text(id, "name"), "described") == 0);
    CHECK(strcmp(ctl_span_text(id, "file"), __FILE__) == 0);
    CHECK_EQ(ctl_span(id, "line"), line);
    CHECK_EQ(ctl_span(id, "parent"), JESPAN_ROOT);
}

static jmp_buf back;

static __attribute__((noinline)) void jump_out(void) /* the block's variable is in a frame that is gone */
{
    JESPAN("jumped past");
    longjmp(back, 1);
}

/* After a longjmp() out of a block, its span stays entered until the enclosing span ends. */
static void scope_and_longjmp(void)
{
    jespan_context_t base = jespan_current();
    for (volatile int i = 0; i < 100; i++) {
        JESPAN("catches");
        if (setjmp(back) == 0)
            jump_out();
    }
    CURRENT_IS(base);
}

static __attribute__((noinline)) jespan_context_t in_inner_block(bool jumps)
{
    char frame[1000];
    opaque_pointer(frame);
    JESPAN("inner");
    if (jumps)
        longjmp(back, 1);
    return jespan_current();
}

static __attribute__((noinline)) jespan_context_t in_a_block(bool jumps)
{
    JESPAN("outer");
    return in_inner_block(jumps);
}

static __attribute__((noinline)) jespan_context_t in_a_labelled_block(bool jumps)
{
    JESPAN_WITH("outer", JESPAN_LABEL_INT("n", 7));
    return in_inner_block(jumps);
}

static __attribute__((noinline)) jespan_context_t in_a_credit(bool jumps)
{
    JESPAN_CREDIT(JESPAN_ROOT);
    return in_inner_block(jumps);
}

/* Nothing encloses the blocks. They end when the outer one is entered again. */
static void longjmp_out_of_two_blocks(void)
{
    jespan_context_t (*const all[])(bool) = {in_a_block, in_a_labelled_block, in_a_credit};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        jespan_context_t base = jespan_current(), inside = all[k](false);
        for (volatile int i = 0; i < 100; i++) {
            if (setjmp(back) == 0)
                all[k](true);
            else if (i % 3 == 0)
                CHECK_EQ(all[k](false), inside);
        }
        CHECK_EQ(all[k](false), inside);
        CURRENT_IS(base);
    }
}

static void *attached_worker(void *argument)
{
    jespan_context_t id = *(jespan_context_t *)argument, own = jespan_current();
    CHECK(own != id);
    CHECK_EQ(jespan_attach(id), own);
    CURRENT_IS(id);
    void *p = F(malloc)(200);
    {
        JESPAN("inside");
        CHECK(jespan_current() != id);
        ctl_refresh();
        CHECK_EQ(ctl_span(jespan_current(), "parent"), id);
    }
    CURRENT_IS(id);
    CHECK_EQ(jespan_attach(own), id);
    CURRENT_IS(own);
    return p;
}

static void *on_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    void *result = NULL;
    CHECK_EQ(pthread_create(&thread, NULL, run, argument), 0);
    pthread_join(thread, &result);
    return result;
}

static void attachment(void)
{
    jespan_span_t *span = open_at(&site_c, JESPAN_ROOT);
    jespan_context_t id = spans_context(span), base = jespan_current();
    void *p = on_thread(attached_worker, &id);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 1);
    F(free)(p);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 0);
    CHECK_EQ(jespan_attach(JESPAN_CURRENT), base);
    CURRENT_IS(base);
    CHECK_EQ(jespan_attach(id), base);
    CHECK_EQ(jespan_attach(JESPAN_BASE), id); /* the thread's own context, outside of all spans */
    CURRENT_IS(base);
    CHECK_EQ(jespan_attach(id), base);
    CHECK_EQ(jespan_attach(base), id);
    CURRENT_IS(base);
    jespan_close(span);
}

/* An attachment that is not undone ends with the block or span in which it was made. */
static void attached_for_good(void)
{
    jespan_span_t *span = open_at(&site_c, JESPAN_ROOT), *outer = open_at(&site_c, JESPAN_ROOT);
    jespan_context_t base = jespan_current(), id = spans_context(span);
    {
        JESPAN("block");
        jespan_attach(id);
    }
    CURRENT_IS(base);
    {
        JESPAN_CREDIT(id);
        jespan_attach(JESPAN_BASE);
        jespan_attach(id);
        JESPAN("inside");
        jespan_attach(base);
    }
    CURRENT_IS(base);
    CHECK_EQ(jespan_enter(outer), 0);
    jespan_context_t in_outer = jespan_current();
    jespan_attach(id);
    CHECK_EQ(jespan_exit(outer), 0);
    CURRENT_IS(base);
    CHECK_EQ(jespan_enter(outer), 0); /* an attachment in a span that stays entered stays too */
    {
        JESPAN("block");
        CHECK_EQ(jespan_enter(span), 0);
        jespan_attach(base);
    }
    CURRENT_IS(base);
    CHECK_EQ(jespan_exit(span), 0);
    CURRENT_IS(in_outer);
    CHECK_EQ(jespan_exit(outer), 0);
    CURRENT_IS(base);
    jespan_close(outer);
    jespan_close(span);
}

/* A block that longjmp() left ends with the span that was entered before it. A block whose frame is still there does
 * not. */
static void longjmp_in_entered_span(void)
{
    jespan_span_t *span = open_at(&site_c, JESPAN_ROOT);
    jespan_context_t base = jespan_current();
    for (volatile int i = 0; i < 100; i++) {
        CHECK_EQ(jespan_enter(span), 0);
        if (setjmp(back) == 0)
            jump_out();
        CHECK_EQ(jespan_exit(span), 0);
        CURRENT_IS(base);
    }
    CHECK_EQ(jespan_enter(span), 0);
    {
        JESPAN("live");
        jespan_context_t live = jespan_current();
        CHECK_EQ(jespan_exit(span), 0);
        CURRENT_IS(live);
    }
    CURRENT_IS(base);
    jespan_close(span);
}

/* A context that is attached elsewhere outlives the span that it came from. */
static void attached_and_closed(void)
{
    jespan_span_t *span = open_at(&site_c, JESPAN_ROOT);
    jespan_context_t base = jespan_current(), id = spans_context(span);
    jespan_attach(id);
    jespan_close(span);
    CURRENT_IS(id);
    void *p = F(malloc)(10);
    CHECK_EQ(ctl_span(id, "inuse_objects"), 1);
    CHECK_EQ(jespan_attach(base), id);
    F(free)(p);
}

static void *named(void *argument)
{
    pthread_setname_np(pthread_self(), argument);
    char expected[32] = "thread:";
    strcat(expected, argument);
    jespan_context_t id = jespan_current();
    void *p = F(malloc)(5000);
    ctl_refresh();
    if (strcmp(ctl_span_text(id, "name"), expected) != 0)
        check_fail("a thread's context is %s, not %s", ctl_span_text(id, "name"), expected);
    CHECK(strcmp(ctl_span_text(id, "kind"), "thread") == 0);
    CHECK_EQ(ctl_span(id, "parent"), JESPAN_ROOT);
    CHECK(ctl_span(id, "inuse_objects") > 0);
    *(jespan_context_t *)p = id;
    return p;
}

/* There is one context for each thread name. Objects of ended threads stay in it. */
static void thread_contexts(void)
{
    static char alpha[] = "alpha", beta[] = "beta";
    jespan_context_t *p = on_thread(named, alpha), *q = on_thread(named, alpha), *r = on_thread(named, beta);
    CHECK_EQ(*p, *q);
    CHECK(*p != *r);
    CHECK_EQ(ctl_span(*p, "inuse_objects"), 2);
    CHECK_EQ(ctl_span(*p, "inuse_bytes"), F(malloc_usable_size)(p) + F(malloc_usable_size)(q));
    F(free)(p);
    F(free)(q);
    F(free)(r);
}

int main(void)
{
    nested_with_itself();
    exit_in_any_order();
    re_entry();
    closed_while_entered();
    what_is_credited();
    interning();
    scopes();
    scope_is_described();
    scope_and_longjmp();
    longjmp_out_of_two_blocks();
    attachment();
    attached_for_good();
    longjmp_in_entered_span();
    attached_and_closed();
    thread_contexts();
    deep_nesting();
    ctl_check_identity("the end");
    return check_result();
}
