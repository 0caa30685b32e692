/* SPDX-License-Identifier: BSD-2-Clause */
/* Failures of tracing-flame 0.2.0 that could apply to jespan, one case each, named after the failure. Write errors
 * that it ignores are in dump.sh and host.c. tools/check-hot-path checks that entering and leaving takes no lock. */
#define _GNU_SOURCE
#include <sys/stat.h>

#include "../support/cases.h"
#include "../support/spans.h"

static size_t dump_bytes(void)
{
    char path[] = "/tmp/jespan-test.XXXXXX";
    const char *name = path;
    struct stat file;
    close(mkstemp(path));
    CHECK_EQ(mallctl("spans.dump", NULL, NULL, &name, sizeof name), 0);
    CHECK_EQ(stat(path, &file), 0);
    unlink(path);
    return (size_t)file.st_size;
}

/* It wrote 170 MB for 2,000,000 spans. A dump of jespan grows with the number of contexts, and not with the number of
 * spans. */
static void a_line_per_event(void)
{
    size_t few = 0;
    if (!case_has_exporter())
        return;
    for (uint64_t i = 0, n = check_rounds("EVENTS", 2000000); i < n; i++) {
        JESPAN("request");
        JESPAN("parse");
        F(free)(opaque_pointer(F(malloc)(i % 1000)));
        if (i == 1000)
            few = dump_bytes();
    }
    size_t many = dump_bytes();
    if (few == 0 || many > few + 200)
        check_fail("a dump grew from %zu to %zu bytes", few, many);
}

static void *starts_late(void *unused)
{
    (void)unused;
    pthread_setname_np(pthread_self(), "late");
    jespan_context_t *id = F(malloc)(sizeof *id);
    *id = jespan_current();
    spans_work(20);
    JESPAN("late");
    return id;
}

/* The program has run for 200 ms when the thread starts. */
static void a_threads_first_line_is_charged_all_time_since_the_start(void)
{
    spans_work(200);
    uint64_t before = spans_now_ns();
    jespan_context_t *id = spans_on_thread(starts_late, NULL);
    uint64_t elapsed = spans_now_ns() - before;
    CHECK(strcmp(ctl_span_text(*id, "name"), "thread:late") == 0);
    spans_check_time(ctl_span(*id, "busy_ns"), 20000000, elapsed, "a thread's own");
    F(free)(id);
}

int main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        {"a_line_per_event", a_line_per_event, NULL, NULL},
        {"a_threads_first_line_is_charged_all_time_since_the_start",
         a_threads_first_line_is_charged_all_time_since_the_start, NULL, NULL},
    };
    return cases_main(argc, argv, cases, MEMBERS(cases));
}
