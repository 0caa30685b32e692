/* SPDX-License-Identifier: BSD-2-Clause */
/* Other things in the process: fork handlers of others, jemalloc's threads, limits on files and stacks. Each case
 * once went wrong. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <jespan/jespan.h>

#include "../support/cases.h"
#include "../support/ctl.h"

#define SMALL_STACK_BYTES 16384         /* PTHREAD_STACK_MIN, of which thread-local storage takes nearly half */
#define DUMP_STACK_BYTES (16384 + 8192) /* the first dump loads the exporter, which leaves little of the above */

/* ---- Fork handlers ---- */

/* Sizes that were not allocated before: new slabs, header tables, contexts' counters. */
static void allocate_new_sizes(void)
{
    static size_t calls;
    calls++;
    for (size_t i = 0; i < 40; i++)
        for (size_t k = 0; k < 30; k++)
            opaque_pointer(malloc(i * 97 + calls * 16));
    opaque_pointer(malloc(calls << 16));
}

/* Before any library's constructor, so that libjespan's comes later; as a library that it knows nothing of does, it
 * allocates and then registers handlers that allocate. */
static void before_constructors(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "fork_handlers") != 0)
        return;
    opaque_pointer(malloc(100));
    pthread_atfork(allocate_new_sizes, allocate_new_sizes, allocate_new_sizes);
}
static void (*const preinit)(int, char **) __attribute__((section(".preinit_array"), used)) = before_constructors;

static void fork_handlers(void)
{
    CHECK_EQ(pthread_atfork(allocate_new_sizes, allocate_new_sizes, allocate_new_sizes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        allocate_new_sizes();
        ctl_check_identity("in the child");
        _exit(check_result());
    }
    CHECK_CHILD(pid);
    ctl_check_identity("in the parent");
}

/* ---- The dynamic linker ---- */

/* The next dlsym(), which may be ours in the first flush, frees the message. */
static void unread_dl_error(void)
{
    void *p[200];
    CHECK(dlopen("/nonexistent/library.so", RTLD_NOW) == NULL);
    for (int i = 0; i < 200; i++)
        p[i] = malloc(500);
    for (int i = 0; i < 200; i++)
        free(p[i]);
    ctl_check_identity("after a failed dlopen");
}

/* ---- jemalloc's threads ---- */

/* jemalloc calls pthread_create, and so us, with its lock for control taken. The thread that it begins may begin others,
 * each of which libc allocates something for. */
static void background_thread_later(void)
{
    bool on = true;
    CHECK_EQ(mallctl("background_thread", NULL, NULL, &on, sizeof on), 0);
    ctl_await_identity("with a background thread");
}

/* The same, where jemalloc's thread needs memory of an arena that nobody has used yet. */
static void background_thread_in_arena(void)
{
    static const struct jespan_site site = {"arena", NULL, NULL, 0, {JESPAN_ARENA}};
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, NULL, 0);
    CHECK_EQ(jespan_enter(span), 0);
    background_thread_later();
    opaque_pointer(malloc(100));
    CHECK_EQ(jespan_exit(span), 0);
    jespan_close(span);
    ctl_await_identity("with an arena");
}

/* The same in its own first use, which is in the middle of ours. */
static void background_thread_at_start(void)
{
    struct stat tasks;
    CHECK_EQ(stat("/proc/self/task", &tasks), 0);
    CHECK_EQ(tasks.st_nlink, 2 + 2); /* this thread and that one */
    ctl_refresh();
    CHECK_EQ(ctl_u64("stats.background_thread.num_threads"), 1);
    ctl_await_identity("with a background thread");
}

/* ---- Cancellation ---- */

static void open_numbered(unsigned i)
{
    JESPAN_SITE(site, "numbered");
    const struct jespan_label number = JESPAN_LABEL_INT("number", i);
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, &number, 1);
    opaque_pointer(malloc(10)); /* stays, so the context does too */
    jespan_enter(span);
    opaque_pointer(malloc(10));
    jespan_exit(span);
    jespan_close(span);
}

/* Its span is the first that has no context, of which a message tells under a lock. */
static void *open_when_cancelled(void *unused)
{
    (void)unused;
    pthread_cancel(pthread_self());
    for (unsigned i = 0; i < 1000; i++)
        open_numbered(i);
    pthread_testcancel();
    return NULL;
}

