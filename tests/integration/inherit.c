/* SPDX-License-Identifier: BSD-2-Clause */
/* inherit: a new thread starts in the context of its creator. That context stays in use until then, and nothing else
 * about the thread changes. The program has a pthread_create() of its own before jespan's, as programs with wrappers
 * do; inherit_std.cc has none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <threads.h>

#include <jespan/jespan.h>

#include "../support/cases.h"
#include "../support/ctl.h"

#define CHURN 10000
#define SITES 16
#define STACK_BYTES ((size_t)128 * 1024)

JESPAN_SITE(site, "creator");

/* ---- The program's own wrapper ---- */

static unsigned wrapped;

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument)
{
    typedef int create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    create *next = (create *)(uintptr_t)dlsym(RTLD_NEXT, "pthread_create");
    wrapped++;
    return next(thread, attributes, run, argument);
}

/* ---- Helpers ---- */

static jespan_span_t *enter_new(const struct jespan_site *of, const char *label)
{
    const struct jespan_label labels[] = {{"label", label}};
    jespan_span_t *span = jespan_open(of, JESPAN_ROOT, labels, 1);
    CHECK(span != NULL);
    CHECK_EQ(jespan_enter(span), 0);
    return span;
}

static void leave(jespan_span_t *span)
{
    CHECK_EQ(jespan_exit(span), 0);
    jespan_close(span);
}

static void *join(pthread_t thread)
{
    void *result = NULL;
    CHECK_EQ(pthread_join(thread, &result), 0);
    return result;
}

static void *on_thread(void *(*run)(void *), void *argument)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, run, argument);
    CHECK_EQ(error, 0);
    return error ? NULL : join(thread);
}

static void *current(void *unused)
{
    (void)unused;
    return (void *)(uintptr_t)jespan_current();
}

static jespan_context_t context_of_thread(void)
{
    return (jespan_context_t)(uintptr_t)on_thread(current, NULL);
}

static bool is_own_context(jespan_context_t id)
{
    ctl_refresh();
    return !strcmp(ctl_span_text(id, "kind"), "thread");
}

/* ---- What is inherited ---- */

static void *allocate_below(void *expected)
{
    CHECK_EQ(jespan_current(), *(jespan_context_t *)expected);
    void *p = F(malloc)(1000);
    JESPAN("below");
    ctl_refresh();
    CHECK_EQ(ctl_span(jespan_current(), "parent"), *(jespan_context_t *)expected);
    return p;
}

static void starts_in_span(void)
{
    jespan_span_t *span = enter_new(&site, "one");
    jespan_context_t id = context_of_thread(); /* which leaves its stack to the next one, with what libc allocated for it */
    uint64_t had = ctl_span(id, "inuse_objects"), bytes = ctl_span(id, "inuse_bytes");
    void *p = on_thread(allocate_below, &id);
    CHECK_EQ(ctl_span(id, "inuse_objects"), had + 1);
    CHECK_EQ(ctl_span(id, "inuse_bytes"), bytes + F(malloc_usable_size)(p));
    CHECK_EQ(jespan_current(), id);
    F(free)(p);
    leave(span);
    CHECK(wrapped > 0);
}

static void starts_in_attached(void)
{
    jespan_span_t *span = enter_new(&site, "attached");
    jespan_context_t id = jespan_current();
    CHECK_EQ(jespan_exit(span), 0);
    jespan_context_t previous = jespan_attach(id);
    CHECK_EQ(context_of_thread(), id);
    jespan_attach(previous);
    CHECK(is_own_context(context_of_thread()));
    jespan_close(span);
}

static void *current_named(void *name)
{
    pthread_setname_np(pthread_self(), name);
    return current(NULL);
}

/* Outside any span a thread has a context of its own. */
static void outside_any_span(void)
{
    static char name[] = "another";
    jespan_context_t id = (jespan_context_t)(uintptr_t)on_thread(current_named, name);
    CHECK(id != jespan_current());
    CHECK(is_own_context(id));
}