static void cancelled_in_a_message(void)
{
    pthread_t thread;
    void *result;
    CHECK_EQ(pthread_create(&thread, NULL, open_when_cancelled, NULL), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(result == PTHREAD_CANCELED);
    open_numbered(0);
    CHECK(ctl_u64("spans.stats.lost_messages") == 0);
    ctl_check_identity("after a cancelled thread");
}

/* ---- Limits ---- */

static int dump(const char *path)
{
    return mallctl("spans.dump", NULL, NULL, &path, sizeof path);
}

/* An error, no signal now or later, and nothing left behind. */
static void file_size_limit(void)
{
    struct rlimit none = {0, RLIM_INFINITY};
    char directory[] = "/tmp/jespan-test.XXXXXX", path[64];
    sigset_t set;
    CHECK(mkdtemp(directory) != NULL);
    snprintf(path, sizeof path, "%s/x.pb.gz", directory);
    CHECK_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
    CHECK_EQ(dump(path), case_has_exporter() ? EFBIG : ENOENT);
    CHECK(sigpending(&set) == 0 && !sigismember(&set, SIGXFSZ));
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &set) == 0 && !sigismember(&set, SIGXFSZ));
    CHECK_EQ(rmdir(directory), 0);
}

/* The next ones return NULL if all was well. What the program itself needs of their stack: */
#define OWN_USE_BYTES 2048

static void *open_with_label(void *unused)
{
    char own[OWN_USE_BYTES];
    JESPAN_SITE(site, "small");
    struct jespan_label label = {"key", "value"};
    (void)unused;
    opaque_pointer(own);
    jespan_span_t *span = jespan_open(&site, JESPAN_ROOT, &label, 1);
    jespan_close(span);
    opaque_pointer(own);
    return span ? NULL : "no span";
}

static void *scope_with_label(void *outside)
{
    char own[OWN_USE_BYTES];
    opaque_pointer(own);
    JESPAN("small", "key", "value");
    opaque_pointer(own);
    return jespan_current() != *(jespan_context_t *)outside ? NULL : "no context";
}

static void *dump_to_file(void *path)
{
    char own[OWN_USE_BYTES];
    opaque_pointer(own);
    int error = dump(path);
    opaque_pointer(own);
    return error ? "no dump" : NULL;
}

static void on_small_stack(size_t bytes, void *(*function)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_t thread;
    void *wrong = NULL;
    pthread_attr_init(&attributes);
    bytes += (size_t)sysconf(_SC_THREAD_STACK_MIN) - SMALL_STACK_BYTES; /* more where registers are many */
    CHECK_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
    CHECK_EQ(pthread_create(&thread, &attributes, function, argument), 0);
    CHECK_EQ(pthread_join(thread, &wrong), 0);
    if (wrong)
        check_fail("on a small stack: %s", (char *)wrong);
    pthread_attr_destroy(&attributes);
}

static void small_stacks(void)
{
    char path[] = "/tmp/jespan-test.XXXXXX";
    jespan_context_t outside = jespan_current();
    close(mkstemp(path));
    on_small_stack(SMALL_STACK_BYTES, open_with_label, NULL);
    on_small_stack(SMALL_STACK_BYTES, scope_with_label, &outside);
    if (case_has_exporter())
        on_small_stack(DUMP_STACK_BYTES, dump_to_file, path);
    unlink(path);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"fork_handlers", fork_handlers, NULL, NULL},
        {"unread_dl_error", unread_dl_error, NULL, NULL},
        {"background_thread_later", background_thread_later, "percpu_arena:percpu", NULL},
        {"background_thread_in_arena", background_thread_in_arena, NULL, NULL},
        {"cancelled_in_a_message", cancelled_in_a_message, NULL, "max_contexts:64", CASE_SAYS_OVERFLOW(64)},
        {"background_thread_at_start", background_thread_at_start, "background_thread:true", NULL},
        {"file_size_limit", file_size_limit, NULL, NULL},
        {"small_stacks", small_stacks, NULL, NULL},
    };
    return cases_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