static void *create_again(void *unused)
{
    (void)unused;
    return on_thread(current, NULL);
}

static void passed_on(void)
{
    jespan_span_t *span = enter_new(&site, "grandparent");
    CHECK_EQ((uintptr_t)on_thread(create_again, NULL), jespan_current());
    leave(span);
}

/* Memory that is allocated for another owner for the length of a block says nothing about who creates a thread. */
static void not_the_owner(void)
{
    jespan_span_t *owner = jespan_open(&site, JESPAN_ROOT, NULL, 0);
    CHECK_EQ(jespan_enter(owner), 0);
    jespan_context_t owners = jespan_current();
    CHECK_EQ(jespan_exit(owner), 0);
    {
        JESPAN_CREDIT(owners);
        CHECK(is_own_context(context_of_thread()));
    }
    jespan_span_t *span = enter_new(&site, "not the owner");
    jespan_context_t id = jespan_current();
    {
        JESPAN_CREDIT(owners);
        CHECK_EQ(context_of_thread(), id);
    }
    leave(span);
    jespan_close(owner);
}

static void is_off_by_default(void)
{
    jespan_span_t *span = enter_new(&site, "off");
    CHECK(is_own_context(context_of_thread()));
    leave(span);
}

static jespan_context_t before_main;
static pthread_t thread_before_main;

/* Before any library's constructor; the configuration is read there. */
static void before_constructors(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "before_constructors") != 0)
        return;
    jespan_span_t *span = enter_new(&site, "early");
    before_main = jespan_current();
    CHECK_EQ(pthread_create(&thread_before_main, NULL, current, NULL), 0);
    leave(span);
}
static void (*const preinit)(int, char **) __attribute__((section(".preinit_array"), used)) = before_constructors;

static void works_before_constructors(void)
{
    CHECK_EQ((uintptr_t)join(thread_before_main), before_main);
}

/* ---- What is not changed ---- */

static void *exits(void *value)
{
    pthread_exit(value);
}

static void *waits(void *ready)
{
    sem_post(ready);
    while (pause())
        ;
    return NULL;
}

static void *stack_size(void *unused)
{
    (void)unused;
    pthread_attr_t attributes;
    size_t bytes = 0;
    CHECK_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
    pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_destroy(&attributes);
    return (void *)bytes;
}

static void ends_as_ever(void)
{
    jespan_span_t *span = enter_new(&site, "ends");
    pthread_t thread;
    pthread_attr_t attributes;
    sem_t ready;
    int value;
    CHECK(on_thread(exits, &value) == &value);
    sem_init(&ready, 0, 0);
    CHECK_EQ(pthread_create(&thread, NULL, waits, &ready), 0);
    sem_wait(&ready);
    CHECK_EQ(pthread_cancel(thread), 0);
    CHECK(join(thread) == PTHREAD_CANCELED);
    pthread_attr_init(&attributes);
    CHECK_EQ(pthread_attr_setstacksize(&attributes, STACK_BYTES), 0);
    CHECK_EQ(pthread_create(&thread, &attributes, stack_size, NULL), 0);
    CHECK_EQ((uintptr_t)join(thread), STACK_BYTES);
    pthread_attr_destroy(&attributes);
    leave(span);
}

/* The smallest stack there may be. */
static void small_stack(void)
{
    jespan_span_t *span = enter_new(&site, "small");
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK_EQ(pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)), 0);
    CHECK_EQ(pthread_create(&thread, &attributes, current, NULL), 0);
    CHECK_EQ((uintptr_t)join(thread), jespan_current());
    pthread_attr_destroy(&attributes);
    leave(span);
}

static int current_c11(void *unused)
{
    (void)unused;
    return (int)jespan_current();
}

static void c11_threads(void)
{
    thrd_t thread;
    int result = -1;
    jespan_span_t *span = enter_new(&site, "c11");
    CHECK_EQ(thrd_create(&thread, current_c11, NULL), thrd_success);
    CHECK_EQ(thrd_join(thread, &result), thrd_success);
    CHECK_EQ(result, jespan_current());
    leave(span);
}

static void *post(void *done)
{
    F(free)(F(malloc)(100));
    CHECK(!is_own_context(jespan_current()));
    sem_post(done);
    return NULL;
}

static void detached(void)
{
    static sem_t done;
    pthread_t thread;
    pthread_attr_t attributes;
    jespan_span_t *span = enter_new(&site, "detached");
    sem_init(&done, 0, 0);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    for (int i = 0; i < 100; i++)
        CHECK_EQ(pthread_create(&thread, &attributes, post, &done), 0);
    pthread_attr_destroy(&attributes);
    for (int i = 0; i < 100; i++)
        sem_wait(&done);
    leave(span);
}

static void forked(void)
{
    jespan_span_t *span = enter_new(&site, "forked");
    pid_t pid = fork();
    if (pid == 0) {
        CHECK_EQ(context_of_thread(), jespan_current());
        _exit(check_result());
    }
    CHECK_CHILD(pid);
    leave(span);
}

/* jemalloc's own thread, which lives as long as the process, stays out of the span that happens to wake it. */
static void not_jemallocs_thread(void)
{
    bool on = true;
    jespan_span_t *span = enter_new(&site, "jemalloc");
    uint64_t enters = ctl_span(jespan_current(), "enters");
    CHECK_EQ(mallctl("background_thread", NULL, NULL, &on, sizeof on), 0);
    CHECK_EQ(context_of_thread(), jespan_current());
    CHECK_EQ(ctl_span(jespan_current(), "enters"), enters + 1);
    leave(span);
}

/* ---- What is kept in use, and no longer ---- */

static const char *label_of(char *text, size_t bytes, const char *what, int i)
{
    snprintf(text, bytes, "%s %d", what, i);
    return text;
}

/* More contexts than there is room for: each comes in place of one that nothing refers to. */
static void fill_contexts(int round)
{
    char text[32];
    JESPAN_SITE(filler, "filler");
    for (int i = 0; i < 80; i++)
        leave(enter_new(&filler, label_of(text, sizeof text, "f", round * 80 + i)));
}

static void *name_of_current(void *unused)
{
    (void)unused;
    F(free)(F(malloc)(300));
    return (void *)(uintptr_t)ctl_span_text(jespan_current(), "name");
}

/* The creator has left and closed its span, and others want its context, before the thread gets the processor. */
static void kept_until_attached(void)
{
    static char names[SITES][16];
    char text[32];
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    for (int i = 0; i < 500; i++) {
        const struct jespan_site of = {.name = label_of(names[i % SITES], sizeof names[0], "site", i % SITES)};
        pthread_t thread;
        jespan_span_t *span = enter_new(&of, label_of(text, sizeof text, "l", i));
        CHECK_EQ(pthread_create(&thread, NULL, name_of_current, NULL), 0);
        leave(span);
        fill_contexts(i);
        CHECK(!strcmp(join(thread), names[i % SITES]));
    }
}

static _Atomic bool has_begun;

static void *begin(void *unused)
{
    has_begun = true;
    return unused;
}

static bool has_label(jespan_context_t id, const char *label)
{
    char name[64], labels[64] = "";
    size_t bytes = sizeof labels - 1;
    return mallctl(ctl_span_name(name, sizeof name, id, "labels"), labels, &bytes, NULL, 0) == 0 &&
           strcmp(labels + strlen("label") + 1, label) == 0;
}

/* A child that is forked while a thread is being created has neither that thread nor the context that was kept for it. */
static void forked_before_attached(void)
{
    char text[32];
    int seen = 0;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one); /* so that the creator comes first */
    context_of_thread(); /* whose stack, and what libc allocates for it, is used again */
    for (int i = 0; i < 20000 && seen < 5; i++) {
        pthread_t thread;
        int status = -1;
        has_begun = false;
        jespan_span_t *span = enter_new(&site, label_of(text, sizeof text, "forked", i));
        jespan_context_t id = jespan_current();
        CHECK_EQ(pthread_create(&thread, NULL, begin, NULL), 0);
        leave(span);
        pid_t pid = fork();
        if (pid == 0) {
            if (has_begun)
                _exit(2);
            fill_contexts(0);
            _exit(has_label(id, text));
        }
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        join(thread);
        if (status == 2 << 8)
            continue;
        CHECK_EQ(status, 0);
        seen++;
    }
    CHECK_EQ(seen, 5);
}

#define RECORD_BYTES 80 /* what `jespan threads` finds of a thread that has ended */

/* 10,000 contexts where there is room for 64: none of them is kept by a thread that is gone. */
static void churn(void)
{
    char text[32];
    uint64_t meta = 0;
    for (int i = 0; i < CHURN; i++) {
        jespan_span_t *span = enter_new(&site, label_of(text, sizeof text, "churn", i));
        if (context_of_thread() != jespan_current())
            check_fail("thread %d is elsewhere", i);
        leave(span);
        meta = i == CHURN / 10 ? ctl_u64("spans.stats.meta_bytes") : meta;
    }
    CHECK_EQ(ctl_u64("spans.stats.overflow"), 0);
    CHECK(ctl_u64("spans.stats.meta_bytes") - meta <= CHURN * RECORD_BYTES);
    ctl_check_identity("after the churn");
}

/* No thread, so nothing must be left of it. */
static void failed_creation(void)
{
    char text[32];
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    CHECK_EQ(pthread_attr_setstacksize(&attributes, (size_t)1 << 50), 0);
    uint64_t meta = 0;
    for (int i = 0; i < 1000; i++) {
        jespan_span_t *span = enter_new(&site, label_of(text, sizeof text, "failed", i));
        CHECK_EQ(pthread_create(&thread, &attributes, current, NULL), EAGAIN);
        leave(span);
        meta = i == 100 ? ctl_u64("spans.stats.meta_bytes") : meta;
    }
    CHECK_EQ(ctl_u64("spans.stats.overflow"), 0);
    CHECK_EQ(ctl_u64("spans.stats.meta_bytes"), meta);
    pthread_attr_destroy(&attributes);
    ctl_check_identity("after failures");
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"starts_in_span", starts_in_span, NULL, "inherit:true"},
        {"starts_in_attached", starts_in_attached, NULL, "inherit:true"},
        {"outside_any_span", outside_any_span, NULL, "inherit:true"},
        {"passed_on", passed_on, NULL, "inherit:true"},
        {"not_the_owner", not_the_owner, NULL, "inherit:true"},
        {"is_off_by_default", is_off_by_default, NULL, NULL},
        {"before_constructors", works_before_constructors, NULL, "inherit:true"},
        {"ends_as_ever", ends_as_ever, NULL, "inherit:true"},
        {"small_stack", small_stack, NULL, "inherit:true"},
        {"c11_threads", c11_threads, NULL, "inherit:true"},
        {"detached", detached, NULL, "inherit:true"},
        {"forked", forked, NULL, "inherit:true"},
        {"not_jemallocs_thread", not_jemallocs_thread, NULL, "inherit:true"},
        {"kept_until_attached", kept_until_attached, NULL, "inherit:true,max_contexts:64"},
        {"forked_before_attached", forked_before_attached, NULL, "inherit:true,max_contexts:64"},
        {"churn", churn, NULL, "inherit:true,max_contexts:64"},
        {"failed_creation", failed_creation, NULL, "inherit:true,max_contexts:64"},
    };
    return cases_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
